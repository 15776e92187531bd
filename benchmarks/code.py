"""Table 2 of the paper: how much there is to read in a kernel, ours against its twin in Triton.

    python -m benchmarks.code [--op OP ...] [--check]

For each kernel it prints radon's metrics of `ninetoothed_ops/kernels/OP.py` and of `benchmarks/twins/OP.py`, beside
those that the paper prints, and says whether our Halstead volume over the twin's is at or below the paper's ratio.
Lines, cyclomatic complexity G, vocabulary η, length N, volume V and difficulty D are better when low, the
maintainability index MI when high. As in the paper, what a kernel takes from another file counts there; files that
only serve others come last, with the shorter twins over descriptors, to which `twins/OP.py` leaves aligned operands.
"""

import argparse
import math
import pathlib
import sys
from dataclasses import astuple, dataclass

from benchmarks import tasks
from benchmarks.report import table

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADINGS = ("LOC", "LLOC", "SLOC", "G", "η", "N", "V", "D", "MI")


@dataclass(frozen=True)
class Metrics:
    """The metrics of radon for one file."""

    loc: int
    lloc: int
    sloc: int
    complexity: int
    vocabulary: int
    length: int
    volume: float
    difficulty: float
    maintainability: float


# Table 2 as printed: of each kernel the row of Triton, then that of NineToothed.
PAPER = {
    "add": (
        Metrics(17, 12, 12, 1, 14, 21, 79.95, 1.91, 63.00),
        Metrics(21, 12, 12, 2, 3, 3, 4.75, 0.50, 87.91),
    ),
    "addmm": (
        Metrics(101, 43, 86, 2, 89, 153, 990.79, 4.35, 43.12),
        Metrics(22, 12, 12, 2, 8, 9, 27.00, 1.00, 66.30),
    ),
    "bmm": (
        Metrics(93, 44, 82, 2, 87, 159, 1024.43, 4.64, 42.80),
        Metrics(39, 22, 29, 1, 3, 16, 25.36, 2.00, 60.75),
    ),
    "conv2d": (
        Metrics(129, 56, 110, 2, 116, 237, 1625.34, 5.07, 39.11),
        Metrics(25, 18, 16, 1, 2, 4, 4.00, 1.00, 68.13),
    ),
    "mm": (
        Metrics(85, 39, 74, 2, 75, 132, 822.20, 4.53, 44.61),
        Metrics(44, 24, 31, 3, 5, 11, 25.54, 2.00, 59.77),
    ),
    "rms_norm": (
        Metrics(27, 12, 20, 1, 20, 33, 142.62, 2.75, 61.24),
        Metrics(21, 11, 13, 2, 11, 14, 48.43, 2.57, 81.24),
    ),
    "rope": (
        Metrics(53, 26, 43, 2, 52, 114, 649.85, 4.04, 49.17),
        Metrics(56, 34, 39, 5, 16, 29, 116.00, 4.09, 51.60),
    ),
    "sdpa": (
        Metrics(120, 43, 106, 2, 56, 87, 505.24, 2.84, 45.17),
        Metrics(60, 44, 42, 3, 30, 58, 284.60, 4.25, 55.75),
    ),
    "silu": (
        Metrics(16, 11, 11, 1, 13, 18, 66.61, 1.80, 64.38),
        Metrics(19, 11, 11, 2, 3, 3, 4.75, 0.50, 89.51),
    ),
    "softmax": (
        Metrics(31, 17, 24, 1, 20, 27, 116.69, 3.00, 58.55),
        Metrics(24, 14, 14, 2, 6, 6, 15.51, 1.00, 81.90),
    ),
}


def volume(metrics):
    """Halstead's volume N log2 η; from the paper's integers, since its printed volumes are rounded."""
    return metrics.length * math.log2(metrics.vocabulary) if metrics.vocabulary else 0.0


def measure(source):
    """The metrics of a file's text."""
    from radon.complexity import ComplexityVisitor
    from radon.metrics import h_visit, mi_visit
    from radon.raw import analyze

    raw, halstead = analyze(source), h_visit(source).total
    return Metrics(
        raw.loc,
        raw.lloc,
        raw.sloc,
        # Of the whole file: 1, and 1 more for each branch, loop and comprehension.
        ComplexityVisitor.from_code(source).total_complexity,
        halstead.vocabulary,
        halstead.length,
        halstead.volume,
        halstead.difficulty,
        mi_visit(source, multi=True),
    )


def kernel_file(name):
    return ROOT / "ninetoothed_ops" / "kernels" / f"{name}.py"


def twin_file(name):
    return ROOT / "benchmarks" / "twins" / f"{name}.py"


def compare(name):
    """(twin, ours) of one kernel, as the files stand."""
    return measure(twin_file(name).read_text()), measure(kernel_file(name).read_text())


def volume_ratio(pair):
    triton, ours = pair
    return volume(ours) / volume(triton)


def lines(name):
    """The rows of the table for one kernel: the paper's two, then ours, then the ratio of the volumes."""
    rows = []
    for owner, pair in (("paper", PAPER[name]), ("here", compare(name))):
        for language, metrics in zip(("Triton", "NineToothed"), pair, strict=True):
            ratio = f"{volume_ratio(pair):.2%}" if language == "NineToothed" else ""
            rows.append((name, owner, language, *cells(metrics), ratio))
    return rows


def cells(metrics):
    return tuple(f"{value:.2f}" if isinstance(value, float) else value for value in astuple(metrics))


def shared_lines():
    """A row for each file of the kernels' folder that is no kernel itself, and for each twin over descriptors."""
    files = sorted(path for path in kernel_file("*").parent.glob("[!_]*.py") if path.stem not in tasks.NAMES)
    rows = [(path.stem, "shared", "NineToothed", *cells(measure(path.read_text())), "") for path in files]
    over_descriptors = sorted((twin_file("*").parent / "tma").glob("[!_]*.py"))
    return rows + [
        (f"tma/{path.stem}", "here", "Triton", *cells(measure(path.read_text())), "") for path in over_descriptors
    ]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.code", description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", choices=tasks.NAMES, help="only this kernel (may be repeated)")
    parser.add_argument("--check", action="store_true", help="fail where a ratio of volumes is above the paper's")
    options = parser.parse_args(arguments)
    names = options.op or tasks.NAMES

    rows = [row for name in names for row in lines(name)] + (shared_lines() if names is tasks.NAMES else [])
    print(table(("kernel", "whose", "language", *HEADINGS, "V / V of Triton"), rows))

    above = [name for name in names if volume_ratio(compare(name)) > volume_ratio(PAPER[name])]
    print(f"\nvolume ratio at or below the paper's: {len(names) - len(above)} of {len(names)}")
    for name in above:
        print(f"above: {name}, {volume_ratio(compare(name)):.2%} against {volume_ratio(PAPER[name]):.2%}")
    return 1 if options.check and above else 0


if __name__ == "__main__":
    sys.exit(main())
