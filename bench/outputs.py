"""What a run left: is it the source, whole and nothing else?"""

import os
from pathlib import Path
from typing import Optional

from settings import MIB


def trouble(outputs: list, place: Path, compare: bool, times: bool = True) -> Optional[str]:
    """Why what a run left does not count: files missing, of the wrong size, different or left over.

    `times`: a tree's files must have the source's times as well.
    """
    expected = dict(outputs)
    whole = expected.pop(".", None)
    if whole:
        return tree_trouble(place, whole, compare, times)
    present = {path.name for path in place.iterdir()}
    if extra := sorted(present - set(expected)):
        return f"left {', '.join(extra[:5])} behind"
    if missing := sorted(set(expected) - present):
        return f"{len(missing)} files missing, such as {missing[0]}"
    for name, source in expected.items():
        one = place / name
        said = tree_trouble(one, source, compare, times) if source.is_dir() else file_trouble(one, source, compare)
        if said:
            return said
    return None


def file_trouble(one: Path, source: Path, compare: bool) -> Optional[str]:
    if one.stat().st_size != source.stat().st_size:
        return f"{one.name} has a wrong size"
    if compare and not identical(one, source):
        return f"{one.name} differs from its source"
    return None


def tree_trouble(one: Path, source: Path, compare: bool, times: bool) -> Optional[str]:
    here, there = tree(one), tree(source)
    if difference := sorted(set(here) ^ set(there)):
        return f"{len(difference)} entries too many or missing, such as {difference[0]}"
    for name, (size, modified) in there.items():
        if size != here[name][0]:
            return f"{name} has another size"
        if times and size is not None and modified != here[name][1]:
            return f"{name} has another time"
        if compare and size is not None and not identical(one / name, source / name):
            return f"{name} differs from its source"
    return None


def tree(root: Path) -> dict:
    """Every name below `root`, with size and modification time of files; folders have no size here."""
    found = {}
    stack = [""]
    while stack:
        folder = stack.pop()
        for entry in os.scandir(root / folder):
            name = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                found[name] = (None, None)
                stack.append(name)
            else:
                status = entry.stat(follow_symlinks=False)
                # rsync and tar keep whole seconds over some protocols; the second is what all of them keep.
                found[name] = (status.st_size, int(status.st_mtime))
    return found


SIZES = {}


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; asked often, so kept."""
    if path.is_dir():
        if path not in SIZES:
            SIZES[path] = sum(size or 0 for size, _ in tree(path).values())
        return SIZES[path]
    return path.stat().st_size


def identical(one: Path, other: Path) -> bool:
    with open(one, "rb", buffering=0) as left, open(other, "rb", buffering=0) as right:
        while True:
            a, b = left.read(4 * MIB), right.read(4 * MIB)
            if a != b:
                return False
            if not a:
                return True
