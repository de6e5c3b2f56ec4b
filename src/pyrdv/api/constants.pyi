"""Numbers with a meaning."""

from typing import Final

PROC_NULL: Final[int]
ANY_SOURCE: Final[int]
ANY_TAG: Final[int]
ROOT: Final[int]
UNDEFINED: Final[int]
TAG_UB: Final[int]
BSEND_OVERHEAD: Final[int]

IDENT: Final[int]
CONGRUENT: Final[int]
SIMILAR: Final[int]
UNEQUAL: Final[int]

COMM_TYPE_SHARED: Final[int]
COMM_TYPE_HW_GUIDED: Final[int]
COMM_TYPE_HW_UNGUIDED: Final[int]
COMM_TYPE_RESOURCE_GUIDED: Final[int]

THREAD_SINGLE: Final[int]
THREAD_FUNNELED: Final[int]
THREAD_SERIALIZED: Final[int]
THREAD_MULTIPLE: Final[int]
