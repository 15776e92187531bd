"""Time the kernels of examples/kernels on a GPU, beside PyTorch's eager, Inductor's, and Triton's by hand.

    python -m benchmarks.gallery [NAME ...] [--no-inductor] [--workers N] [--budget SECONDS] [--output FILE]

All is compiled beforehand, in parallel processes, which leave it in the caches on disk; a worker that fails or hangs
costs time alone. Then one process times kernel after kernel: device time, the median of short bursts for which the
peers take turns (benchmarks/measure.py), after comparing ours with PyTorch's. What fails is recorded with its error,
and the rest goes on; so is what was not reached when the budget was spent. The exit status is 1 where ours fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks import measure
from benchmarks.gallery.compiling import OURS, Call, compile_all, copied, functions
from benchmarks.gallery.files import Example, examples
from benchmarks.report import RESULTS, save, slug, table

UNREACHED = "not reached within the budget"
PEERS = (OURS, "eager", "inductor", "triton")
# Their results are random, or of one kernel and another algorithm: nothing to compare.
RANDOM = ("random", "sampling")
# Seconds after which one kernel is given up.
PATIENCE = 20
CLOCK = {"rounds": 5, "burst": 8.0, "rest": 0.02}


def compare(example: Example, device: str, with_inductor: bool, clock: Callable[..., dict[str, float]]) -> dict:
    """Time one kernel and its peers; what fails has its error in the result."""
    begin, times, errors, difference, said = time.perf_counter(), {}, {}, None, []
    try:
        with limited(PATIENCE), torch.no_grad():
            arguments, found = functions(example, device, with_inductor)
            said = [described(each) for each in arguments]
            results = {peer: tried(function, arguments, errors, peer) for peer, function in found.items()}
            if example.theme not in RANDOM and not {OURS, "eager"} & errors.keys():
                difference = apart(results[OURS], results["eager"])
            del results
            calls = {peer: lambda f=f: f(*arguments) for peer, f in found.items() if peer not in errors}
            times = clock(calls, **CLOCK)
    except Exception as error:  # One kernel that fails is a result to be shown, not the end of the run.
        errors.setdefault(OURS, told(error))
    return {
        "name": example.name,
        "theme": example.theme,
        "arguments": said,
        "milliseconds": times,
        "difference": difference,
        "errors": errors,
        "seconds": round(time.perf_counter() - begin, 2),
    }


def tried(function: Call, arguments: tuple[Any, ...], errors: dict[str, str], peer: str) -> Any:
    """Call a function on copies; note its error."""
    try:
        return function(*copied(arguments))
    except Exception as error:
        errors[peer] = told(error)
        return None


def apart(ours: Any, eager: Any) -> float:
    """Return the greatest relative difference of two results, or of two tuples of them."""
    pairs = zip(*(each if isinstance(each, tuple | list) else (each,) for each in (ours, eager)), strict=True)
    return max(_apart(a, b) for a, b in pairs)


def _apart(ours: torch.Tensor, eager: torch.Tensor) -> float:
    """Compare what is finite; infinities and NaN must stand at the same places."""
    ours, eager = (torch.view_as_real(each) if each.is_complex() else each for each in (ours, eager))
    ours, eager, is_finite = ours.double(), eager.double(), eager.isfinite()
    if not torch.equal(ours.isfinite(), is_finite):
        return float("inf")
    zero = torch.zeros((), dtype=torch.float64, device=eager.device)
    norm = torch.where(is_finite, eager, zero).norm().item()
    error = torch.where(is_finite, ours - eager, zero).norm().item()
    return error / norm if norm else error


def described(value: Any) -> str:
    """Describe an argument: a tensor's type and shape."""
    is_tensor = isinstance(value, torch.Tensor)
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}" if is_tensor else repr(value)


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:300]


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` after so many seconds, between two lines of Python."""

    def raised(*_: Any) -> None:
        raise TimeoutError(f"given up after {seconds} s")

    before = signal.signal(signal.SIGALRM, raised)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(
    chosen: list[Example], device: str, with_inductor: bool, until: float, clock: Callable[..., dict[str, float]]
) -> list[dict]:
    """Time all that is chosen before a moment of `time.monotonic`; name those that were not reached."""
    results = []
    for example in chosen:
        if time.monotonic() > until:
            error = {OURS: UNREACHED}
            results.append({"name": example.name, "theme": example.theme, "milliseconds": {}, "errors": error})
            continue
        results.append(compare(example, device, with_inductor, clock))
        if device == "cuda":
            torch.cuda.empty_cache()
    return results


def printed(results: list[dict]) -> str:
    """Write a line for each kernel; a peer that failed has a dash, and its error below the table."""
    rows = []
    for each in results:
        times = each["milliseconds"]
        best = min((value for peer, value in times.items() if peer != OURS), default=float("nan"))
        ratio = f"{times[OURS] / best:.2f}" if OURS in times else "-"
        difference = each.get("difference")
        cells = (f"{times[peer]:.4f}" if peer in times else "-" for peer in PEERS)
        rows.append((each["name"], *cells, ratio, "-" if difference is None else f"{difference:.0e}"))
    errors = [f"{each['name']}, {peer}: {text}" for each in results for peer, text in each["errors"].items()]
    return "\n".join([table(("kernel", *PEERS, "ours / best", "difference"), rows), *errors])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gallery", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these kernels")
    parser.add_argument("--no-inductor", action="store_true", help="leave Inductor out, which compiles longest")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that compile; 0: none")
    parser.add_argument("--budget", type=float, default=600, help="seconds after which no other kernel is begun")
    parser.add_argument("--output", help="the file; default: benchmarks/results/gallery-GPU.json")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("benchmarks.gallery needs a CUDA device", file=sys.stderr)
        return 2
    chosen = [each for each in examples() if not options.names or each.name in options.names]
    begin = time.monotonic()
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    if options.workers:
        names = [each.name for each in chosen]
        compile_all(names, not options.no_inductor, options.workers, options.budget / 2)
        print(f"compiled in {time.monotonic() - begin:.0f} s")
    results = run(chosen, "cuda", not options.no_inductor, begin + options.budget, measure.device_times)
    path = pathlib.Path(options.output or RESULTS / f"gallery-{slug(torch.cuda.get_device_name())}.json")
    print(printed(results))
    print(f"written to {save(path, results)} after {time.monotonic() - begin:.0f} s")
    return int(any(OURS in each["errors"] for each in results))


if __name__ == "__main__":
    sys.exit(main())
