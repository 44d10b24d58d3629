"""A copy over a link that changes, as its record tells it: rate and codec over time, and how soon the codec followed."""

from settings import MB

# A line of the timeline, and the grain in which the codec is asked for.
GRAIN = 0.5
# What weir promises: the codec of the time that follows is there within so many seconds.
BOUND = 2.0


def follows(timelines: list) -> list:
    """One line for each run and change: when the codec was the one that the new rate went on with."""
    lines = []
    for number, (record, changes, wall) in enumerate(timelines, 1):
        if not has_codecs(record):
            return ["the record does not say which codec each window went through: no figure"]
        windows = placed(record, wall)
        for change, end in zip(changes, [*changes[1:], wall]):
            lines.append(f"run {number}: {verdict(windows, change, end)}")
        if len(changes) < 2:
            lines.append(f"run {number}: the copy ended before the link had changed twice: no figure")
    return lines


def lines_of(record: dict, changes: list, wall: float) -> list:
    """The last run's timeline."""
    windows = placed(record, wall)
    lines = [f"Timeline of the last run, in pieces of {GRAIN} s; `*` marks those in which the link changed:", ""]
    lines.append("      t/s     MB/s  ratio  codec")
    at = 0.0
    while at < wall:
        piece = between(windows, at, at + GRAIN)
        if piece:
            mark = "*" if any(at <= change < at + GRAIN for change in changes) else " "
            rate = sum(window["rate"] for window in piece) / len(piece)
            told = [window["ratio"] for window in piece if window["ratio"]] or [1.0]
            ratio = sum(told) / len(told)
            shares = ", ".join(f"{codec} {share:.0%}" for codec, share in codecs(piece)[:3])
            lines.append(f"    {mark}{at:6.1f}  {rate / MB:7.1f}  {ratio:5.2f}  {shares}")
        at += GRAIN
    return lines


def has_codecs(record: dict) -> bool:
    return any(sample.get("codec") for sample in record["samples"])


def placed(record: dict, wall: float) -> list:
    """Windows on the command's clock. The record counts from its first window and both end together, to a tenth of a second or so."""
    samples = record["samples"]
    spans = [later["t"] - earlier["t"] for earlier, later in zip(samples, samples[1:])]
    shift = wall - samples[-1]["t"] - (min(spans) if spans else 0.1)
    return [{"ratio": None, "codec": None} | sample | {"at": sample["t"] + shift} for sample in samples]


def between(windows: list, begin: float, end: float) -> list:
    return [window for window in windows if begin <= window["at"] < end]


def codecs(windows: list) -> list:
    """Each codec's share of these windows' bytes, the largest first."""
    sums = {}
    for window in windows:
        if window["codec"]:
            # A window in which nothing landed still says what was being packed.
            sums[window["codec"]] = sums.get(window["codec"], 0.0) + max(window["rate"], 1.0)
    whole = sum(sums.values()) or 1.0
    return sorted(((codec, sum_ / whole) for codec, sum_ in sums.items()), key=lambda pair: -pair[1])


def verdict(windows: list, change: float, end: float) -> str:
    """Compares the codecs right after a change with those that the second half of the time until the next went through."""
    before = names(codecs(between(windows, max(0.0, change - 1.0), change)))
    settled = names(codecs(between(windows, (change + end) / 2, end)))
    if not settled:
        return f"change at {change:.1f} s: nothing was sent after it: no figure"
    words = f"change at {change:.1f} s: from {' '.join(before) or 'none'} to {' '.join(settled)}"
    if before and before[0] == settled[0]:
        return f"{words}: the codec did not change, NOT HELD"
    after = [window for window in between(windows, change, end) if window["codec"]]
    for window in after:
        near = codecs(between(windows, window["at"], window["at"] + GRAIN))
        if sum(share for codec, share in near if codec in settled) >= 0.5:
            delay = window["at"] - change
            return f"{words} after {delay:.1f} s, goal at most {BOUND:g} s: {'held' if delay <= BOUND else 'NOT HELD'}"
    return f"{words}: never settled, NOT HELD"


def names(shares: list) -> list:
    """Those that took a fifth or more."""
    return [codec for codec, share in shares if share >= 0.2]
