"""Instruments that drive, watch or replace parts of the product, for tests and benchmarks.

``fabric`` and ``engine`` drive one of these call by call; ``sim`` is a fabric in memory whose order
and losses a test decides; ``fingerprint`` tells states of an engine apart; ``verbs`` plays one end
of a handshake, and holds the start with a thread that the real one is compared with.  The product
imports none of them.
"""
