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

THREAD_SINGLE: Final[int]
THREAD_FUNNELED: Final[int]
THREAD_SERIALIZED: Final[int]
THREAD_MULTIPLE: Final[int]
