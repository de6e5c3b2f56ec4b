"""MPI error classes, as numbers and in words."""

SUCCESS: int
ERR_BUFFER: int
ERR_COUNT: int
ERR_TYPE: int
ERR_TAG: int
ERR_COMM: int
ERR_RANK: int
ERR_REQUEST: int
ERR_ROOT: int
ERR_GROUP: int
ERR_OP: int
ERR_TOPOLOGY: int
ERR_DIMS: int
ERR_ARG: int
ERR_UNKNOWN: int
ERR_TRUNCATE: int
ERR_OTHER: int
ERR_INTERN: int
ERR_IN_STATUS: int
ERR_PENDING: int
ERR_KEYVAL: int
ERR_NO_MEM: int
ERR_INFO: int
ERR_UNSUPPORTED_OPERATION: int
ERR_PROC_FAILED: int
ERR_REVOKED: int
ERR_LASTCODE: int
CLASS_TEXT: dict[int, str]
