"""MPI error classes, as numbers and in words.

This module imports nothing, so every layer may import it.
"""

# The numbers are ours to choose (the standard fixes SUCCESS = 0 and that
# the others are at most ERR_LASTCODE); programs compare them by name.
SUCCESS = 0
ERR_BUFFER = 1
ERR_COUNT = 2
ERR_TYPE = 3
ERR_TAG = 4
ERR_COMM = 5
ERR_RANK = 6
ERR_REQUEST = 7
ERR_ROOT = 8
ERR_GROUP = 9
ERR_OP = 10
ERR_TOPOLOGY = 11
ERR_DIMS = 12
ERR_ARG = 13
ERR_UNKNOWN = 14
ERR_TRUNCATE = 15
ERR_OTHER = 16
ERR_INTERN = 17
ERR_IN_STATUS = 18
ERR_PENDING = 19
ERR_KEYVAL = 20
ERR_NO_MEM = 21
ERR_INFO = 22
ERR_UNSUPPORTED_OPERATION = 23
ERR_PROC_FAILED = 24
ERR_REVOKED = 25
ERR_LASTCODE = 127

CLASS_TEXT = {
    SUCCESS: "no error",
    ERR_BUFFER: "invalid buffer",
    ERR_COUNT: "invalid count",
    ERR_TYPE: "invalid datatype",
    ERR_TAG: "invalid tag",
    ERR_COMM: "invalid communicator",
    ERR_RANK: "invalid rank",
    ERR_REQUEST: "invalid request",
    ERR_ROOT: "invalid root",
    ERR_GROUP: "invalid group",
    ERR_OP: "invalid reduction operation",
    ERR_TOPOLOGY: "invalid topology",
    ERR_DIMS: "invalid dimensions",
    ERR_ARG: "invalid argument",
    ERR_UNKNOWN: "unknown error",
    ERR_TRUNCATE: "message truncated",
    ERR_OTHER: "error of another kind",
    ERR_INTERN: "internal error",
    ERR_IN_STATUS: "see the statuses",
    ERR_PENDING: "pending request",
    ERR_KEYVAL: "invalid key",
    ERR_NO_MEM: "out of memory",
    ERR_INFO: "invalid info",
    ERR_UNSUPPORTED_OPERATION: "operation not supported",
    ERR_PROC_FAILED: "a peer process failed",
    ERR_REVOKED: "communicator revoked",
    ERR_LASTCODE: "last error code",
}
