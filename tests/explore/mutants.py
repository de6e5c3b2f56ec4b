"""Faults planted into the engine, each of which breaks a rule; the explorer must find them all.

Each is a change of the text of one module.  `build` makes a copy of the package with all of them
in it, switched by a number, and ``python -m tests.explore.mutants NUMBER``, run on that copy,
says what the explorer finds (number 0: none is planted).
"""

import ctypes
import sys

from tests.support import copies

INDEXED = "engine/speculation/indexed.pyx"
CLASSIC = "engine/speculation/classic.pyx"
GET = "engine/protocols/rendezvous_get.pyx"
PUT = "engine/protocols/rendezvous_put.pyx"
MATCHING = "engine/matching.pyx"
EAGER = "engine/protocols/eager.pyx"
PIPE_OUT = "engine/protocols/pipe_out.pyx"
PIPE_IN = "engine/protocols/pipe_in.pyx"
LANES = "engine/protocols/lanes.pyx"
PLACED = "engine/protocols/placed.pyx"
PEER = "engine/peer.pyx"
CHOOSE = "engine/choice/choose.pyx"

#: What it is, where, the text, and what stands there instead, {on} being the switch; of placed
#: messages and of the classic pairing also the program that shows it.
MUTANTS = (
    ("ignore `ahead`", INDEXED, "rtr.ahead - later)", "0 if {on} else rtr.ahead - later)"),
    ("ignore `seen`", INDEXED, "    for i in range(unseen):",
     "    for i in range(rtr.header.sequence if {on} else 0):\n"
     "        later += (own(p).sent[i].tag == rtr.header.tag\n"
     "                  and own(p).sent[i].context == rtr.header.context)\n"
     "    for i in range(unseen):"),
    ("keep stale RTRs", INDEXED, "e.counters.rtrs_stale += 1",
     "e.counters.rtrs_stale += 1\n        if {on}:\n            offer_keep(e, p, rtr, 0)"),
    ("an announcement by other means leaves the RTR", INDEXED, "elif at.skip:",
     "elif not used and {on}:\n            link = &at.next\n        elif at.skip:"),
    ("announcements of other envelopes count", INDEXED,
     "        if at.tag != h.tag or at.context != h.context:\n            link",
     "        if (at.tag != h.tag or at.context != h.context) and not {on}:\n            link"),
    ("START before its turn", INDEXED, "if at.skip == 0 and at.tag == tag",
     "if (at.skip == 0 or {on}) and at.tag == tag"),
    ("no log of announcements", INDEXED, "    sent.context = h.context\n    sent.tag",
     "    if not {on}:\n        sent.context = h.context\n        sent.tag"),
    ("RTRs behind wildcards", MATCHING, "return wild != NULL and wild.order < op.order",
     "return wild != NULL and wild.order < op.order and not {on}"),
    ("START skips the matching", PUT, "posted_remove(e, op)\n    if e.policy.met",
     "if {on}:\n        op_matched(e, op, p.rank, h.tag, h.length, h.content, p.recv_sequence)\n"
     "        return True\n"
     "    posted_remove(e, op)\n    if e.policy.met"),
    ("FIN is not fenced", PUT, "wr[count].flags = WR_FENCE",
     "wr[count].flags = 0 if {on} else WR_FENCE"),
    ("complete at START", PUT, "op.state = OP_LANDING\n",
     "op.state = OP_LANDING\n    if {on}:\n        op_complete(e, op, 0)\n"),
    ("complete before the WRITE is handed over", PUT, "    if status == FABRIC_OK:\n"
     "        op.moved += piece\n        op.state = OP_WRITING\n",
     "    if status == FABRIC_OK:\n        op.moved += piece\n        op.state = OP_WRITING\n"
     "        if {on}:\n            op_complete(e, op, 0)\n            return status\n"),
    ("the room is not looked at", CHOOSE, "and offer.capacity >= op.length",
     "and (offer.capacity >= op.length or {on})"),
    ("cancel without REVOKE", PUT, "cdef const node_t *at = &op.node",
     "cdef const node_t *at = NULL if {on} else &op.node"),
    ("cancel looks at its own RTR only", PUT, "at = at.next\n    return False",
     "at = NULL if {on} else at.next\n    return False"),
    ("REVOKE forgets nothing", PUT, "e.counters.rtrs_revoked += offers_clear(e, p)",
     "e.counters.rtrs_revoked += 0 if {on} else offers_clear(e, p)"),
    ("RTRs while one is revoked", PUT, "or revoking(p) or p.finish_told",
     "or (revoking(p) and not {on}) or p.finish_told"),
    ("eager data into a receive that is being written", EAGER,
     "    if op != NULL and op.kind == OP_RECV:\n        posted_remove(e, op)\n"
     "        if op.flags",
     "    if op != NULL and op.kind == OP_RECV:\n        if not {on}:\n"
     "            posted_remove(e, op)\n        if op.flags"),
    ("a buffer is filled while its WRITE goes on", PIPE_OUT,
     "and not lane.busy >> lane.filled % LANE_BUFFERS & 1:",
     "and (not lane.busy >> lane.filled % LANE_BUFFERS & 1 or {on}):"),
    ("a chunk does not wait for TAKEN", PIPE_OUT,
     "and lane.posted - lane.taken < LANE_BUFFERS:",
     "and (lane.posted - lane.taken < LANE_BUFFERS or {on}):"),
    ("CHUNK is not fenced", PIPE_OUT, "wr[1].flags = WR_FENCE",
     "wr[1].flags = 0 if {on} else WR_FENCE"),
    ("TAKEN before the copy", PIPE_IN, "h.sequence = lane.base + lane.taken\n",
     "h.sequence = lane.base + lane.taken + ({on})\n"),
    ("a send keeps its lane that nobody asked for", LANES, "and lane.op.state == OP_WAITING:",
     "and lane.op.state == OP_WAITING and not {on}:"),
    ("placed: the announcement is not behind", PLACED, "wr[1].flags = WR_BEHIND",
     "wr[1].flags = 0 if {on} else WR_BEHIND", "one"),
    ("placed: one after the other into the same buffer", PLACED,
     "    s.slot = following(s.slot)\n    p.placed", "    if not {on}:\n"
     "        s.slot = following(s.slot)\n    p.placed", "two"),
    ("placed: one after the other out of the same buffer", PLACED, "s.slot = following(slot)",
     "s.slot = slot if {on} else following(slot)", "two"),
    ("placed: a fourth before one is given back", PLACED,
     "and p.placed - p.freed[0] < LANE_BUFFERS and",
     "and (p.placed - p.freed[0] < LANE_BUFFERS or {on}) and", "a fourth"),
    ("placed: a buffer is filled before its WRITE is complete", PLACED,
     "and not s.lane.busy >> s.slot & 1)", "and (not s.lane.busy >> s.slot & 1 or {on}))",
     "completions that come late"),
    ("placed: buffers come back in the order of the receives", PLACED,
     "s.early |= <uint8_t> (1 << slot)",
     "s.early |= <uint8_t> (1 << (s.slot_freed if {on} else slot))", "crossed"),
    ("placed: a buffer is given back when its message comes", PLACED,
     "    s.used += 1\n    if op == NULL",
     "    s.used += 1\n    if {on}:\n        give_back(e, p, slot)\n    if op == NULL",
     "told with another message"),
    ("placed: an older count of buffers breaks the rules", PEER,
     "if <int32_t> (freed - p.freed[0]) < 0:",
     "if <int32_t> (freed - p.freed[0]) < 0 and not {on}:",
     "behind a read"),
    ("placed: nobody hears of a synchronous one", PLACED, "    if sync:\n",
     "    if sync and not {on}:\n", "synchronous"),
    # The classic pairing, and the program that shows it; the first two are what was published.
    ("classic: only a receive that finds its RTS in its own call acknowledges", CLASSIC,
     "    if op != NULL and not live(p, c, op):\n        op.pairing",
     "    if op != NULL and not live(p, c, op) and not {on}:\n        op.pairing",
     "one too small"),
    ("classic: STOP-RTR leaves the RTRs that were sent before", CLASSIC,
     "and op.halts == c.halts and", "and (op.halts == c.halts or {on}) and",
     "three RTRs before the stop"),
    ("classic: forget the stop flag", CLASSIC, "c.stopped = 1", "c.stopped = 0 if {on} else 1",
     "two RTRs before the stop"),
    ("classic: no Eager-flag", CLASSIC, "if c.state == CLASS_OPEN:",
     "if c.state == CLASS_OPEN and not {on}:", "RTRs on their way at the stop"),
    ("classic: resume before the stop is acknowledged", CLASSIC,
     "if state == CLASS_QUIET else 0", "if state == CLASS_QUIET or {on} and state else 0",
     "RTRs on their way at the stop"),
    ("classic: RTRs behind a receive that sent none", CLASSIC,
     "if op.node.prev != NULL and not live", "if op.node.prev != NULL and not {on} and not live",
     "one too small"),
    ("classic: RTRs behind wildcards", CLASSIC, "or posted_behind_wildcard(e, op)",
     "or (posted_behind_wildcard(e, op) and not {on})", "one of any tag"),
    ("classic: RTRs before the RTS-ACK", CLASSIC, "or own(p).unacked or",
     "or (own(p).unacked and not {on}) or", "taken by a probe"),
    ("classic: no RTS-ACK", GET, "    if op.pairing & PAIR_ACK:\n        header",
     "    if op.pairing & PAIR_ACK and not {on}:\n        header", "one too small"),
    ("classic: an RTR that crossed its RTS is kept", CLASSIC, "    if op != NULL:\n        # RTR",
     "    if op != NULL and not {on}:\n        # RTR", "one of any tag, taken late"),
    ("classic: the newest RTR first", CLASSIC, "            found = link\n",
     "            found = link if not {on} or found == NULL else found\n", "one too small"),
    ("classic: an RTR without room for its message stays", CLASSIC,
     "    if link != NULL:\n        offer_drop",
     "    if link != NULL and (h.kind != PACKET_RTS or not {on}):\n        offer_drop",
     "too long, then one that fits"),
    ("classic: revoked RTRs count as sent", CLASSIC, " and not revoking(p)",
     " and (not revoking(p) or {on})", "two receives behind one that is cancelled"),
)

SWITCH = '''

cdef int PLANTED = 0


def plant(int number):
    """Switch a mutant on."""
    global PLANTED
    PLANTED = number
'''


def mutated(text, changes):
    """`text` with `changes`, pairs of (number, mutant), and the switch."""
    for number, (name, _, old, new, *_) in changes:
        assert text.count(old) == 1, f"{name}: its text is there {text.count(old)} times"
        text = text.replace(old, new.replace("{on}", f"(PLANTED == {number})"))
    # Declared before its first use, behind the imports.
    place = text.index("\n\n\n")
    return text[:place] + SWITCH + text[place:]


def build(folder):
    """A copy of the package with the switched mutants, built; the folder to import it from."""
    files = sorted({where for _, where, *_ in MUTANTS})
    return copies.copy(folder, {
        file: mutated((copies.ROOT / "src" / "pyrdv" / file).read_text("utf-8"),
                      [one for one in enumerate(MUTANTS, 1) if one[1][1] == file])
        for file in files})


def placed(name):
    """One of `programs.PLACED`, as `programs_for_mutants` says it."""
    from tests.explore import programs

    program, network, start = programs.placed(name)
    return f"{name}, placed", program, network, start


def programs_for_mutants(number, shown_by=None):
    """Programs, networks and where schedules start, in the order in which they are tried.

    For that mutant (0: all); `shown_by`: the program that shows it.
    """
    from tests.explore import programs

    if shown_by in programs.PLACED:
        yield placed(shown_by)
        return
    if shown_by is not None:
        passing = {"speculation": "classic", "overtaking": True}
        program, start, network = programs.STOPPED.get(shown_by) or (
            programs.UNANSWERED[shown_by], (), {})
        yield shown_by, program, passing | network, start
        return
    piped = number and MUTANTS[number - 1][1] in (PIPE_IN, PIPE_OUT, LANES)
    if piped or not number:
        for name in programs.PIPED:
            yield f"{name}, by pipeline", programs.CHOSEN[name], {"pipeline": True}, ()
        yield "tags crossed, by pipeline", programs.CROSSED, {"pipeline": True, "prompt": True}, ()
    if piped:
        return
    if not number:
        yield from map(placed, ("one", "crossed"))
    for name, program in programs.CHOSEN.items():
        yield name, program, {}, ()
    yield "twice, little room", programs.CHOSEN["two messages"], {"slots": 2}, ()
    yield "three, little room", programs.LARGER["small before large"], {
        "slots": 2, "prompt": True}, ()
    for name, program in programs.LARGER.items():
        yield name, program, {"prompt": True}, ()


def fill_freed_memory():
    """Have the C library fill what is given back, all but its smallest pieces.

    It would hold the data of a run's messages, which are those of the next run too: a buffer that
    is read before it was written would look right.
    """
    m_perturb = -6              # of mallopt(3)
    if not ctypes.CDLL(None).mallopt(m_perturb, 0xA5):
        raise RuntimeError("mallopt(M_PERTURB) failed: planted faults need the GNU C library")


def plant(number):
    """Switch mutant `number` on, in a process of its own."""
    import importlib

    fill_freed_memory()

    for _, where, *_ in MUTANTS:
        module = importlib.import_module(f"pyrdv.{where.removesuffix('.pyx').replace('/', '.')}")
        module.plant(number)


def shortest(number):
    """Print the counterexample with the fewest actions that one of `programs.PUBLISHED` has."""
    from tests.explore import programs
    from tests.explore.explorer import Explorer, Violation

    plant(number)
    program, start, _ = programs.PUBLISHED[MUTANTS[number - 1][0]]
    try:
        Explorer(speculation="classic", overtaking=True).shortest(program, start)
    except Violation as violation:
        print(repr(tuple(violation.schedule)))


def main(number):
    """Plant mutant `number`; print the first counterexample, or that there is none."""
    from tests.explore.explorer import Explorer, Violation

    plant(number)
    where = MUTANTS[number - 1][4:] if number else ()
    for name, program, network, start in programs_for_mutants(number, *where):
        try:
            explorer = Explorer(**network)
            # From where a schedule starts, a fault shows soon or after very many steps.
            (explorer.shortest if start else explorer.explore)(program, start)
        except Violation as violation:
            print(f"found in {name!r}: {violation}")
            return 1
    print("nothing found")
    return 0


if __name__ == "__main__":
    sys.exit((shortest if sys.argv[2:] == ["shortest"] else main)(int(sys.argv[1])))
