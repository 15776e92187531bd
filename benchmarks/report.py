"""Tables as Markdown, results as stamped JSON."""

import datetime
import json
import pathlib
import platform

import torch

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


def table(headings, rows):
    """An aligned Markdown table; numbers are set to the right."""
    cells = [[str(value) for value in row] for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [all(is_number(value) for value in column[1:]) for column in zip(*cells, strict=True)]

    def line(row):
        aligned = (
            value.rjust(width) if number else value.ljust(width)
            for value, width, number in zip(row, widths, right, strict=True)
        )
        return f"| {' | '.join(aligned)} |"

    rule = (("-" * (width - 1) + ":") if number else "-" * width for width, number in zip(widths, right, strict=True))
    return "\n".join((line(cells[0]), f"| {' | '.join(rule)} |", *map(line, cells[1:])))


def is_number(text):
    return not text or text[0].isdigit() or text in ("-", "nan")


def stamp():
    """Tell where and with what a result was measured."""
    from importlib import metadata

    def version(name):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": version("triton"),
        "cuda": torch.version.cuda,
    }


def save(path, results):
    """Write results as JSON under their stamp; returns the path."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**stamp(), "results": results}, indent=2, ensure_ascii=False) + "\n")
    return path


def slug(name):
    """A device's name as part of a file's."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in name.lower()).split())
