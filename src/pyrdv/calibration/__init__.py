"""What messages cost over a device: measured once by two ranks of a job, and kept for the next.

``meter`` and ``registering`` time a bare fabric, without an engine; ``measuring`` makes figures of
the times; ``kept`` has them in a file per device; ``starting`` does all that when a job starts.
`pyrdv tune` and the benchmarks measure with the same.
"""
