"""Check all functions with all types; see the package."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tqdm import tqdm

from ninetoothed.runtime.selection.machine import named

from .cases import FAULTS, Case, Outcome, cases, on_cpu, on_gpu


def outcomes(case: Case, gpus: tuple[str, ...], compiled: dict[str, str]) -> dict[str, Outcome]:
    """Say what becomes of a case on the CPU and on GPUs."""
    return {"cpu": on_cpu(case), **{gpu: on_gpu(case, named(gpu), compiled) for gpu in gpus}}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.types", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a text that the names of rows have")
    parser.add_argument("--gpu", nargs="*", default=("a100", "h100", "b200"), help="GPUs to compile for")
    options = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    compiled: dict[str, str] = {}
    for case in tqdm(list(cases(options.only))):
        found = outcomes(case, tuple(options.gpu), compiled)
        counts.update((backend, outcome.kind) for backend, outcome in found.items())
        apart = {outcome.kind for outcome in found.values()}
        for backend, outcome in found.items():
            if outcome.kind in FAULTS or len(apart) > 1:
                tqdm.write(f"{case}, {backend}: {outcome.kind}: {outcome.said}")
    for (backend, kind), count in sorted(counts.items()):
        print(f"{backend:6} {kind:16} {count:6}")
    return any(kind in FAULTS for _, kind in counts)


if __name__ == "__main__":
    sys.exit(main())
