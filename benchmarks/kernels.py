"""Figure 6 of the paper and more: the ten operations on a GPU, ours beside everything else that can do them.

    python -m benchmarks.kernels [--op OP ...] [--case CASE] [--dtype TYPE] [--backward] [--quick] [--cold]
                                 [--output STEM]
    python -m benchmarks.kernels --attention [--dtype TYPE] [--output STEM]

Each operation is first compared with float64, then timed: the device's time (the median of short bursts for which the
peers take turns, each after a rest: see benchmarks/measure.py), the host's time for one call of a small case, what ours
achieves, and the fraction of the roofline that this is: the floor set by the fewest bytes and operations, over our
time, with ceilings measured in the same run.
`--attention` sweeps attention alone, forward and backward apart, beside cuDNN's and FlashAttention's.
`--backward` times forward with backward, of the peers that have gradients (benchmarks/gradients.py).
`--cold` adds the time of the first call with empty and with warm caches, `--upstream PYTHON` upstream's operators, run
by another environment's interpreter (see benchmarks/upstream.py). STEM.json and STEM.png are written. The exit status
is 1 where an operator of ours fails or is wrong.
"""

import argparse
import pathlib
import sys
from types import SimpleNamespace

import torch
from tqdm import tqdm

from benchmarks import attention, cold, gradients, measure, peers, tasks
from benchmarks.figure import draw
from benchmarks.report import RESULTS, save, slug, table
from benchmarks.upstream import measured

OURS = "ninetoothed"
QUICKLY = {"rounds": 1}
# What is timed: outputs, or `gradients`.
OUTPUTS = SimpleNamespace(calls=peers.calls, reference=tasks.reference, work=tasks.work)
TOLERANCES = {torch.float32: 2e-3, torch.float16: 5e-3, torch.bfloat16: 3e-2}


def check(calls, expected):
    """`{peer: relative error against float64}`; one that fails leaves `calls`, and its message is its error."""
    errors = {}
    for peer in tuple(calls):
        try:
            errors[peer] = tasks.relative_error(calls[peer](), expected)
        except Exception as error:  # Whatever stops a peer is a result to be shown, not the end of the run.
            errors[peer] = f"{type(error).__name__}: {error}".splitlines()[0]
            del calls[peer]
    return errors


def compare(name, case, dtype, ceilings, quick, upstream=None, backward=False):
    """One operation, one case: a plain dictionary of what was measured."""
    of = gradients if backward else OUTPUTS
    task = tasks.load(name)
    args, kwargs = tasks.arguments(task, case, dtype, "cuda")
    small_args, small_kwargs = tasks.arguments(task, "quick", dtype, "cuda")
    with torch.inference_mode(not backward):
        calls = of.calls(task, args, kwargs)
        errors = check(calls, of.reference(task, args, kwargs))
        times = measure.device_times(calls, **(QUICKLY if quick else {}))
        work = of.work(task, args, kwargs, task.eager(*args, **kwargs))
        small = of.calls(task, small_args, small_kwargs)
        host = measure.host_times({peer: warmed(small[peer]) for peer in calls if peer in small})
    if upstream:
        milliseconds, errors["upstream"] = measured(upstream, name, case, str(dtype).removeprefix("torch."))
        times |= {} if milliseconds is None else {"upstream": milliseconds}
    seconds = times.get(OURS, float("nan")) / 1e3
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


def print_results(results):
    """One line for each result; a peer that can do none of the tasks has no column, and where it fails a dash."""
    names = [peer for peer in peers.NAMES if any(peer in result["milliseconds"] for result in results)]
    headings = (
        "operation",
        "case",
        *(f"{peer}, ms" for peer in names),
        "ours / best",
        "ours achieves",
        "of roofline",
        "host, us",
        "eager's host, us",
        "relative error",
    )
    print(table(headings, [row(result, names) for result in results]))


def row(result, names):
    times, host = result["milliseconds"], result["host microseconds"]
    ours = times.get(OURS, float("nan"))
    best = min((value for peer, value in times.items() if peer != OURS), default=float("nan"))
    rate = f"{result['TFLOP/s']:.0f} TFLOP/s" if result["operations"] else f"{result['GB/s']:.0f} GB/s"
    error = result["errors"][OURS]
    return (
        result["op"],
        result["case"],
        *(f"{times[peer]:.4f}" if peer in times else "-" for peer in names),
        f"{ours / best:.3f}",
        rate,
        f"{result['roofline']:.0%}",
        f"{host.get(OURS, float('nan')):.1f}",
        f"{host.get('eager', float('nan')):.1f}",
        error if isinstance(error, str) else f"{error:.1e}",
    )


def defects(results, dtype):
    """The (operation, case) pairs for which ours fails, or is farther from float64 than its type explains."""

    def wrong(error):
        return isinstance(error, str) or not error < TOLERANCES[dtype]

    return [f"{result['op']} ({result['case']})" for result in results if wrong(result["errors"][OURS])]


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
    parser.add_argument(
        "--op", action="append", choices=(*tasks.NAMES, *tasks.MORE), help="only this operation (may be repeated)"
    )
    parser.add_argument("--case", default="paper", help="a case of benchmarks/tasks/OP.py, or 'all'")
    parser.add_argument("--dtype", default="float16", choices=("float16", "bfloat16", "float32"))
    parser.add_argument("--backward", action="store_true", help="forward with backward, in place of forward")
    parser.add_argument(
        "--attention", action="store_true", help="a sweep of attention, beside cuDNN and FlashAttention"
    )
    parser.add_argument("--quick", action="store_true", help="small shapes, few repetitions: does it run at all?")
    parser.add_argument("--cold", action="store_true", help="time first calls too (tuned twins take minutes)")
    parser.add_argument("--upstream", metavar="PYTHON", help="an interpreter that has upstream's ntops")
    parser.add_argument(
        "--output", help="stem of the files written; default: kernels-GPU-TYPE, or gradients-, in benchmarks/results"
    )
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
    if options.attention:
        return attention.main(getattr(torch, options.dtype), options.output)
    pairs = list(selected(options))
    if not pairs:
        print(f"no operation has a case {options.case!r}: see benchmarks/tasks", file=sys.stderr)
        return 2
    dtype = getattr(torch, options.dtype)
    ceilings = measure.ceilings(dtype)
    results = [
        compare(name, case, dtype, ceilings, options.quick, options.upstream, options.backward)
        for name, case in tqdm(pairs, disable=None, leave=False)
    ]
    print(f"{torch.cuda.get_device_name()}, {options.dtype}, PyTorch {torch.__version__}; ", end="")
    print(f"copy {ceilings.bytes / 1e12:.2f} TB/s, product {ceilings.operations / 1e12:.0f} TFLOP/s\n")
    print_results(results)
    record = {"dtype": options.dtype, "ceilings": vars(ceilings), "kernels": results}
    if options.cold:
        names = list(dict.fromkeys(name for name, _ in pairs))
        case = "quick" if options.quick else "paper"
        warmers = tqdm((OURS, "triton", "inductor"), disable=None, leave=False)
        record["first calls"] = {peer: cold.first_calls(peer, names, case, options.dtype) for peer in warmers}
        print_first_calls(record["first calls"])

    kind = "gradients" if options.backward else "kernels"
    stem = options.output or str(RESULTS / f"{kind}-{slug(torch.cuda.get_device_name())}-{options.dtype}")
    title = f"{torch.cuda.get_device_name()}, {options.dtype}" + (", with backward" if options.backward else "")
    figure = draw(results, pathlib.Path(f"{stem}.png"), title, "eager" if options.backward else "triton")
    print(f"\nwritten to {save(f'{stem}.json', record)} and {figure}")
    broken = defects(results, dtype)
    if broken:
        print(f"ours fails or is wrong: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
