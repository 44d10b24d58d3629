"""2 GiB by weir.get against the command of the same wheel, from one weir serve: interleaved, medians. Fails where the module takes
more than 1.03 of the command's time; the results are kept as those of the other benchmarks are.

From the environment: RUNS=5, WEIR_BENCH_SIZE (bytes), WEIR_BENCH_DIR=/var/tmp, RESULTS=bench/results.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lib import Goal, duration, human, markdown, results_folder
from machine import file_system, first_line, machine
from settings import ROOT, RUNS

import weir

SIZE = int(os.environ.get("WEIR_BENCH_SIZE", 2 << 30))
BOUND = 1.03
PLACE = os.environ.get("WEIR_BENCH_DIR", "/var/tmp")


def main() -> None:
    program = str(Path(sys.prefix) / "bin" / "weir")
    lines = machine() | {"weir": first_line(program, "--version"), "file system": file_system(Path(PLACE).resolve())}
    lines |= {"free memory": "measured as found", "settings": f"RUNS={RUNS} WEIR_BENCH_SIZE={SIZE}"}
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        source = Path(folder, "source")
        source.mkdir()
        block = os.urandom(1 << 20)
        with open(source / "x.bin", "wb") as file:
            for _ in range(SIZE >> 20):
                file.write(block)
        serve = [program, "serve", str(source), "--listen", "127.0.0.1:0"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            assert server.stdout is not None
            line = server.stdout.readline()
            url = next(word for word in line.split() if word.startswith("http://")).rstrip("/,") + "/x.bin"
            times: dict[str, list[float]] = {"command": [], "module": []}
            for run in range(RUNS + 1):
                for name in ("command", "module") if run % 2 else ("module", "command"):
                    target = Path(folder, name)
                    began = time.perf_counter()
                    if name == "command":
                        subprocess.run([program, "get", "--quiet", url, "-o", str(target)], check=True)
                    else:
                        weir.get(url, target)
                    took = time.perf_counter() - began
                    target.unlink()
                    # The first round warms the page cache.
                    if run:
                        times[name].append(took)
            server.terminate()
    report(times, lines)


def report(times: dict[str, list[float]], lines: dict[str, str]) -> None:
    """Keeps every run and the medians, says them, and ends with 1 where the goal is not held."""
    medians = {name: statistics.median(runs) for name, runs in times.items()}
    rows = [["", "wall", "times", "runs"]]
    for name, runs in times.items():
        wall = f"{duration(medians[name])} ({duration(min(runs))}-{duration(max(runs))})"
        rows.append([name, wall, f"{medians[name] / medians['command']:.3f}", str(len(runs))])
    goal = Goal("of the command's time, by the module", lambda of: of["module"] / of["command"], BOUND, at_most=True)
    folder, stamp = results_folder(lines)
    title = f"# Benchmark of {stamp}: {human(SIZE)} by weir.get and by the command"
    text = "\n".join([title, "", *markdown(rows), "", goal.line(medians), ""])
    (folder / "summary.md").write_text(text)
    with open(folder / "raw.csv", "w", newline="") as file:
        raw = csv.writer(file)
        raw.writerow(["contestant", "run", "bytes", "wall_s"])
        for name, runs in times.items():
            raw.writerows([name, number, SIZE, f"{wall:.6f}"] for number, wall in enumerate(runs, 1))
    print(text)
    print(f"written: {folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder}")
    sys.exit(goal.value(medians) > goal.bound)


main()
