"""Every order of events of small programs, on the real engine over the simulated network."""
