# cython: language_level=3
"""The protocols, and whose a packet is.  A new protocol is a file and a row here."""
from pyrdv.engine.protocols.contract cimport PEER_ALIGN, protocol_t
from pyrdv.engine.protocols.credit cimport credit_protocol
from pyrdv.engine.protocols.done cimport done_protocol
from pyrdv.engine.protocols.eager cimport eager_protocol
from pyrdv.engine.protocols.finish cimport finish_protocol
from pyrdv.engine.protocols.loopback cimport loopback_protocol
from pyrdv.engine.protocols.placed cimport placed_protocol
from pyrdv.engine.protocols.rendezvous_get cimport get_protocol
from pyrdv.engine.protocols.rendezvous_put cimport put_protocol
from pyrdv.engine.protocols.superpipeline cimport pipeline_protocol
from pyrdv.engine.state cimport PROTOCOL_DONE
from pyrdv.engine.wire cimport rtr_t


cdef table_t table


cdef int add(protocol_t *row) except -1:
    cdef int i
    if row.name == NULL:
        raise ImportError("a protocol imports the table of protocols, before it is in it")
    if row.code:
        table.by_code[row.code] = row
    for i in range(row.kind_count):
        if table.kinds[row.kinds[i].kind] != NULL:
            raise ImportError(f"two protocols own packet kind {row.kinds[i].kind}")
        table.kinds[row.kinds[i].kind] = &row.kinds[i]
        if row.kinds[i].length > sizeof(rtr_t):
            raise ImportError(f"packet kind {row.kinds[i].kind} is longer than any other")
    if row.reserve != NULL:
        table.reserving[table.reserving_count] = row
        table.reserving_count += 1
    if row.owed != NULL:
        table.owing[table.owing_count] = row
        table.owing_count += 1
    if row.act != NULL:
        table.acting[table.acting_count] = row
        table.acting_count += 1
    if row.move != NULL:
        table.moving[table.moving_count] = row
        table.moving_count += 1
    if row.own_ended != NULL:
        if table.owner != NULL:
            raise ImportError("two protocols own transfers that are of no operation")
        table.owner = row
    row.peer_offset = table.peer_bytes
    table.peer_bytes += (row.peer_bytes + PEER_ALIGN - 1) // PEER_ALIGN * PEER_ALIGN
    table.rows[table.count] = row
    table.count += 1
    return 0


add(eager_protocol())
add(placed_protocol())
add(get_protocol())
add(put_protocol())
add(pipeline_protocol())
add(loopback_protocol())
add(done_protocol())
add(credit_protocol())
add(finish_protocol())


cdef const table_t *protocol_table() noexcept nogil:
    return &table


def names():
    """The protocols that move messages, by their codes.

    Returns
    -------
    dict of int to str
    """
    return {row.code: row.name.decode() for row in table.rows[:table.count]
            if row.code and row.code != PROTOCOL_DONE}


def kinds():
    """Whose each kind of packet is.

    Returns
    -------
    dict of int to str
        The name of the protocol, by the number of the kind (docs/wire.md, section 2).
    """
    return {row.kinds[i].kind: row.name.decode() for row in table.rows[:table.count]
            for i in range(row.kind_count)}
