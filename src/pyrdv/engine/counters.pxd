# cython: language_level=3
"""What an engine counts, from its start on."""
from libc.stdint cimport uint64_t


cdef struct counters_t:
    uint64_t sends_eager
    uint64_t sends_placed       # into standing buffers
    uint64_t sends_rendezvous
    uint64_t sends_self
    uint64_t sends_queued
    uint64_t receives
    uint64_t unexpected
    uint64_t reads
    uint64_t writes
    uint64_t sends_piped        # sends whose data was asked for by GRANT
    uint64_t chunks_sent
    uint64_t takens_sent
    uint64_t blocks_early       # taken by their flag, before the CHUNK
    uint64_t blocks_torn        # their flag was there before their data (found by the CRC)
    uint64_t lanes_waited       # operations that had to wait for a lane
    uint64_t lanes_bound        # lanes registered anew for another peer
    uint64_t registrations_refused
    uint64_t picks_cached       # large messages, at this end: their memory was registered already
    uint64_t picks_fresh        # registered for it: costs less than copying
    uint64_t picks_piped        # copied: costs less than registering
    uint64_t picks_unwaited     # registered, for only copying while both ends wait would cost less
    uint64_t rtrs_sent
    uint64_t rtrs_received
    uint64_t rtrs_used          # received, and answered by START
    uint64_t rtrs_stale         # dropped: their message was announced already
    uint64_t rtrs_unused        # dropped: their message went eager or did not fit
    uint64_t rtrs_refused       # dropped: no room for them, or too old to tell
    uint64_t rtrs_revoked       # dropped: a cancel took them back
    uint64_t rtrs_flagged       # dropped: a small message before made them ambiguous (classic)
    uint64_t revokes_sent
    uint64_t rtrs_withheld      # not sent, because of a STOP or of a profile
    uint64_t rtrs_barred        # not sent, because the policy could not pair them
    uint64_t rts_acks_sent
    uint64_t extra_packets      # posted by this rank, or owed to its RTRs, ...
    uint64_t extra_bytes        # ... beyond what plain rendezvous would have cost
    uint64_t stops_sent
    uint64_t resumes_sent
    uint64_t credits_sent
    uint64_t packets_refused
    uint64_t protocol_errors
    uint64_t flows_spawned      # how often a posted operation needed steps, and none were to come
    uint64_t flow_turns         # steps that the progress mode made by themselves
    uint64_t flow_hits          # of them, those in which something happened, or data moved
