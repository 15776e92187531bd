"""The CPU backend against PyTorch's own CPU operators, in float32.

    python -m benchmarks.cpu [--op OP ...] [--rounds N] [--threads N] [--output FILE] [--check]

The two take turns; the table shows medians, and beside them the ratio of the shortest times, which other work on the
machine disturbs least. Our goal is at most ten times PyTorch's median.
"""

import argparse
import statistics
import sys

import torch
from tqdm import tqdm

import ninetoothed_ops  # noqa: F401  (registers torch.ops.ninetoothed)
from benchmarks import measure, tasks
from benchmarks.report import save, table

GOAL = 10.0


def compare(name, rounds):
    """Milliseconds of PyTorch and of ours for the task's `cpu` case, and our relative error against float64."""
    task = tasks.load(name)
    args, kwargs = tasks.arguments(task, "cpu", torch.float32, "cpu")
    operator = getattr(torch.ops.ninetoothed, name)
    with torch.inference_mode():
        error = tasks.relative_error(operator(*args, **kwargs), tasks.reference(task, args, kwargs))
        samples = measure.cpu_times(
            {"torch": lambda: task.eager(*args, **kwargs), "ours": lambda: operator(*args, **kwargs)}, rounds
        )
    times = {who: statistics.median(values) for who, values in samples.items()}
    return {
        "op": name,
        "shapes": [tuple(value.shape) for value in args if isinstance(value, torch.Tensor)],
        **times,
        "ratio": times["ours"] / times["torch"],
        "ratio of shortest": min(samples["ours"]) / min(samples["torch"]),
        "error": error,
    }


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cpu", description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", choices=tasks.NAMES, help="only this operation (may be repeated)")
    parser.add_argument("--rounds", type=positive, default=15, help="how often each takes its turn")
    parser.add_argument("--threads", type=positive, help="how many threads PyTorch may use; default: its own choice")
    parser.add_argument("--output", help="write the results as JSON to this file")
    parser.add_argument("--check", action="store_true", help=f"fail where ours takes more than {GOAL:g} times as long")
    options = parser.parse_args(arguments)

    if options.threads:
        torch.set_num_threads(options.threads)
    results = [compare(name, options.rounds) for name in tqdm(options.op or tasks.NAMES, disable=None, leave=False)]
    rows = [
        (
            result["op"],
            " by ".join("x".join(map(str, shape)) for shape in result["shapes"]),
            f"{result['torch']:.3f}",
            f"{result['ours']:.3f}",
            f"{result['ratio']:.2f}",
            f"{result['ratio of shortest']:.2f}",
            f"{result['error']:.1e}",
        )
        for result in results
    ]
    print(f"float32, {torch.get_num_threads()} threads, PyTorch {torch.__version__}, median of {options.rounds}\n")
    print(table(("operation", "shapes", "PyTorch, ms", "ours, ms", "ratio", "of shortest", "relative error"), rows))
    slow = [result["op"] for result in results if not result["ratio"] <= GOAL]
    print(f"\nwithin {GOAL:g} times PyTorch: {len(results) - len(slow)} of {len(results)} {' '.join(slow)}")
    if options.output:
        print(f"written to {save(options.output, results)}")
    return 1 if options.check and slow else 0


if __name__ == "__main__":
    sys.exit(main())
