"""Downloads a file with a bar and what limits it: python bar.py URL FILE"""

import sys

import weir


def show(now: weir.Progress) -> None:
    """One line on a terminal."""
    share = f"{now.bytes / now.total:4.0%}" if now.total else f"{now.bytes} bytes"
    print(
        f"\r{share} {now.rate / 1e6:.1f} MB/s, {now.connections} connections, {now.limit or '-':20}",
        end="",
        file=sys.stderr,
    )


if __name__ == "__main__":
    try:
        weir.get(sys.argv[1], sys.argv[2], progress=show)
    except weir.Interrupted as error:
        sys.exit(f"\n{error}")
    except weir.WeirError as error:
        sys.exit(f"\n{error}")
