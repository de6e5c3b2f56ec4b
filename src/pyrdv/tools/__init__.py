"""The command line and what it offers."""
