"""The native half of the module: python/src/lib.rs. Not for users."""

from typing import Callable, List, Optional, Tuple

_Look = Tuple[float, int, Optional[int], float, int, int, int, Optional[str]]
_Facts = Tuple[Optional[int], Optional[str], Optional[str], bool]

version: str

def run(
    words: List[str],
    progress: Optional[Callable[[_Look], object]] = None,
    version: Optional[Tuple[Optional[str], Optional[str]]] = None,
) -> Tuple[int, Optional[str], Optional[str], Optional[BaseException]]: ...
def describe(words: List[str]) -> Tuple[int, Optional[_Facts], Optional[str], Optional[BaseException]]: ...
def page(record: str) -> str: ...
def log_to_stderr(verbose: int) -> None: ...
