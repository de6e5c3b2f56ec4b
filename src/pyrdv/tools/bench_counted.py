"""Which protocols the messages of a row took, and whether that is what the row is called by.

A benchmark compares ways to move a message by their names.  What the engine chose is in its
counters, so each row is set beside them: one whose messages went another way is refused.
"""

#: What must be counted, on all ranks together.
COUNTED = ("sends_eager", "sends_placed", "sends_rendezvous", "sends_piped", "rtrs_used")
#: The protocols of messages that are too long to go with their announcement.
LARGE = ("placed", "read", "write", "pipeline")


def protocols(counted):
    """How many messages took each protocol, of what all ranks counted; a dict by name."""
    return {
        "eager": counted["sends_eager"],
        "placed": counted["sends_placed"],
        "read": counted["sends_rendezvous"] - counted["rtrs_used"] - counted["sends_piped"],
        "write": counted["rtrs_used"],
        "pipeline": counted["sends_piped"],
    }


def text(counted):
    """The protocols of large messages, for people; eager ones may be the benchmark's own."""
    found = protocols(counted)
    return ", ".join(f"{found[name]} {name}" for name in LARGE if found[name]) or "eager"


def refusal(counted, named, messages=None, needed=()):
    """Say in words why a row is not what it is called; None if it is.

    Parameters
    ----------
    counted : dict
        Growth of the counters `COUNTED` meanwhile, over all ranks.
    named : iterable of str
        Protocols that the large messages of this row may take; empty for any.
    messages : int, optional
        How many large messages there were; None if that is not known.
    needed : iterable of str
        Protocols of which there must be at least one message.

    Returns
    -------
    str or None
    """
    found = protocols(counted)
    wrong = [f"{found[name]} by {name}" for name in LARGE
             if found[name] and named and name not in named]
    if wrong:
        return f"messages went {', '.join(wrong)}, and not by {' or '.join(named)}"
    large = sum(found[name] for name in LARGE)
    if messages is not None and large != messages:
        return f"{messages} messages were to go by {' or '.join(named or LARGE)}, but {large} did"
    missing = [name for name in needed if not found[name]]
    return f"no message went by {' or '.join(missing)}" if missing else None
