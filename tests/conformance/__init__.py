"""One suite, every fabric: what the library promises whatever moves the bytes.

All ranks of a world live in one process and one thread, so that tests use
non-blocking calls and step the world.  `worlds` names the fabrics.
"""
