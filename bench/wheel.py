"""2 GiB by weir.get against the command of the same wheel, from one weir serve: interleaved, medians."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import weir

SIZE = int(os.environ.get("WEIR_BENCH_SIZE", 2 << 30))
RUNS = int(os.environ.get("RUNS", 5))


def main() -> None:
    program = str(Path(sys.prefix) / "bin" / "weir")
    with tempfile.TemporaryDirectory(dir=os.environ.get("WEIR_BENCH_DIR", "/var/tmp")) as folder:
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
    medians = {name: statistics.median(all_of_it) for name, all_of_it in times.items()}
    for name, median in medians.items():
        print(f"{name}: median {median:.3f} s of {sorted(round(one, 3) for one in times[name])}")
    print(
        f"module / command: {medians['module'] / medians['command']:.3f} ({SIZE >> 20} MiB, {RUNS} runs each)"
    )


main()
