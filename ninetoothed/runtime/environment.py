"""The environment variables that help to find a mistake, read in one place and passed on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from ninetoothed.passes import PassReport
from ninetoothed.passes.report import show


def poisons_overhang() -> bool:
    """Tell whether overhang is poisoned on the CPU, to show what depends on it: `NINETOOTHED_POISON=1`."""
    return os.environ.get("NINETOOTHED_POISON", "0") not in ("", "0")


def dumps_passes() -> bool:
    """Tell whether each program is printed as the passes rewrite it: `NINETOOTHED_DUMP=passes`."""
    return "passes" in os.environ.get("NINETOOTHED_DUMP", "").split(",")


def dump(title: str, reports: Iterable[PassReport]) -> None:
    """Print what passes did to a program to stderr, where that is asked for."""
    if dumps_passes():
        print(f"# {title}\n\n{show(reports)}", file=sys.stderr)
