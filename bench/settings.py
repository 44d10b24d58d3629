"""Where things lie, and what the environment says."""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "bench" / "work"
MB, GB, MIB = 10**6, 10**9, 2**20
# weir is measured as it comes, not as whoever measures it likes it.
os.environ["WEIR_CONFIG"] = ""


def size_from_env(name: str, default: str) -> int:
    """`10M` and `2Gi` as weir reads them: decimal without the i, binary with it."""
    text = os.environ.get(name, default)
    match = re.fullmatch(r"(\d+)([kKMGT]?)(i?)B?", text)
    if not match:
        sys.exit(f"invalid {name} '{text}': expected digits followed by k, M, G or Ki, Mi, Gi, such as 64M")
    digits, unit, binary = match.groups()
    return int(digits) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " ")


RUNS = int(os.environ.get("RUNS", "5"))
TIMEOUT = int(os.environ.get("TIMEOUT", "600"))
# Large files are measured on memory as it is found, and beside that on memory touched right before each run,
# where a machine that gives free memory back to its host makes a difference between the two.
BALLOON = any(Path("/sys/bus/virtio/drivers/virtio_balloon").glob("virtio*"))
MEMORY = os.environ.get("MEMORY", "found,touched" if BALLOON else "found").split(",")
for state in MEMORY:
    if state not in ("found", "touched"):
        sys.exit(f"invalid MEMORY '{state}': expected found, touched or found,touched")
# Who takes part, by name; all where nothing is said. Those left out are named in the summary.
ONLY = [name.strip() for name in os.environ.get("ONLY", "").split(",") if name.strip()]
WEIR = Path(os.environ.get("WEIR", ROOT / "target/release/weir")).resolve()
RESULTS = Path(os.environ.get("RESULTS", ROOT / "bench/results"))
