"""What a failed command raises: one exception for each exit code of ``weir``."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type

from ._record import Record


class WeirError(Exception):
    """A command failed. The text is the command's own: what, why, and what to do."""

    def __init__(self, message: str, code: int = 1, record: Optional[Record] = None) -> None:
        super().__init__(message, code, record)
        self.message = message
        self.code = code
        """The exit code that the command ends with."""
        self.record = record
        """The run as far as it came; None where it did not begin."""

    def __str__(self) -> str:
        return self.message


class TransferError(WeirError):
    """Failed (exit code 1)."""


class UsageError(WeirError, ValueError):
    """The arguments cannot be meant (exit code 2)."""


class VerificationError(WeirError):
    """What arrived has another digest than it must have; it did not get the file's name (exit code 3)."""


class IncompleteError(WeirError):
    """Not all is there; the same call resumes (exit code 4)."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended the command (exit code 130); what can be resumed is kept, and the same call resumes."""

    code = 130

    def __init__(self, message: str = "", record: Optional[Record] = None) -> None:
        super().__init__(message, record)
        self.message = message
        self.record = record
        """The run as far as it came; None where it did not begin."""

    def __str__(self) -> str:
        return self.message


_BY_CODE: Dict[int, Type[WeirError]] = {
    1: TransferError,
    2: UsageError,
    3: VerificationError,
    4: IncompleteError,
}


def of_code(code: int, message: Optional[str], record: Optional[Record]) -> WeirError:
    """The exception of an exit code."""
    kind: Type[Any] = _BY_CODE.get(code, WeirError)
    error: WeirError = kind(message or f"weir ended with exit code {code}", code, record)
    return error
