"""Registered memory: the cache of registrations, and arrays that live in it."""
