"""Check random cases for some minutes, and add them to those of the record; see the package."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from tqdm import tqdm

from .parts import PARTS
from .record import PATH, ROOT, Record

BY_NAME = {part.name: part for part in PARTS}


def run(part, record, seconds, bar):
    """Let a process of its own check seeds of a part; start another after one that has crashed."""
    progress, end = record.of(part.name), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        start, first = time.monotonic(), progress.next
        with tempfile.TemporaryDirectory() as directory:
            problem = follow(part, progress, left, directory, lambda: tell(bar, record))
        progress.seconds = round(progress.seconds + time.monotonic() - start, 1)
        if problem:
            progress.wrong.append({"seed": progress.next, "description": "the process ended", "wrong": problem})
            progress.next += 1
        record.save()
        if problem and progress.next == first + 1 == 1:
            return  # It does not even start.


def follow(part, progress, seconds, directory, tell):
    """Take over what the process reports, seed by seed; how it ended, where that was not well."""
    command = [sys.executable, "-m", "benchmarks.trust.worker", part.name, str(progress.next), str(seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NINETOOTHED_CACHE_DIR": directory, **part.environment}
    log = pathlib.Path(directory, "log")
    with log.open("w") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            for line in process.stdout:
                result = json.loads(line)
                progress.next, progress.cases = result["seed"] + 1, progress.cases + result["cases"]
                progress.wrong += [{"seed": result["seed"], **wrong} for wrong in result["wrong"]]
                tell()
    return process.returncode and f"status {process.returncode}: {log.read_text()[-3000:]}"


def tell(bar, record):
    bar.set_postfix_str(f"{record.cases} cases, {len(record.wrong)} wrong")
    bar.n = min(round(time.monotonic() - bar.began), bar.total)
    bar.refresh()


def only(seed, name):
    """Check the cases of one seed in this process; how many were wrong."""
    from .worker import check

    os.environ.setdefault("NINETOOTHED_CACHE_DIR", tempfile.mkdtemp())
    torch.set_num_threads(1)
    result = check(name, seed, set())
    print(f"{name}, seed {seed}: {result['cases']} cases, {len(result['wrong'])} wrong")
    for wrong in result["wrong"]:
        print(f"\n{wrong['description']}\n  {wrong['wrong']}")
    return len(result["wrong"])


def restart(part):
    """Begin this process anew with the environment of a part, where it lacks that."""
    if any(os.environ.get(name) != value for name, value in part.environment.items()):
        command = [sys.executable, "-m", "benchmarks.trust", *sys.argv[1:]]
        sys.exit(subprocess.run(command, env={**os.environ, **part.environment}).returncode)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8, help="how long all parts take together; default: 8")
    parser.add_argument("--part", action="append", choices=BY_NAME, help="only this part (may be repeated)")
    parser.add_argument("--seed", type=int, help="check the cases of this seed alone; needs --part")
    parser.add_argument("--output", type=pathlib.Path, default=PATH, help=f"the record; default: {PATH.name}")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        if len(options.part or ()) != 1:
            parser.error("--seed needs one --part")
        restart(BY_NAME[options.part[0]])
        return 1 if only(options.seed, options.part[0]) else 0

    record = Record.load(options.output)
    parts = [BY_NAME[name] for name in options.part or BY_NAME]
    here = [part for part in parts if part.needs != "cuda" or torch.cuda.is_available()]
    for part in parts:
        print(f"{part.name}: " + (f"seeds from {record.of(part.name).next}" if part in here else "needs a GPU"))
    seconds = 60 * options.minutes
    with tqdm(total=round(seconds), unit="s", disable=None, leave=False) as bar:
        bar.began = time.monotonic()
        for part in here:
            bar.set_description(part.name)
            run(part, record, seconds * part.share / sum(part.share for part in here), bar)
    return report(record, options.output)


def report(record, path):
    """Print what was checked in all, and how to see again what was wrong."""
    for name, part in record.parts.items():
        print(f"{name}: {part.cases} cases of {part.next} seeds in {part.seconds:.0f} s, {len(part.wrong)} wrong")
        for wrong in part.wrong[-10:]:
            print(f"  python -m benchmarks.trust --seed {wrong['seed']} --part {name}  # {wrong['wrong'][:200]}")
    print(f"{record.cases} cases, {len(record.wrong)} wrong; written to {path}")
    return 1 if record.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
