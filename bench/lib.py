"""What the benchmarks share: settings, one timed run, interleaved rounds, medians, goals, tables, the machine in words."""

import csv
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Callable, Optional

from machine import die_with_parent, end_group, free_port, machine_cpu_seconds, touch_free_memory, wait_for_listener, warm
from outputs import size_of, trouble
from settings import GB, MB, MEMORY, MIB, ONLY, RESULTS, ROOT, RUNS, TIMEOUT, WEIR, WORK


# --- what is compared
# -------------------------------------------------------------------------------------------------------


@dataclass
class Contestant:
    """One command; it runs in an empty folder and must leave exactly `outputs` there, as (name, source).

    `{out}` in a word stands for that folder's path, `{port}` for a port that is free at the far end. A source may be a folder.
    """

    name: str
    argv: list
    outputs: list
    # Started first, at the far end; the run is over when this has ended too.
    far: Optional[list] = None
    # Called with the folder before each run, outside of its time.
    prepare: Optional[Callable] = None
    # The programs that it is made of, where argv[0] is only their shell.
    programs: list = field(default_factory=list)
    # It gives the files of a tree their source's times.
    keeps_times: bool = True

    @property
    def bytes(self) -> int:
        return sum(size_of(source) for _, source in self.outputs)

    def missing(self) -> list:
        return [program for program in self.programs or [self.argv[0]] if not shutil.which(program)]


@dataclass
class Goal:
    """What weir promises: `value` of the medians by contestant name, at least (or at most) `bound`."""

    text: str
    value: Callable
    bound: float
    at_most: bool = False
    unit: str = ""

    def line(self, medians: dict) -> str:
        # Where weir itself did not come through, or the peer is missing, there is nothing to hold against the
        # goal.
        try:
            value = self.value(medians)
        except (KeyError, ValueError):
            value = None
        bound = f"{'at most' if self.at_most else 'at least'} {self.bound:g}{self.unit}"
        if value is None:
            return f"- goal {bound} {self.text}: no figure"
        held = value <= self.bound if self.at_most else value >= self.bound
        return f"- goal {bound} {self.text}: {value:.2f}{self.unit}, {'held' if held else 'NOT HELD'}"


@dataclass
class Scenario:
    name: str
    title: str
    contestants: Callable  # of the bed: list of Contestant
    sources: Callable  # makes and returns the files it needs
    goals: list = field(default_factory=list)
    # Those for memory as found, where they are others.
    goals_as_found: list = field(default_factory=list)
    runs: int = RUNS
    # An ext4 without a journal passes over inodes freed in the last minute, one by one: 1000 removed files
    # cost whoever comes next more than the work does. Such folders stay until the end, and the next benchmark
    # waits that minute.
    keep_outputs: bool = False


@dataclass
class Run:
    wall: float
    user: float
    system: float
    rss: int  # bytes, the peak
    server_cpu: float
    others_cpu: float  # everyone else on the machine, the kernel's own threads included
    trouble: Optional[str]  # why it does not count
    sent: Optional[int] = None  # bytes that left the near end, headers included
    returned: Optional[int] = None  # bytes that came back to it


@dataclass
class Summary:
    """Medians of the runs that count."""

    bytes: int
    runs: list

    def median(self, of: Callable) -> float:
        return statistics.median(of(run) for run in self.runs)

    @property
    def wall(self) -> float:
        return self.median(lambda run: run.wall)

    @property
    def cpu(self) -> float:
        return self.median(lambda run: run.user + run.system)

    @property
    def rate(self) -> float:
        return self.bytes / self.wall

    @property
    def rss_max(self) -> int:
        return max(run.rss for run in self.runs)


# From this size on it shows in a run whether the memory it takes is backed by the host.
LARGE = 64 * MB

# Runs that write no more than this are over before the host takes memory back; each follows a rehearsal.
REHEARSED = 512 * MB

# Memory as found: this long after the last output was removed. A host takes free pages back after about two
# seconds.
PAUSE = 8

# --- one run, and what many say together
# ------------------------------------------------------------------------------------


class Bench:
    """Runs scenarios, writes every run as it ends, and keeps what the summary needs. What differs between benchmarks is in the
    methods that a subclass gives: `begin`, `finish`, `table`, `server_cpu`, `traffic`, `at_near`, `at_far`, `method`."""

    method: list = []
    # What all contestants find in their environment beside PATH and HOME.
    variables: dict = {}

    def __init__(self, folder: Path, stamp: str) -> None:
        self.folder, self.stamp = folder, stamp
        self.summary = []
        self.failed = False
        self.raw_file = open(folder / "raw.csv", "w", newline="")
        self.raw = csv.writer(self.raw_file)
        head = "scenario contestant run utc bytes wall_s user_s sys_s peak_rss_kib server_cpu_s others_cpu_s"
        self.raw.writerow([*head.split(), "sent_bytes", "returned_bytes", "trouble"])
        self.running = []
        # Which memory runs find, of `MEMORY`; `None` where it makes no difference. When an output was last
        # removed.
        self.memory, self.removed = None, 0.0
        self.home = WORK / "home"  # empty: nobody's configuration takes part
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)

    # What a benchmark gives.

    def begin(self, scenario: Scenario):
        """Sets up what the scenario needs; what it returns is handed to `scenario.contestants`."""

    def finish(self, scenario: Scenario) -> None:
        """Undoes `begin`."""

    def table(self, medians: dict) -> list:
        raise NotImplementedError

    def server_cpu(self) -> float:
        """CPU seconds of a server that outlives its runs."""
        return 0.0

    def traffic(self) -> Optional[tuple]:
        """Bytes sent and returned so far, where a network of the benchmark's own counts them."""
        return None

    def at_near(self) -> list:
        """The words before a command that put it where the near end is."""
        return []

    def at_far(self) -> list:
        """The same for the far end."""
        return []

    def after(self, scenario: Scenario, contestant: Contestant, number: int, run: Run, log: Path) -> None:
        """Sees what a run printed before it is forgotten."""

    # What they share.

    def scenario(self, scenario: Scenario) -> None:
        note(f"{scenario.name}: {scenario.title}")
        warm(scenario.sources())
        if scenario.keep_outputs:
            wait_after_removal()
        try:
            contestants = invited(scenario.contestants(self.begin(scenario)))
            is_large = max(c.bytes for c in contestants) >= LARGE and not scenario.keep_outputs
            for self.memory in MEMORY if is_large else [None]:
                self.measure(scenario, contestants)
        finally:
            self.end_running()
            self.finish(scenario)

    def measure(self, scenario: Scenario, contestants: list) -> None:
        """All rounds of a scenario with memory in one state."""
        kept, remarks = self.rounds(scenario, contestants)
        remarks += self.disturbed([run for runs in kept.values() for run in runs])
        size = {c.name: c.bytes for c in contestants}
        medians = {name: Summary(size[name], runs) for name, runs in kept.items() if runs}
        self.report(scenario, contestants, medians, remarks)

    def titled(self, scenario: Scenario) -> str:
        memory = {"found": ", memory as found", "touched": ", memory touched before each run"}
        return f"{self.labelled(scenario)}: {scenario.title}{memory.get(self.memory, '')}"

    def labelled(self, scenario: Scenario) -> str:
        return f"{scenario.name}-touched" if self.memory == "touched" else scenario.name

    def rounds(self, scenario: Scenario, contestants: list) -> tuple:
        present = [c for c in contestants if not c.missing()]
        remarks = [f"{c.name}: {', '.join(c.missing())} not installed, left out" for c in contestants if c.missing()]
        kept = {c.name: [] for c in present}
        for number in range(scenario.runs + 1):
            line = []
            # Who follows whom changes with each round.
            first = number % max(1, len(present))
            for contestant in present[first:] + present[:first]:
                run = self.run(scenario, contestant, number)
                line.append(f"{contestant.name} {run.trouble or duration(run.wall)}")
                if run.trouble:
                    self.failed |= contestant.argv[0] == str(WEIR)
                    remarks.append(f"{contestant.name}: {f'run {number}' if number else 'warm-up'}: {run.trouble}")
                    # Who cannot do it once is not asked again.
                    if number == 0:
                        present.remove(contestant)
                elif number > 0:
                    kept[contestant.name].append(run)
            if scenario.runs <= 10:
                note(f"  {f'run {number}' if number else 'warm-up'}: {', '.join(line)}")
        return kept, remarks

    def run(self, scenario: Scenario, contestant: Contestant, number: int) -> Run:
        slug = re.sub(r"[^a-z0-9]+", "-", contestant.name.lower()).strip("-")
        place = WORK / "out" / self.stamp / self.labelled(scenario) / f"{slug}-{number}"
        place.mkdir(parents=True)
        if contestant.prepare:
            contestant.prepare(place)
        # Nobody's dirty pages are the next one's burden.
        os.sync()
        self.make_memory(contestant, place)
        run, log = self.timed(contestant, place)
        run.trouble = run.trouble or trouble(contestant.outputs, place, number == 0, contestant.keeps_times)
        if run.trouble is None:
            self.after(scenario, contestant, number, run, log)
        self.write_row(scenario, contestant, number, run)
        if not scenario.keep_outputs:
            shutil.rmtree(place)
            self.removed = time.monotonic()
        return run

    def make_memory(self, contestant: Contestant, place: Path) -> None:
        """Brings free memory into the state that is measured. A few megabytes come from memory in use a moment ago."""
        size = contestant.bytes
        if self.memory == "found":
            time.sleep(max(0.0, self.removed + PAUSE - time.monotonic()))
        elif self.memory == "touched" and size > REHEARSED:
            touch_free_memory(max(6 * size, 2 * 2**30))
        elif self.memory == "touched" and size >= LARGE and not contestant.prepare:
            self.rehearse(contestant, place)

    def rehearse(self, contestant: Contestant, place: Path) -> None:
        """The same command once more, right before the run that counts: the pages that its removed output frees are those that the
        run takes next, so the host has not had the time to take them back (see touch_free_memory, which costs a second and leaves
        it to the allocator which of the touched pages a run of a quarter of a second gets)."""
        self.timed(contestant, place)
        shutil.rmtree(place)
        place.mkdir()

    def timed(self, contestant: Contestant, place: Path) -> tuple:
        """The command itself: its time, and what was used meanwhile."""
        result, log, far_log = WORK / "result", WORK / "log", WORK / "far.log"
        result.unlink(missing_ok=True)
        port = free_port()
        words = {"{out}": str(place), "{port}": str(port)}
        far = None
        if contestant.far:
            far = self.start([*self.at_far(), *filled(contestant.far, words)], place, far_log)
            wait_for_listener(far, port)
        server_before, machine_before, traffic_before = self.server_cpu(), machine_cpu_seconds(), self.traffic()
        start = time.monotonic()
        measured = [str(WORK / "measure"), str(result), str(TIMEOUT), *filled(contestant.argv, words)]
        near = self.start([*self.at_near(), *measured], place, log)
        near.wait()
        # Of a pipe that was cut short a part may still wait for the rest.
        end_group(near)
        wall, user, system, rss, status = result.read_text().split()
        said = trouble_of_status(int(status), log)
        if far:
            said = end_far(far, said, far_log)
            wall = time.monotonic() - start
        self.running.clear()
        server_cpu = self.server_cpu() - server_before
        machine_cpu = machine_cpu_seconds() - machine_before
        others_cpu = max(0.0, machine_cpu - server_cpu - float(user) - float(system))
        run = Run(float(wall), float(user), float(system), int(rss) * 1024, server_cpu, others_cpu, said)
        if traffic_before:
            run.sent, run.returned = (now - then for now, then in zip(self.traffic(), traffic_before))
        return run, log

    def start(self, argv: list, place: Path, log: Path) -> subprocess.Popen:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C", "TERM": "dumb"} | self.variables
        with open(log, "wb") as output:
            process = subprocess.Popen(
                argv,
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group of its own, so that all of a pipe can be ended.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.running.append(process)
        return process

    def end_running(self) -> None:
        while self.running:
            end_group(self.running.pop())

    def write_row(self, scenario: Scenario, contestant: Contestant, number: int, run: Run) -> None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        times = [f"{run.wall:.6f}", f"{run.user:.6f}", f"{run.system:.6f}", run.rss // 1024]
        others = [f"{run.server_cpu:.2f}", f"{run.others_cpu:.2f}"]
        traffic = ["" if count is None else count for count in (run.sent, run.returned)]
        row = [self.labelled(scenario), contestant.name, number, now, contestant.bytes, *times, *others, *traffic]
        self.raw.writerow([*row, run.trouble or ""])
        self.raw_file.flush()

    def disturbed(self, runs: list) -> list:
        """Says it where others had a tenth of a processor or more; runs under 0.2 s are too short for 10 ms ticks."""
        shares = [run.others_cpu / run.wall for run in runs if run.wall >= 0.2]
        if not shares or max(shares) < 0.1:
            return []
        count = sum(share >= 0.1 for share in shares)
        return [f"other processes took up to {max(shares):.0%} of a processor ({count} of {len(shares)} runs over 10 %)"]

    def report(self, scenario: Scenario, contestants: list, medians: dict, remarks: list) -> None:
        lines = [f"## {self.titled(scenario)}", ""]
        if medians:
            lines += self.table(medians)
        goals = scenario.goals_as_found if self.memory == "found" and scenario.goals_as_found else scenario.goals
        lines += ["", *(goal.line(medians) for goal in goals), *(f"- {remark}" for remark in remarks)]
        print("\n".join([""] + lines + [""]), flush=True)
        commands = []
        for contestant in contestants:
            commands += [f"    far: {command_line(contestant.far)}"] if contestant.far else []
            commands.append(f"    {command_line(contestant.argv)}")
        self.summary += lines + ["", "Commands, each in an empty folder:", "", *commands, ""]
        self.write_summary()

    def cannot(self, scenario: Scenario, error: Exception) -> None:
        """A scenario that this machine does not allow, or whose set-up failed."""
        self.failed = True
        note(f"  not run: {error}")
        self.summary += [f"## {scenario.name}: {scenario.title}", "", f"- not run: {error}", ""]
        self.write_summary()

    def write_summary(self) -> None:
        text = "\n".join([f"# Benchmark of {self.stamp}", "", *self.method, "", *self.summary])
        (self.folder / "summary.md").write_text(text)


def invited(contestants: list) -> list:
    """Those that `ONLY` names."""
    left_out = [c.name for c in contestants if ONLY and c.name not in ONLY]
    if left_out:
        note(f"  left out by ONLY: {', '.join(left_out)}")
    return [c for c in contestants if c.name not in left_out]


def filled(argv: list, words: dict) -> list:
    """The words of a command with what its braces stand for."""
    filled_in = []
    for word in map(str, argv):
        for name, value in words.items():
            word = word.replace(name, value)
        filled_in.append(word)
    return filled_in


def trouble_of_status(status: int, log: Path) -> Optional[str]:
    if status == 0:
        return None
    if status == 124:
        return f"timed out after {TIMEOUT} s"
    said = log.read_text(errors="replace").strip().splitlines()
    last = said[-1][:200].replace(str(ROOT), ".") if said else "no output"
    return f"exit status {status}: {last}"


def end_far(far: subprocess.Popen, trouble: Optional[str], log: Path) -> Optional[str]:
    """Waits for the far end's command; one whose near end failed is ended."""
    if trouble:
        end_group(far)
        return trouble
    try:
        status = far.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        end_group(far)
        return f"its far end did not end within {TIMEOUT} s"
    said = trouble_of_status(status, log)
    return f"far end: {said}" if said else None


def wait_after_removal() -> None:
    removed = WORK / "removed"
    left = 65 - (time.time() - removed.stat().st_mtime) if removed.exists() else 0
    if left > 0:
        note(f"  waiting {left:.0f} s: ext4 without a journal is slow right after the removal of many files")
        time.sleep(left)


def remove_outputs() -> None:
    if (WORK / "out").exists():
        shutil.rmtree(WORK / "out", ignore_errors=True)
        os.sync()
        (WORK / "removed").touch()


# --- words
# ------------------------------------------------------------------------------------------------------------------


def markdown(rows: list) -> list:
    """A table; the first row is its head, all columns but the first are figures."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rows = [rows[0], ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]], *rows[1:]]
    texts = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        texts.append(f"| {' | '.join(cells)} |")
    return texts


def spread(summary: Summary) -> str:
    """Median, smallest and largest time."""
    walls = [run.wall for run in summary.runs]
    return f"{duration(summary.wall)} ({duration(min(walls))}-{duration(max(walls))})"


def command_line(argv: list) -> str:
    return " ".join(plain(word) for word in argv)


def plain(word: object) -> str:
    """An argument without this machine's paths."""
    return str(word).replace(str(WEIR), "weir").replace(str(ROOT) + "/", "")


def duration(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 0.1 else f"{seconds * 1e3:.2f} ms"


def human(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("GB", GB), ("MiB", MIB), ("MB", MB), ("KiB", 1024), ("kB", 1000)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count / GB:g} GB" if count >= GB else f"{count / MB:g} MB" if count >= MB else f"{count} bytes"


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- from the command line to the results
# -----------------------------------------------------------------------------------


def wanted_of(table: dict, doc: str) -> list:
    """The scenarios that the command line names; all of them without a name."""
    wanted = sys.argv[1:]
    if wanted in (["--list"], ["-h"], ["--help"]):
        print(doc)
        for scenario in table.values():
            print(f"  {scenario.name:14} {scenario.title}")
        sys.exit(0)
    for name in wanted:
        if name not in table:
            sys.exit(f"unknown scenario '{name}': expected {', '.join(table)}")
    return [scenario for scenario in table.values() if not wanted or scenario.name in wanted]


def ready(*tools: str) -> None:
    """What every benchmark needs before it begins."""
    for tool in tools:
        if not shutil.which(tool):
            sys.exit(f"no {tool}: scripts/need bench installs what the benchmark uses")
    if not os.access(WEIR, os.X_OK):
        sys.exit("no weir to measure: make build")
    # So that `finally` runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    WORK.mkdir(parents=True, exist_ok=True)


def results_folder(lines: dict) -> tuple:
    """A fresh folder for this benchmark with the machine described in it, and its name, the time."""
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%SZ")
    folder = RESULTS / stamp
    folder.mkdir(parents=True)
    (folder / "environment.txt").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return folder, stamp


def play(bench: Bench, scenarios: list) -> None:
    """Runs them, removes what they left, and says where the results lie."""
    try:
        for scenario in scenarios:
            try:
                bench.scenario(scenario)
            except (RuntimeError, PermissionError) as error:
                bench.cannot(scenario, error)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        remove_outputs()
    folder = bench.folder
    print(f"written: {folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder}")
    if bench.failed:
        sys.exit("weir failed in at least one run, or a scenario could not be set up; the summary says where")


def add_paths() -> None:
    """Servers and file system tools live there, and a user's PATH often lacks it."""
    os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"
