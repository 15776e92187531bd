"""How exact the operators are: the errors of results and gradients, ours and PyTorch's, against float64.

    python -m benchmarks.numerics [--op OP ...] [--dtype TYPE ...] [--draws N] [--device DEVICE] [--output FILE]
    python -m benchmarks.numerics --merge FILE ...

Inputs are normally distributed numbers, rounded to a type. The reference is PyTorch's result for them in float64. An
error is |result - reference| / |reference|, in Euclidean norms, in units of the type's last place (`finfo.eps`).
Rounding an exact result makes 0.2. The root mean square over 20 draws may be at most 1.1 times PyTorch's, or 0.5.

In six operators, the bits of a row may not depend on the other rows.

FILE is written, and docs/numerics.md anew of all such files; `--merge` makes one FILE of several, of parts of the
operators. The exit status is 1 where a bound is broken.
"""

import argparse
import json
import pathlib
import statistics
import sys

import torch
from tqdm import tqdm

from benchmarks import cards
from benchmarks.report import RESULTS, save, slug, table
from ninetoothed import UnsupportedError

CARD = pathlib.Path(__file__).resolve().parents[1] / "docs" / "numerics.md"
TYPES = ("float16", "bfloat16", "float32")
RATIO, ULPS = 1.1, 0.5
# How long sums are, by the kind of a device: a CPU is done in a minute.
LENGTHS = {"cpu": 256, "cuda": 4096}
# Lengths of rows, and how many there are, of which the bits are compared.
ROWS = {"cpu": ((33, 200), 160), "cuda": ((33, 128, 1000, 4096), 8192)}


def results(card, function, tensors, grads=None, is_recorded=True):
    """`{name: result}` of a call, and of its gradients by the names of the inputs; `grads` are those of the results."""
    leaves = {name: each.detach().requires_grad_(is_recorded) for name, each in tensors.items()}
    outputs = card.call(function, *leaves.values())
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    found = dict(zip(card.outputs, outputs, strict=True))
    if is_recorded:
        wanted = [leaves[name] for name in card.differentiable or leaves]
        derived = torch.autograd.grad(outputs, wanted, [grad.to(outputs[0].dtype) for grad in grads])
        found |= dict(zip(card.gradients(leaves), derived, strict=True))
    return {name: each.detach() for name, each in found.items()}


def errors(card, dtype, device, length, seed):
    """Units in the last place by which ours and PyTorch's are off, by what they are of; None without a gradient."""
    generator = torch.Generator().manual_seed(seed)

    def rounded(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).to(device)

    tensors = card.inputs(rounded, length)
    with torch.no_grad():
        outputs = card.call(card.peer, *tensors.values())
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    grads = [rounded(*each.shape) for each in outputs]
    expected = results(card, card.peer, {name: each.double() for name, each in tensors.items()}, grads)
    peer = results(card, card.peer, tensors, grads)
    try:
        ours = results(card, card.ours, tensors, grads)
    except UnsupportedError:
        ours = results(card, card.ours, tensors, is_recorded=False)

    def ulps(actual, name):
        difference = (actual[name].double() - expected[name]).norm() / expected[name].norm()
        return difference.item() / torch.finfo(dtype).eps

    return {name: (ulps(ours, name) if name in ours else None, ulps(peer, name)) for name in expected}


def compare(card, dtype, device, draws):
    """A row for each result and gradient: the root mean squares of the errors, and whether they are within bounds."""
    drawn = [errors(card, getattr(torch, dtype), device, LENGTHS[device], seed) for seed in range(draws)]
    for name in drawn[0]:
        pairs = [each[name] for each in drawn]
        ours = None if pairs[0][0] is None else root_mean_square(pair[0] for pair in pairs)
        peer = root_mean_square(pair[1] for pair in pairs)
        # A NaN is within no bound.
        within = ours is not None and ours <= max(RATIO * peer, ULPS)
        yield {"op": card.name, "of": name, "dtype": dtype, "ours": ours, "PyTorch": peer, "within": within}


def root_mean_square(values):
    return statistics.fmean(value**2 for value in values) ** 0.5


def batches_that_differ(card, dtype, device):
    """(length of rows, batch) pairs for which a row has other bits than among all rows."""
    lengths, count = ROWS[device]
    for length in lengths:
        generator = torch.Generator(device).manual_seed(length)

        def rounded(*shape, generator=generator):
            return torch.randn(shape, generator=generator, device=device).to(getattr(torch, dtype))

        tensors = card.rows(rounded, count, length)
        whole = card.call(card.ours, *tensors.values())
        first, *others = tensors.values()
        for batch in (1, 2, 3, 7, len(first) // 8, len(first) // 2 + 1):
            start = card.call(card.ours, first[:batch], *others)
            end = card.call(card.ours, first[-batch:].clone(), *others)
            if not (torch.equal(start, whole[:batch]) and torch.equal(end, whole[-batch:])):
                yield length, batch


def number(value, is_within=True):
    text = "no gradient yet" if value is None else f"{value:.2f}"
    return text if is_within or value is None else f"**{text}**"


def error_table(rows):
    """Errors of ours beside PyTorch's, a column for each type; what breaks a bound is bold."""
    types = [each for each in TYPES if any(row["dtype"] == each for row in rows)]
    cells = {(row["op"], row["of"], row["dtype"]): row for row in rows}
    lines = []
    for op, of in dict.fromkeys((row["op"], row["of"]) for row in rows):
        pairs = [cells.get((op, of, each)) for each in types]
        numbers = (
            (number(each["ours"], each["within"]), number(each["PyTorch"])) if each else ("-", "-") for each in pairs
        )
        lines.append((op, of, *(text for pair in numbers for text in pair)))
    return table(("operator", "of", *(f"{each}, {who}" for each in types for who in ("ours", "PyTorch"))), lines)


def bits_table(rows):
    """Whether rows have the same bits in batches of any size; else for which lengths and batches they have not."""

    def told(differ):
        return "differ: " + ", ".join(f"{length} in {batch}" for length, batch in differ) if differ else "the same"

    return table(("operator", "type", "bits"), [(row["op"], row["dtype"], told(row["differ"])) for row in rows])


def section(record):
    """A device's part of the card, of the record that was saved."""
    found = record["results"]
    device, lengths = found["device"], ", ".join(map(str, ROWS[found["device"]][0]))
    cuda = f", CUDA {record['cuda']}, Triton {record['triton']}" if device == "cuda" else ""
    versions = f"PyTorch {record['torch']}{cuda}, {record['date'][:10]}"
    return "\n\n".join(
        (
            f"## {record['device'] if device == 'cuda' else 'CPU'}",
            f"{versions}; {found['draws']} draws, sums of {LENGTHS[device]}.",
            error_table(found["errors"]),
            f"Rows of {lengths}, alone and among others:",
            bits_table(found["bits"]),
        )
    )


def broken(found):
    """Name the results that are out of bounds."""
    rows = [(row["op"], row["of"], row["dtype"]) for row in found["errors"] if not row["within"]]
    return [", ".join(row) for row in rows] + [f"{row['op']}, bits" for row in found["bits"] if row["differ"]]


def write_card(records, path=CARD):
    """Write the card of all devices: the text below this module's first line, and a section for each record."""
    told = __doc__.partition("\n\n    python")[2].partition("\n\n")[2].partition("\n\nFILE")[0]
    text = (
        "# Numerics\n\nErrors of results and of gradients. `python -m benchmarks.numerics` wrote this, of\n"
        "[its results](../benchmarks/results).\n\n"
        f"{told}\n\nBold: out of bounds. There is no column of float64, with which the others are compared.\n\n"
    )
    path.write_text(text + "\n\n".join(map(section, records)) + "\n")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numerics", description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", choices=tuple(cards.CARDS), help="only this (may be repeated)")
    parser.add_argument("--dtype", action="append", choices=TYPES, help="only this type (may be repeated)")
    parser.add_argument("--draws", type=int, default=20, help="how often inputs are drawn")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=tuple(LENGTHS))
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="measure nothing; make one file of these")
    parser.add_argument("--output", help="the file written; default: benchmarks/results/numerics-DEVICE.json")
    return parser.parse_args(arguments)


def measured(names, types, device, draws):
    """Compare operators, and the bits of rows of some."""
    found = {"device": device, "draws": draws, "errors": [], "bits": []}
    for name in tqdm(names, disable=None, leave=False):
        card = cards.CARDS[name]
        for dtype in types:
            found["errors"] += compare(card, dtype, device, draws)
            if card.rows:
                differ = list(batches_that_differ(card, dtype, device))
                found["bits"].append({"op": name, "dtype": dtype, "differ": differ})
    return found


def merged(files):
    """Put the results of several files together, in the order of the operators."""
    parts = [json.loads(pathlib.Path(file).read_text())["results"] for file in files]
    order = {name: place for place, name in enumerate(cards.CARDS)}

    def sort(key):
        return sorted((row for part in parts for row in part[key]), key=lambda row: order[row["op"]])

    return {**parts[0], "errors": sort("errors"), "bits": sort("bits")}


def main(arguments=None):
    options = parse(arguments)
    names, types = options.op or cards.CARDS, options.dtype or TYPES
    found = merged(options.merge) if options.merge else measured(names, types, options.device, options.draws)
    print(error_table(found["errors"]), bits_table(found["bits"]), sep="\n\n")
    name = slug(torch.cuda.get_device_name()) if found["device"] == "cuda" else "cpu"
    saved = save(options.output or RESULTS / f"numerics-{name}.json", found)
    if saved.resolve().parent == RESULTS:
        write_card([json.loads(each.read_text()) for each in sorted(RESULTS.glob("numerics-*.json"))])
    print(f"\nwritten to {saved}; out of bounds: {'; '.join(broken(found)) or 'none'}")
    return 1 if broken(found) else 0


if __name__ == "__main__":
    sys.exit(main())
