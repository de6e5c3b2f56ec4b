"""Schedules: collectives as rounds of send, receive, reduce and copy, made by whoever steps."""
