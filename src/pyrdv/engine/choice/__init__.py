"""Which protocol a message takes, and what the decision knows."""
