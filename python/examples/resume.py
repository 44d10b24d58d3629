"""Downloads a file as often as it takes: python resume.py URL FILE"""

import sys
import time

import weir


def fetch(url: str, path: str, attempts: int = 5) -> weir.Record:
    """The record of the run that completed the file."""
    for attempt in range(attempts):
        try:
            return weir.get(url, path)
        except weir.IncompleteError as error:
            print(error, file=sys.stderr)
            time.sleep(2**attempt)
    return weir.get(url, path)


if __name__ == "__main__":
    record = fetch(sys.argv[1], sys.argv[2])
    print(f"{record.bytes} bytes at {record.rate / 1e6:.1f} MB/s")
    if record.verdict is not None and record.verdict.limit is not None:
        print("limit:", record.verdict.limit)
