# cython: language_level=3
"""Packet layouts.  ``docs/wire.md`` is the specification; section numbers refer to it.

Native byte order and alignment: the start-up handshake refuses a peer whose
byte order or word size differs, so nothing here is ever converted.
"""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef enum:
    WIRE_VERSION = 7        # section 1; for readers, it is not sent
    WIRE_HEADER = 40        # sizeof(header_t), asserted in step.pyx
    WIRE_RTS = 56           # sizeof(rts_t), asserted in step.pyx
    WIRE_RTR = 64           # sizeof(rtr_t), asserted in step.pyx
    WIRE_GRANT = 64         # sizeof(grant_t), asserted in step.pyx

cdef enum packet_kind:      # section 2; retired numbers are never used again
    PACKET_EAGER = 1        # an announcement with its data behind the header
    PACKET_RTS = 2          # an announcement of data to be read
    PACKET_DONE = 3         # the receiver has taken (or matched) message `cookie`
    PACKET_CREDIT = 4       # nothing but the credit field
    PACKET_FINISH = 5       # no more announcements, no more receives; buffers stay readable
    PACKET_RTR = 6          # a posted receive offers its buffer
    PACKET_START = 7        # an announcement: its data is written into the offered buffer
    PACKET_FIN = 8          # the data of receive `cookie` is in its buffer
    PACKET_REVOKE = 9       # every RTR before this packet is void
    PACKET_REVOKED = 10     # answer: no START for those RTRs follows this packet
    PACKET_RTS_ACK = 11     # the receive that took RTS `cookie` has no RTR on its way
    PACKET_PLACED = 12      # an announcement: its data is in a standing buffer of the receiver
    PACKET_STAND = 13       # buffers that the receiver of this may write messages into, unasked
    PACKET_GRANT = 16       # the data of RTS `cookie` is to be written into bounce buffers
    PACKET_CHUNK = 17       # a chunk of it is in its buffer
    PACKET_TAKEN = 18       # chunks before `sequence` were copied out of their buffers

cdef enum packet_flag:      # section 2.1
    PACKET_SYNC = 1         # EAGER, PLACED: answer with DONE when matched
    PACKET_WAITING = 1      # RTS, DONE: whose message it is waits for it in a call
    PACKET_REFUSED = 2      # DONE, FIN: the data could not be read, or written
    PACKET_STOP = 4         # announcements: send no RTRs of this envelope
    PACKET_RESUME = 8       # announcements: send them again
    PACKET_ADVICE = 12      # either of the two
    PACKET_STOP_RTR = 16    # RTS: RTRs of this class are void, and no more may be sent
    PACKET_CHECKED = 32     # GRANT: flags of blocks carry a CRC
    PACKET_RESUME_RTR = 64  # RTS: RTRs of this class may be sent again
    PACKET_PIPED = 128      # RTS: the data cannot be read

cdef enum packet_content:   # section 3
    CONTENT_BUFFER = 0      # bytes of somebody's buffer
    CONTENT_OBJECT = 1      # a pickle

cdef struct header_t:       # section 3: every packet begins with it
    uint8_t kind
    uint8_t flags
    uint16_t content        # announcements: packet_content; others: zero
    uint32_t context        # announcements: communicator context
    int32_t tag             # announcements: >= 0
    uint32_t sequence       # announcements: 0, 1, 2 … per ordered pair of ranks; RTR: `seen`
    uint64_t length         # announcements: message bytes; DONE, FIN: bytes moved; RTR: room
    uint64_t cookie         # RTS, SYNC: the sender's operation; DONE: the same;
                            # RTR: the receiver's operation; START, FIN: the same
    uint32_t credit         # cumulative eager units given back, modulo 2**32
    uint32_t freed          # standing buffers given back so far, modulo 2**32

cdef struct rts_t:          # section 4; STAND: section 4.4, header.context: bytes of a buffer
    header_t header
    uint64_t address        # of the data in the sender; STAND: of the first buffer
    uint64_t key            # of its region

cdef struct rtr_t:          # section 4.1; header.sequence: announcements handled so far
    header_t header
    uint64_t address        # of the room in the receiver
    uint64_t key            # of the receiver's region
    uint32_t ahead          # earlier receives of this envelope that are still unmatched
    uint32_t reserved       # zero

cdef struct grant_t:        # section 4.2; header.cookie: the sender's operation, as in RTS;
    header_t header         # length: bytes wanted; sequence: number of the first chunk;
                            # context: bytes of a buffer; tag: bytes of a block, 0: no flags
    uint64_t address        # of the first of LANE_BUFFERS buffers, one behind the other
    uint64_t key            # of their region
    uint64_t receive        # the receiver's operation, for CHUNK
