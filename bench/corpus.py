"""What is copied: text, random bytes and trees of files, the same bytes on every machine; made once, kept between runs."""

import itertools
import os
import random
import shutil
from pathlib import Path

from settings import MIB, WORK

# Text repeats after this many bytes: far beyond what codecs look back (zstd -19: 8 MiB, brotli: 16 MiB), and
# quick to make.
PERIOD = 64 * MIB
# Of a tree: each file's time, so that a copy that loses it is noticed.
EPOCH = 1_600_000_000


def text(size: int) -> Path:
    """Words by Zipf's law and phrases that come again: zstd -1 shrinks it 2.6:1, lz4 1.6:1, zstd -9 3.4:1."""
    return kept(f"text-{size}", lambda path: write(path, size, prose(4, min(size, PERIOD))))


def incompressible(size: int) -> Path:
    rng = random.Random(5)

    def make(path: Path) -> None:
        with open(path, "wb") as out:
            left = size
            while left > 0:
                left -= out.write(rng.randbytes(min(left, PERIOD)))

    return kept(f"random-{size}", make)


def changed(source: Path, share: float) -> Path:
    """`source` with so much of it changed: half of that overwritten in runs of 64 KiB, half new bytes put in between others."""
    piece = 64 * 1024
    rng = random.Random(6)

    def make(path: Path) -> None:
        old = source.read_bytes()
        count = max(2, int(len(old) * share) // piece)
        cuts = sorted(rng.sample(range(len(old) // piece), count))
        with open(path, "wb") as out:
            at = 0
            for number, cut in enumerate(cuts):
                out.write(old[at : cut * piece])
                out.write(rng.randbytes(piece))
                at = cut * piece + (piece if number % 2 else 0)
            out.write(old[at:])

    return kept(f"{source.name}-changed-{share:g}", make)


def small_files(count: int) -> Path:
    """`count` files of 1 to 16 KB, a thousand to a folder."""

    def make(root: Path) -> None:
        rng, words = random.Random(7), prose(7, MIB)
        for number in range(count):
            folder = root / f"{number // 1000:03}"
            folder.mkdir(exist_ok=True) if number % 1000 == 0 else None
            put(folder / f"{number:06}.txt", words, rng, rng.randint(1000, 16_000), number)
        set_folder_times(root)

    return kept(f"small-{count}", make)


def source_tree(count: int) -> Path:
    """As Linux's sources are: many small files (median 4 KB, mean about 12 KB) seven folders deep at most, and one in five
    hundred of 1 to 16 MB."""

    def make(root: Path) -> None:
        rng, words = random.Random(8), prose(8, 16 * MIB)
        folders = [root]
        for number in range(count):
            # A folder holds about 14 files; deeper ones are rarer.
            if number % 14 == 0:
                parent = rng.choice(folders[-200:])
                if len(parent.relative_to(root).parts) >= 7:
                    parent = root
                folders.append(parent / f"dir{len(folders):05}")
                folders[-1].mkdir()
            size = rng.randint(10**6, 16 * 10**6) if number % 500 == 499 else min(int(rng.lognormvariate(8.3, 1.2)), 500_000)
            put(folders[-1] / f"file{number:06}.c", words, rng, size, number)
        set_folder_times(root)

    return kept(f"tree-{count}", make)


def copy_of(source: Path) -> Path:
    """The same tree or file again, times kept: what an earlier copy left at the target."""

    def make(path: Path) -> None:
        shutil.copytree(source, path, dirs_exist_ok=True) if source.is_dir() else shutil.copy2(source, path)

    return kept(f"{source.name}-again", make)


def prose(seed: int, size: int) -> bytes:
    rng = random.Random(seed)
    vocabulary = words(rng, 30_000)
    zipf = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(vocabulary))))
    marks = [" "] * 17 + [", ", ", ", ". ", ".\n"]
    # A phrase is a few words that stand together more often than chance would have it.
    tokens = [word + rng.choice(marks) for word in rng.choices(vocabulary, cum_weights=zipf, k=60_000)]
    phrases = ["".join(rng.choices(tokens, k=rng.randint(3, 9))) for _ in range(PHRASES)]
    favour = list(itertools.accumulate(1 / (rank + 20) for rank in range(len(phrases))))
    pieces, length, batch = [], 0, 20_000
    while length < size:
        singles = zip(rng.choices(vocabulary, cum_weights=zipf, k=batch), rng.choices(marks, k=batch))
        known = rng.choices(phrases, cum_weights=favour, k=batch)
        whether = rng.choices((False, True), cum_weights=(1 - PHRASED, 1), k=batch)
        made = "".join(phrase if use else word + mark for (word, mark), phrase, use in zip(singles, known, whether))
        pieces.append(made)
        length += len(made)
    return "".join(pieces)[:size].encode()


PHRASES, PHRASED = 20_000, 0.03


def words(rng: random.Random, count: int) -> list:
    onsets = ["", "b", "c", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "th", "st", "tr", "w", "v"]
    rimes = ["a", "e", "i", "o", "u", "an", "at", "en", "er", "ing", "is", "on", "or", "ed", "es", "ion", "al", "y"]
    return ["".join(rng.choice(onsets) + rng.choice(rimes) for _ in range(rng.randint(1, 4))) for _ in range(count)]


def kept(name: str, make) -> Path:
    """The file or folder of that name; it gets its name when it is whole."""
    path = WORK / "files" / name
    if path.exists():
        return path
    unfinished = path.with_name(name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    if name.startswith(("small-", "tree-")):
        unfinished.mkdir()
    make(unfinished)
    unfinished.rename(path)
    return path


def write(path: Path, size: int, period: bytes) -> None:
    with open(path, "wb") as out:
        while size > 0:
            size -= out.write(period[: min(size, len(period))])


def put(path: Path, content: bytes, rng: random.Random, size: int, number: int) -> None:
    size = min(size, len(content) - 1)
    at = rng.randrange(len(content) - size)
    path.write_bytes(content[at : at + size])
    os.utime(path, (EPOCH + number, EPOCH + number))


def set_folder_times(root: Path) -> None:
    for folder, _, _ in os.walk(root, topdown=False):
        os.utime(folder, (EPOCH, EPOCH))
