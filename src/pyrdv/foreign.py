"""Text that comes from outside (sockets, peers, files, the environment) and goes before people."""

_MOST = 400


def shown(text, most=_MOST):
    """One line that can be printed, whatever `text` holds.

    Control characters, line ends, characters that change the direction of text and bytes that are
    no UTF-8 are written as escapes, as Python does. So a stranger can neither write a line of its
    own into a log, nor hide one, nor reach a terminal's controls.

    Parameters
    ----------
    text : str or bytes
    most : int
        The longest result, in characters; a longer text is cut, and the cut is marked.

    Returns
    -------
    str
    """
    cut = len(text) > most
    text = text[:most]
    if isinstance(text, (bytes, bytearray, memoryview)):
        text = bytes(text).decode("utf-8", "backslashreplace")
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text[:most - 1] + "…" if cut or len(text) > most else text
