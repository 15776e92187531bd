"""Compare two commits, or a commit and the working tree; see the package."""

from __future__ import annotations

import argparse
import sys
import time

from . import trees
from .compare import compare, show


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", nargs="?", default=trees.WORKING_TREE, help="another; the working tree by default")
    parser.add_argument("--quick", action="store_true", help="a tenth of the programs")
    parser.add_argument("--part", action="append", default=[], help="only these programs: a part of `corpus.PARTS`")
    parser.add_argument("--full", action="store_true", help="show all that differs")
    options = parser.parse_args(arguments)
    start, recordings = time.monotonic(), []
    try:
        print(f"OLD {trees.described(options.old)}\nNEW {trees.described(options.new)}", flush=True)
        asked = [*(["--quick"] if options.quick else []), *(f"--part={part}" for part in options.part)]
        for commit in (options.old, options.new):
            recordings.append(trees.begin(commit, asked))
        comparison = compare(*(recording.result() for recording in recordings))
    except trees.Failed as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        for recording in recordings:
            recording.end()
    print("\n".join(show(comparison, options.full)))
    print(f"\n{time.monotonic() - start:.0f} s")
    return 0 if comparison.is_same else 1


if __name__ == "__main__":
    sys.exit(main())
