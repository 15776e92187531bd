"""The paper's evaluation in one go: Table 2, Figures 6 and 7, and the pictures of arrangements (Figures 2, 4 and 5).

    python -m benchmarks.paper [FOLDER] [--committed]

It writes README.md, which shows them all, and the pictures beside it into FOLDER (build/paper). Where there is a GPU,
the times are measured first, which takes about an hour, unless `--committed` is given; else they are those of
benchmarks/results, as the page says. It needs `pip install -e ".[benchmarks]"`.
"""

import argparse
import json
import pathlib
import sys

import torch

from benchmarks import code, figure, tasks
from benchmarks.end_to_end import figure as tokens_figure
from benchmarks.report import RESULTS, table
from docs.pictures import product
from ninetoothed import Tensor
from ninetoothed.visualization import visualize, visualize_arrangement

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "build" / "paper"
KERNELS, TOKENS = "kernels-nvidia-h200-float16", "end-to-end-nvidia-h200-8b"
X = Tensor(shape=(4, 6), name="x")
# Figure 2: the meta-operations, each on the tensor before it in its row.
META_OPERATIONS = {
    "tile": X.tile((2, 2)),
    "expand": X.tile((4, 2)).expand((2, -1)),
    "squeeze": X.tile((4, 2)).squeeze(0),
    "permute": X.tile((2, 2)).permute((1, 0)),
    "flatten": X.tile((2, 2)).flatten(),
    "ravel": X.tile((2, 2)).ravel(),
}


def convolution(input, filter, output):
    """Arrange a convolution as a matrix product, as the paper does: Figure 5."""
    windows = input.tile((1, *filter.shape[1:]), strides=(-1, -1, 1, 1)).squeeze(1)
    windows.dtype = windows.dtype.squeeze(0)
    rows = windows.ravel().flatten(0, 3).flatten(1, 4)
    return product(rows, filter.flatten(1, 4).permute((1, 0)), output.permute((0, 2, 3, 1)).flatten(0, 3))


def draw_arrangements(folder):
    """Draw Figures 2, 4 and 5; yields the title and the file of each picture."""
    for name, tensor in META_OPERATIONS.items():
        visualize(tensor, save_path=folder / f"figure-2-{name}.png")
        yield f"Figure 2, `{name}`", f"figure-2-{name}.png"
    shapes = {
        "4": (product, {"a": (4, 5), "b": (5, 4), "c": (4, 4)}),
        "5": (convolution, {"input": (1, 2, 4, 4), "filter": (2, 2, 2, 2), "output": (1, 2, 3, 3)}),
    }
    for number, (arrangement, sizes) in shapes.items():
        tensors = tuple(Tensor(shape=shape, name=name) for name, shape in sizes.items())
        visualize_arrangement(arrangement, tensors, save_path=folder / f"figure-{number}.png")
        yield f"Figure {number}", f"figure-{number}.png"


def draw_times(folder, committed):
    """Draw Figures 6 and 7 of what was measured; yields the title, the file and where the times are from."""
    record = json.loads(committed("kernels", KERNELS).read_text())
    kernels = [result for result in record["results"]["kernels"] if result["case"] == "paper"]
    figure.draw(kernels, folder / "figure-6.png", f"{record['device']}, {record['results']['dtype']}")
    yield "Figure 6", "figure-6.png", stamped(record)
    record = json.loads(committed("end-to-end", TOKENS).read_text())
    results = record["results"]
    title = f"{results['options']['model'] or results['options']['size']}, {record['device']}"
    tokens_figure.draw(results["rows"], results["roofline"], folder / "figure-7.png", title)
    yield "Figure 7", "figure-7.png", stamped(record)


def stamped(record):
    torch_version = record["torch"].split("+")[0]
    return f"{record['device']}, PyTorch {torch_version}, Triton {record['triton']}, {record['date'][:10]}"


def measure(folder):
    """Measure what Figures 6 and 7 show into a folder; returns an exit code."""
    from benchmarks import kernels
    from benchmarks.end_to_end import __main__ as tokens

    print("measuring the ten tasks, then tokens per second: about an hour", flush=True)
    first = kernels.main(["--output", str(folder / "kernels")])
    return first or tokens.main(["--output", str(folder / "end-to-end")])


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=FOLDER)
    parser.add_argument("--committed", action="store_true", help="measure nothing, though there is a GPU")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    is_measured = torch.cuda.is_available() and not options.committed
    status = measure(options.folder) if is_measured else 0

    def record(name, stem):
        return options.folder / f"{name}.json" if is_measured else RESULTS / f"{stem}.json"

    print("Table 2: the code that there is to read", flush=True)
    rows = [row for name in tasks.NAMES for row in code.lines(name)]
    parts = [
        "# The paper again\n\nWritten by `python -m benchmarks.paper`.",
        "## Table 2\n\n" + table(("kernel", "whose", "language", *code.HEADINGS, "V / V of Triton"), rows),
    ]
    print("Figures 6 and 7: times and tokens", flush=True)
    for title, file, source in draw_times(options.folder, record):
        parts.append(f"## {title}\n\nMeasured on {source}.\n\n![{title}]({file})")
    print("Figures 2, 4 and 5: arrangements", flush=True)
    parts += (f"## {title}\n\n![{title}]({file})" for title, file in draw_arrangements(options.folder))
    page = options.folder / "README.md"
    page.write_text("\n\n".join(parts) + "\n")
    print(f"written to {page}")
    return status


if __name__ == "__main__":
    sys.exit(main())
