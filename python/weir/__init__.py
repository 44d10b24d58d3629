"""weir: moves bulk data as fast as the path allows, and names the stage that limits it.

    >>> import weir
    >>> record = weir.get("https://host/image.iso", "image.iso")  # doctest: +SKIP
    >>> record.verdict.limit, record.verdict.advice  # doctest: +SKIP

The functions are the commands of the program ``weir``: the same engine, the same records, the same words of
an error.
"""

from ._calls import Progress, ProgressCallback, StrPath, get, get_many, log_to_stderr, put, why
from ._errors import (
    IncompleteError,
    Interrupted,
    TransferError,
    UsageError,
    VerificationError,
    WeirError,
)
from ._record import Advice, FileRecord, Record, Verdict
from ._weir import version as __version__

__all__ = [
    "Advice",
    "FileRecord",
    "IncompleteError",
    "Interrupted",
    "Progress",
    "ProgressCallback",
    "Record",
    "StrPath",
    "TransferError",
    "UsageError",
    "VerificationError",
    "Verdict",
    "WeirError",
    "__version__",
    "get",
    "get_many",
    "log_to_stderr",
    "put",
    "why",
]
