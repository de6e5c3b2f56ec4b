# cython: language_level=3
"""What a message costs over one fabric, and which way is the cheapest.

After A. Denis, "A High-Performance Superpipeline Protocol for InfiniBand", Euro-Par 2011.  Times
are piecewise linear functions of the size.  Against his equation 9 two things are as they are here:
chunks are counted as the sender makes them, for buffers bound their growth; and what the receiver
copies out behind the last WRITE is a whole chunk, for flags are not polled by default.

The comparisons here serve the rule (``rule``), and `predict`, which ``pyrdv doctor`` prints.
"""
from libc.math cimport INFINITY
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.protocols.chunks cimport first_of
from pyrdv.engine.protocols.lanes cimport lanes_of
from pyrdv.engine.state cimport POINTS, engine_t, figures_t, line_t, peer_t


cdef enum:
    CHUNK_GROWTH = 150          # per cent, the paper's, where nothing was measured
    FIRST_LEAST = 4 << 10       # bounds of what is derived from figures
    FIRST_MOST = 256 << 10
    FAVOUR = 110                # per cent of a READ's time that placing may take
    GROWTH_LEAST = 110
    GROWTH_MOST = 400


cdef double at(const line_t *line, double size) noexcept nogil:
    """Seconds for `size` bytes; beyond the points it goes on as between the two nearest."""
    cdef uint32_t i = 1
    cdef double value, span
    if line.count == 1:
        return line.seconds[0] * size / line.bytes[0]
    while i < line.count - 1 and line.bytes[i] < size:
        i += 1
    span = (line.seconds[i] - line.seconds[i - 1]) / (line.bytes[i] - line.bytes[i - 1])
    value = line.seconds[i - 1] + span * (size - line.bytes[i - 1])
    return value if value > 0 else 0


cdef double registration(const figures_t *f, double size, double uses) noexcept nogil:
    if uses == 0:
        return 0
    if f.registration.count == 0 or size > f.registrable:
        return INFINITY
    return at(&f.registration, size) / uses


cdef double get_time(const figures_t *f, double size, double near, double far) noexcept nogil:
    """RTS, then the READ."""
    return f.latency + at(&f.read, size) + registration(f, size, near) \
        + registration(f, size, far)


cdef double pipeline_time(const figures_t *f, double size) noexcept nogil:
    """RTS and GRANT, behind which the first chunk is copied; then what is slower, net or copies."""
    cdef double net = at(&f.net, size)
    cdef double copies = f.latency + at(&f.copy, size)
    cdef double chunk = f.chunk_first
    cdef double left = size
    cdef double count = 0
    while left > chunk and chunk < f.buffer:
        left -= chunk
        count += 1
        chunk = chunk * f.chunk_growth / 100
    if chunk > f.buffer:
        chunk = f.buffer
    if left > chunk:
        count += <double> <uint64_t> (left / chunk)
    else:
        chunk = left
    return 2 * f.latency + max(net, copies) + (count + 1) * f.gap + at(&f.copy, chunk)


cdef double figures_net(const figures_t *f, uint64_t length) noexcept nogil:
    return at(&f.net, length)


cdef bint figures_pick(const figures_t *f, uint64_t length, double near, double far,
                       double *reading, double *copying) noexcept nogil:
    reading[0] = get_time(f, length, near, far)
    copying[0] = pipeline_time(f, length)
    return copying[0] < reading[0]


cdef double placed_time(const figures_t *f, double size) noexcept nogil:
    """Nothing is asked, and nothing hides the copies."""
    return at(&f.net, size) + 2 * at(&f.copy, size)


cdef bint figures_place(const figures_t *f, uint64_t length, double near, double far,
                        double *placing, double *reading) noexcept nogil:
    if not f.known:
        return False
    placing[0] = placed_time(f, length)
    reading[0] = get_time(f, length, near, far)
    # In doubt it is placed: the sender need not wait for DONE, and nothing need stay registered.
    return 100 * placing[0] <= FAVOUR * reading[0]


cdef int fabric_index(const engine_t *e, const peer_t *p) noexcept nogil:
    cdef int i = 0
    while e.fabrics[i] != p.fabric:
        i += 1
    return i


# Profiles ----------------------------------------------------------------------

cdef int fill_line(line_t *line, name, points) except -1:
    cdef uint32_t i
    if len(points) > POINTS:
        raise ValueError(f"{name!r} has {len(points)} points; {POINTS} at most are kept")
    line.count = len(points)
    for i, (size, *times) in enumerate(points):
        line.bytes[i] = size
        line.seconds[i] = sum(times)
        if not size > 0 or not 0 <= line.seconds[i] < INFINITY \
                or i and not size > line.bytes[i - 1]:
            raise ValueError(f"the points of {name!r} are not times of growing sizes")
    return 0


cdef double slope(const line_t *line) noexcept nogil:
    """Seconds per byte between the two largest sizes."""
    cdef uint32_t last = line.count - 1
    return (line.seconds[last] - line.seconds[last - 1]) \
        / (line.bytes[last] - line.bytes[last - 1])


cdef int figures_fill(figures_t *f, object profile, object buffer) except -1:
    cdef double copy, net
    memset(f, 0, sizeof(figures_t))
    fill_line(&f.net, "net", profile["net"])
    fill_line(&f.read, "read", profile["read"])
    fill_line(&f.copy, "copy", profile["copy"])
    fill_line(&f.registration, "registration", profile["registration"])
    f.latency = profile["latency"]
    f.gap = profile["gap"]
    if min(f.net.count, f.read.count, f.copy.count) < 2:
        raise ValueError("'net', 'read' and 'copy' need two points at least")
    if not 0 <= f.latency < INFINITY or not 0 <= f.gap < INFINITY:
        raise ValueError("'latency' and 'gap' must be times")
    f.registrable = INFINITY
    f.buffer = buffer
    if profile.get("registration_refused"):
        f.registrable = f.registration.bytes[max(1, f.registration.count) - 1]
    f.chunk_first = first_of(0)
    f.chunk_growth = CHUNK_GROWTH
    copy, net = slope(&f.copy), slope(&f.net)
    if copy > 0 and net > 0:
        # C0 = B_copy 2 lambda, q = B_copy / B_net.
        f.chunk_first = <uint32_t> min(max(2 * f.latency / copy + 0.5, <double> FIRST_LEAST),
                                       <double> FIRST_MOST)
        f.chunk_growth = <uint32_t> min(max(100 * net / copy + 0.5, <double> GROWTH_LEAST),
                                        <double> GROWTH_MOST)
    f.known = 1
    return 0


cdef int figures_configure(engine_t *e, object profiles) except -1:
    cdef int i
    for i in range(e.fabric_count):
        e.figures[i].chunk_first = first_of(e.fabrics[i].capabilities)
        e.figures[i].chunk_growth = CHUNK_GROWTH
    for i, profile in enumerate(profiles):
        if i < e.fabric_count and profile is not None:
            figures_fill(&e.figures[i], profile, lanes_of(e).bytes)
    return 0


def check(profile):
    """Raise ValueError, KeyError or TypeError if the engine cannot read `profile`."""
    cdef figures_t f
    figures_fill(&f, profile, BUFFER)


def seconds(points, size):
    """Value at `size` of the piecewise linear function through `points`.

    Parameters
    ----------
    points : sequence
        Points of a profile: bytes, then seconds, which are added up.
    size : int
        Bytes.

    Returns
    -------
    float
        Below the first point and above the last it goes on as between the two nearest.
    """
    cdef line_t line
    fill_line(&line, "points", points)
    return at(&line, size)


def predict(profile, size, near=1.0, far=1.0, buffer=0):
    """What a message would cost by each way that the engine reckons with.

    Parameters
    ----------
    profile : dict
        Of ``pyrdv tune``.
    size : int
        Bytes of the message.
    near, far : float
        How many messages a registration on this side and on the other would serve; 0: it is
        there already.
    buffer : int
        Bytes of a bounce buffer; 0: what it is where nobody says.

    Returns
    -------
    dict of str to float
        Seconds by ``placed``, ``get`` and ``pipeline``.
    """
    cdef figures_t f
    cdef double placing = 0
    cdef double reading, copying
    figures_fill(&f, profile, buffer or BUFFER)
    figures_place(&f, size, near, far, &placing, &reading)
    figures_pick(&f, size, near, far, &reading, &copying)
    return {"placed": placing, "get": reading, "pipeline": copying}


def chunks(profile):
    """Bytes of a superpipeline's first chunk, and per cent of a chunk that the next one has."""
    cdef figures_t f
    figures_fill(&f, profile, BUFFER)
    return f.chunk_first, f.chunk_growth
