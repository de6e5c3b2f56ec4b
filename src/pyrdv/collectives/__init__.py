"""Collective operations, built on point-to-point messages."""
