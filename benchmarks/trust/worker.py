"""Check seeds of one part in this process, and print a line of JSON for each: `... worker PART SEED SECONDS`."""

import contextlib
import faulthandler
import importlib
import itertools
import json
import os
import sys
import time
import traceback

import torch

from .parts import PARTS, Case


def check(part, seed, seen):
    """The outcome of a seed: how many cases it had that are not in `seen`, and what was wrong."""
    cases, wrong = 0, []
    try:
        for case in importlib.import_module(f"benchmarks.trust.{part}").cases(seed):
            key = hash(case.description)
            cases += key not in seen
            seen.add(key)
            wrong += [case] if case.wrong else []
    except Exception:
        wrong.append(Case("an exception", traceback.format_exc()[-3000:]))
    return {"seed": seed, "cases": cases, "wrong": [vars(case) for case in wrong]}


def main(arguments=None):
    name, first, seconds = arguments or sys.argv[1:]
    (part,) = (part for part in PARTS if part.name == name)
    torch.set_num_threads(1)
    seen, end = set(), time.monotonic() + float(seconds)
    # What cases print must not come between the lines of the protocol.
    with os.fdopen(os.dup(1), "w") as output, contextlib.redirect_stdout(sys.stderr):
        os.dup2(2, 1)
        for seed in itertools.count(int(first)):
            faulthandler.dump_traceback_later(part.limit, exit=True)
            print(json.dumps(check(name, seed, seen)), file=output, flush=True)
            if time.monotonic() >= end:
                break
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
