"""Collective operations as schedules, one file per family: builders, and nothing that runs."""
