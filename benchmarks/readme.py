"""README's table of the ten tasks, made of benchmarks/results.

    python -m benchmarks.readme [JSON]

It replaces what README has between its marks by the results of `python -m benchmarks.kernels`, by default those in
benchmarks/results/kernels-nvidia-h200-float16.json.
"""

import json
import pathlib
import sys
import textwrap

from benchmarks import tasks
from benchmarks.peers import NAMES
from benchmarks.report import RESULTS, table

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
START, STOP = "<!-- measured -->\n", "<!-- /measured -->"
OURS = "ninetoothed"
LABELS = {"triton": "Triton twin", "inductor": "Inductor", "liger": "Liger"}


def block(path):
    """The text between README's marks for one file of results."""
    record = json.loads(path.read_text())
    kernels = [result for result in record["results"]["kernels"] if result["case"] == "paper"]
    names = [name for name in NAMES if any(name in result["milliseconds"] for result in kernels)]
    notes = [task.note for task in map(tasks.load, tasks.NAMES) if task.note]
    headings = ("task", *(LABELS.get(name, name) for name in names), "ours / best other")
    rows = [row(result, names, notes) for result in kernels]
    picture = f"![The ten tasks, speed relative to the hand-written Triton twins](benchmarks/results/{path.stem}.png)"
    footnotes = [f"{mark(note, notes)} {note[0].upper()}{note[1:]}.\n" for note in notes]
    return "\n".join((introduction(record), table(headings, rows), "", *footnotes, picture, ""))


def introduction(record):
    text = f"""On one {record["device"]}, {record["results"]["dtype"]}, PyTorch {record["torch"].split("+")[0]},
        Triton {record["triton"]}: the paper's ten tasks, milliseconds of device time, medians in one run in which all
        take turns, in bursts of 25 ms after a rest; below 1 in the last column, ours is the fastest. The twins chose
        their configurations by measuring, before. What only moves memory differs by some 3 % from run to run."""
    return textwrap.fill(" ".join(text.split()), 127) + "\n"


def row(result, names, notes):
    task, times = tasks.load(result["op"]), result["milliseconds"]
    name = f"{task.name} {task.title} {mark(task.note, notes)}".rstrip()
    best = min(time for name, time in times.items() if name != OURS)
    cells = (f"{times[name]:.4f}" if name in times else "-" for name in names)
    return (name, *cells, f"{times[OURS] / best:.2f}")


def mark(note, notes):
    return "\\*" * (notes.index(note) + 1) if note else ""


def filled(readme, path):
    """README's text with the block anew."""
    before, rest = readme.split(START)
    _, after = rest.split(STOP)
    return before + START + block(path) + STOP + after


def main(arguments):
    path = pathlib.Path(arguments[0]) if arguments else RESULTS / "kernels-nvidia-h200-float16.json"
    README.write_text(filled(README.read_text(), path))
    print(f"written to {README}")


if __name__ == "__main__":
    main(sys.argv[1:])
