"""Figure 6 of the paper and more: the ten operations on a GPU, ours beside everything else that can do them.

    python -m benchmarks.kernels [--op OP ...] [--case CASE] [--dtype TYPE] [--quick] [--cold] [--output STEM]

Each operation is first compared with float64, then timed: the device's time (the median of do_bench; the peers take
turns in one run), the host's time for one call of a small case, what ours achieves, and the fraction of the
roofline that this is: the floor set by the fewest bytes and operations, over our time, with ceilings measured in
the same run. `--cold` adds the time of the first call with empty and with warm caches. STEM.json and STEM.png are
written.
"""

import argparse
import pathlib
import sys

import torch
from tqdm import tqdm

from benchmarks import cold, measure, peers, tasks
from benchmarks.figure import draw
from benchmarks.report import RESULTS, save, slug, table

OURS = "ninetoothed"


def check(task, calls, args, kwargs):
    """`{peer: relative error against float64}`; one that fails leaves `calls`, and its message is its error."""
    expected = tasks.reference(task, args, kwargs)
    errors = {}
    for peer in tuple(calls):
        try:
            errors[peer] = tasks.relative_error(calls[peer](), expected)
        except Exception as error:
            # Another's failure is a result too; ours is a defect.
            if peer == OURS:
                raise
            errors[peer] = f"{type(error).__name__}: {error}".splitlines()[0]
            del calls[peer]
    return errors


def compare(name, case, dtype, ceilings, quick):
    """One operation, one case: a plain dictionary of what was measured."""
    task = tasks.load(name)
    args, kwargs = tasks.arguments(task, case, dtype, "cuda")
    with torch.inference_mode():
        calls = peers.calls(task, args, kwargs)
        errors = check(task, calls, args, kwargs)
        effort = {"rounds": 1, "warmup": 5, "rep": 20} if quick else {}
        times = measure.device_times(calls, **effort)
        work = tasks.work(task, args, kwargs, calls["eager"]())
        small_args, small_kwargs = tasks.arguments(task, "quick", dtype, "cuda")
        small = peers.calls(task, small_args, small_kwargs)
        host = {peer: measure.host_time(warmed(small[peer])) for peer in calls if peer in small}
    seconds = times[OURS] / 1e3
    return {
        "op": name,
        "case": case,
        "milliseconds": times,
        "errors": errors,
        "host microseconds": host,
        "operations": work.operations,
        "bytes": work.bytes,
        "TFLOP/s": work.operations / seconds / 1e12,
        "GB/s": work.bytes / seconds / 1e9,
        "roofline": work.floor(ceilings) / seconds,
    }


def warmed(call):
    call()
    return call


def rows(results):
    """The printed table's rows; times of peers that cannot do a task are dashes."""
    for result in results:
        times = result["milliseconds"]
        best = min(value for peer, value in times.items() if peer != OURS)
        memory_bound = not result["operations"]
        yield (
            result["op"],
            result["case"],
            *(f"{times[peer]:.4f}" if peer in times else "-" for peer in peers.NAMES),
            f"{times[OURS] / best:.3f}",
            f"{result['GB/s']:.0f} GB/s" if memory_bound else f"{result['TFLOP/s']:.0f} TFLOP/s",
            f"{result['roofline']:.0%}",
            f"{result['host microseconds'][OURS]:.1f}",
            f"{result['host microseconds']['eager']:.1f}",
            f"{result['errors'][OURS]:.1e}",
        )


HEADINGS = (
    "operation",
    "case",
    *(f"{peer}, ms" for peer in peers.NAMES),
    "ours / best",
    "ours achieves",
    "of roofline",
    "host, us",
    "eager's host, us",
    "relative error",
)


def print_first_calls(first):
    """`{peer: {temperature: {operation: seconds}}}` as a table."""
    columns = [(peer, temperature) for peer in first for temperature in first[peer]]
    names = list(first[OURS]["cold"])
    lines = [(name, *(f"{first[peer][temperature][name]:.2f}" for peer, temperature in columns)) for name in names]
    totals = ("all", *(f"{sum(first[peer][temperature].values()):.2f}" for peer, temperature in columns))
    print("\nSeconds of the first call:\n")
    print(table(("operation", *(f"{peer}, {temperature}" for peer, temperature in columns)), [*lines, totals]))


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", choices=tasks.NAMES, help="only this operation (may be repeated)")
    parser.add_argument("--case", default="paper", help="a case of benchmarks/tasks/OP.py, or 'all'")
    parser.add_argument("--dtype", default="float16", choices=("float16", "bfloat16", "float32"))
    parser.add_argument("--quick", action="store_true", help="small shapes, few repetitions: does it run at all?")
    parser.add_argument("--cold", action="store_true", help="time first calls too (tuned twins take minutes)")
    parser.add_argument("--output", help="stem of the files written; default: benchmarks/results/kernels-GPU-TYPE")
    return parser.parse_args(arguments)


def selected(options):
    """The (operation, case) pairs asked for; operations that lack a named case are left out."""
    case = "quick" if options.quick else options.case
    for name in options.op or tasks.NAMES:
        cases = tasks.load(name).cases
        if case == "all":
            yield from ((name, each) for each in cases if each not in ("quick", "cpu"))
        elif case in cases:
            yield name, case


def main(arguments=None):
    options = parse(arguments)
    if not torch.cuda.is_available():
        print("benchmarks.kernels needs a CUDA device; benchmarks.cpu and benchmarks.code do not.", file=sys.stderr)
        return 2
    pairs = list(selected(options))
    if not pairs:
        print(f"no operation has a case {options.case!r}: see benchmarks/tasks", file=sys.stderr)
        return 2
    dtype = getattr(torch, options.dtype)
    ceilings = measure.ceilings(dtype)
    results = [
        compare(name, case, dtype, ceilings, options.quick) for name, case in tqdm(pairs, disable=None, leave=False)
    ]
    print(f"{torch.cuda.get_device_name()}, {options.dtype}, PyTorch {torch.__version__}; ", end="")
    print(f"copy {ceilings.bytes / 1e12:.2f} TB/s, product {ceilings.operations / 1e12:.0f} TFLOP/s\n")
    print(table(HEADINGS, rows(results)))
    record = {"dtype": options.dtype, "ceilings": vars(ceilings), "kernels": results}
    if options.cold:
        names = list(dict.fromkeys(name for name, _ in pairs))
        case = "quick" if options.quick else "paper"
        warmers = tqdm((OURS, "triton", "inductor"), disable=None, leave=False)
        record["first calls"] = {peer: cold.first_calls(peer, names, case, options.dtype) for peer in warmers}
        print_first_calls(record["first calls"])

    stem = options.output or str(RESULTS / f"kernels-{slug(torch.cuda.get_device_name())}-{options.dtype}")
    figure = draw(results, pathlib.Path(f"{stem}.png"), f"{torch.cuda.get_device_name()}, {options.dtype}")
    print(f"\nwritten to {save(f'{stem}.json', record)} and {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
