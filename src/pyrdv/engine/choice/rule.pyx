# cython: language_level=3
"""The rule by which protocols are chosen: a function of facts and of nothing else.

The engine (``choose``) gathers the facts of a message; ``pyrdv doctor`` makes them up.
"""
from libc.string cimport memset

from pyrdv.engine.choice.costs cimport BUFFER, figures_fill, figures_pick, figures_place
from pyrdv.engine.state cimport (
    CHOICE_AUTO, CHOICE_GET, CHOICE_PIPELINE, PROTOCOL_EAGER, PROTOCOL_GET, PROTOCOL_PIPELINE,
    PROTOCOL_PLACED, PROTOCOL_PUT, REASON_ASKED, REASON_COST, REASON_CREDIT, REASON_HELD,
    REASON_NONE, REASON_OFFER, REASON_ONLY, REASON_PEER, REASON_REFUSED, REASON_SELF, REASON_SIZE,
    REASON_UNWAITED, figures_t)
from pyrdv.engine.wire cimport WIRE_HEADER

#: Each `choice_reason` in words.
REASONS = {
    REASON_NONE: "not chosen yet",
    REASON_SIZE: "small",
    REASON_CREDIT: "small, but the receiver has not taken enough of the earlier ones",
    REASON_ASKED: "PYRDV_PROTOCOL",
    REASON_ONLY: "nothing was measured or possible that could be compared",
    REASON_HELD: "its memory is registered already",
    REASON_COST: "costs less",
    REASON_UNWAITED: "costs more, but one side may compute meanwhile",
    REASON_REFUSED: "its memory could not be registered",
    REASON_OFFER: "the receiver came first",
    REASON_PEER: "the other side said so",
    REASON_SELF: "to this process",
}

CHOICES = {"auto": CHOICE_AUTO, "get": CHOICE_GET, "pipeline": CHOICE_PIPELINE}


cdef inline void decide(decision_t *out, int protocol, int reason, double cost,
                        double instead) noexcept nogil:
    out.protocol = <unsigned char> protocol
    out.reason = <unsigned char> reason
    out.cost = cost
    out.instead = instead


cdef bint rule_place(const facts_t *facts, decision_t *out) noexcept nogil:
    cdef double placing, reading
    if facts.asked != CHOICE_AUTO:
        decide(out, PROTOCOL_PLACED, REASON_ASKED, 0, 0)
        return facts.asked == CHOICE_PIPELINE
    if not figures_place(facts.figures, facts.length, facts.near, facts.far, &placing, &reading):
        return False
    decide(out, PROTOCOL_PLACED, REASON_COST, placing, reading)
    return True


cdef void rule_read(const facts_t *facts, decision_t *out) noexcept nogil:
    cdef double reading, copying
    cdef bint cheaper
    if facts.asked != CHOICE_AUTO:
        decide(out, PROTOCOL_PIPELINE if facts.asked == CHOICE_PIPELINE else PROTOCOL_GET,
               REASON_ASKED, 0, 0)
    elif not facts.pins or not facts.figures.known:
        decide(out, PROTOCOL_GET, REASON_ONLY, 0, 0)
    elif facts.registered:
        decide(out, PROTOCOL_GET, REASON_HELD, 0, 0)
    else:
        cheaper = figures_pick(facts.figures, facts.length, facts.near, facts.far, &reading,
                               &copying)
        if cheaper and facts.waited:
            decide(out, PROTOCOL_PIPELINE, REASON_COST, copying, reading)
        elif facts.near == 0:
            decide(out, PROTOCOL_GET, REASON_HELD, reading, copying)
        else:
            decide(out, PROTOCOL_GET, REASON_UNWAITED if cheaper else REASON_COST, reading, copying)


def eager_limit(profile, most=0):
    """Bytes up to which messages go eager, as the engine has it (``peer``).

    Parameters
    ----------
    profile : dict
        Of ``pyrdv tune``.
    most : int
        What PYRDV_EAGER_MAX says; 0: the fabric's figure.

    Returns
    -------
    int
    """
    return min(most or profile["eager_max"], profile["packet_max"] - WIRE_HEADER)


def explain(profile, size, *, eager=0, protocol="auto", pins=True, uses=0.0, waited=True,
            standing=False, offered=False, buffer=0):
    """What the rule says of a message, and why.

    Parameters
    ----------
    profile : dict
        Of ``pyrdv tune``.
    size : int
        Bytes of the message.
    eager : int
        Bytes up to which messages go eager.
    protocol : {'auto', 'get', 'pipeline'}
        The knob.
    pins : bool
        Whether registering costs something on this fabric.
    uses : float
        How many messages a registration would serve, on both sides; 0: it is there already.
    waited : bool
        Whether both sides wait.
    standing : bool
        Whether the receiver has given standing buffers.
    offered : bool
        Whether the receiver has offered its buffer.
    buffer : int
        Bytes of a bounce buffer, and of a standing one; 0: what it is where nobody says.

    Returns
    -------
    protocol : str
    reason : str
        One of `REASONS`.
    cost, instead : float
        Seconds of that protocol and of what it was compared with; 0: nothing was compared.
    """
    from pyrdv.engine.protocols.table import names

    cdef figures_t figures
    cdef facts_t facts
    cdef decision_t found
    buffer = buffer or BUFFER
    memset(&facts, 0, sizeof(facts))
    figures_fill(&figures, profile, buffer)
    facts.figures = &figures
    facts.length = size
    facts.asked = CHOICES[protocol]
    facts.pins = pins
    facts.waited = waited
    facts.near = facts.far = uses
    if size <= eager:
        decide(&found, PROTOCOL_EAGER, REASON_SIZE, 0, 0)
    elif not standing or size > buffer or not rule_place(&facts, &found):
        rule_read(&facts, &found)
        if offered and found.protocol == PROTOCOL_GET:
            decide(&found, PROTOCOL_PUT, REASON_OFFER, 0, 0)
    return names()[found.protocol], REASONS[found.reason], found.cost, found.instead
