"""Who turns the engine's crank: the caller that waits, and later others."""
