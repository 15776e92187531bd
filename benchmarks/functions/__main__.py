"""Measure functions, and write docs/functions.md; see the package."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from functools import partial
from typing import Any

import torch

from benchmarks.report import RESULTS, save, slug

from .measure import functions, one
from .page import PAGE, text


def measure(names: list[str], device: str, processes: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Measure functions in several processes, until the time is over: what is left is not measured."""
    found, end = {}, time.monotonic() + seconds
    if processes == 1:
        found = dict(one(name, device) for name in names)
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            results = pool.imap_unordered(partial(one, device=device), names)
            while len(found) < len(names):
                try:
                    name, result = results.next(timeout=max(end - time.monotonic(), 0.01))
                except multiprocessing.TimeoutError:
                    break
                found[name] = result
            pool.terminate()
    for name in [name for name, result in found.items() if isinstance(result, str)]:
        print(f"{name}: {found.pop(name)}")
    for name in names if len(found) < len(names) else ():
        if name not in found:
            print(f"{name}: not measured")
    return {name: found[name] for name in names if name in found}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.functions", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", nargs="*", default=[], help="texts of which the names of functions have one")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600, help="when to stop")
    parser.add_argument("--output", help="where to write the results; by default a file of benchmarks/results")
    parser.add_argument("--page", action="store_true", help="write docs/functions.md alone")
    options = parser.parse_args()
    if not options.page:
        names = [name for name in functions() if not options.only or any(each in name for each in options.only)]
        found = measure(names, options.device, options.processes, options.seconds)
        device = "cpu" if options.device == "cpu" else slug(torch.cuda.get_device_name())
        print(save(options.output or RESULTS / f"functions-{device}.json", found))
    PAGE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
