"""Who this process is, how the ranks of a job find each other, and the local launcher.

Nothing here imports NumPy or the rest of the package: all of it is on the start-up path.
"""
