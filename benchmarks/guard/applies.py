"""Count how often each pass, schedule and fallback applies over the corpus: `python -m benchmarks.guard.applies`.

A program counts for a GPU where the pass changes its text there. Of what applies to few programs, these are named: a
pass that nothing needs is one to delete, one that one program needs is one to look at.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

from benchmarks.report import table

from . import trees

TARGETS = ("A100", "H100", "H200", "B200", "cpu")
# Up to so many programs are named.
FEW = 5


def count(record: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Of all that may apply, the programs by target."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in record["watched"]}
    for program, targets in record["programs"].items():
        for target, answer in targets.items():
            for name in answer.get("offered", ()):
                found.setdefault(name, {})
            for name in answer.get("applied", ()):
                found.setdefault(name, {}).setdefault(target, []).append(program)
    return found


def rows(found: dict[str, dict[str, list[str]]]) -> list[tuple[Any, ...]]:
    """A row for each: on how many programs of each target, and on how many in all."""
    told = []
    for name, targets in sorted(found.items(), key=lambda item: (item[0].split(":")[0], -_programs(item[1]), item[0])):
        told.append((name, *(len(targets.get(target, ())) for target in TARGETS), _programs(targets)))
    return told


def _programs(targets: dict[str, list[str]]) -> int:
    return len({program for programs in targets.values() for program in programs})


def rare(found: dict[str, dict[str, list[str]]]) -> list[str]:
    """Lines that name the programs of what applies to few."""
    lines = []
    for name, targets in sorted(found.items()):
        where: dict[str, list[str]] = {}
        for target, programs in targets.items():
            for program in programs:
                where.setdefault(program, []).append(target)
        if len(where) <= FEW:
            lines += [f"{name}: {'never' if not where else ''}".rstrip()]
            lines += [f"    {program} [{', '.join(targets)}]" for program, targets in where.items()]
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard.applies", description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", default=trees.WORKING_TREE, help="the working tree by default")
    parser.add_argument("--quick", action="store_true", help="a tenth of the programs")
    parser.add_argument("--part", action="append", default=[], help="only these programs: a part of `corpus.PARTS`")
    options = parser.parse_args(arguments)
    asked = ["--census", *(["--quick"] if options.quick else []), *(f"--part={part}" for part in options.part)]
    try:
        record = trees.begin(options.commit, asked).result()
    except trees.Failed as error:
        print(error, file=sys.stderr)
        return 2
    found = count(record)
    asked_of = Counter(target for targets in record["programs"].values() for target in targets if target != "cpu")
    print(f"{len(record['programs'])} programs; " + ", ".join(f"{n} on {gpu}" for gpu, n in sorted(asked_of.items())))
    print(table(("what applies", *TARGETS, "programs"), rows(found)))
    print("\n".join(["", "few programs, or none:", *rare(found)]))
    for told, why in record["unasked"].items():
        print(f"not counted: {told} ({why})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
