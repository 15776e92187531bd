"""ARCHITECTURE, CONTRIBUTING and CHANGELOG, held to the code: paths that they name exist, and so do names in tables."""

import pathlib
import re

import pytest
import triton

from docs import backward_memory, gpus
from tests import conftest

ROOT = pathlib.Path(__file__).resolve().parents[1]
GUIDES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/calls.md")
# Paths from the root, within backquotes: with a slash, or with an ending.
PATH = re.compile(r"[\w.*-]+(/[\w.*-]+)*(/|\.(py|md|toml|txt|yaml|json))")


def quoted(text):
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))


def paths(text):
    """The paths among what is quoted; a bare name of a file is one that the row has told the folder of."""
    found = [each for each in quoted(text) if PATH.fullmatch(each) and ("/" in each or (ROOT / each).exists())]
    return list(dict.fromkeys(found))


def rows(text):
    """(path, names) of each row of a table whose first cell is a path."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        place = next((i for i, cell in enumerate(cells) if PATH.fullmatch(cell.strip("`")) and "`" in cell), None)
        if place is not None:
            yield cells[place].strip("`"), [n for n in quoted(" ".join(cells[place + 1 :])) if n.isidentifier()]


def contents(path):
    place = ROOT / path
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return "\n".join(file.read_text() for file in files)


@pytest.mark.parametrize("guide", GUIDES)
def test_paths_exist(guide):
    text = (ROOT / guide).read_text()
    assert [path for path in paths(text) if not list(ROOT.glob(path))] == []


def test_names_in_tables_are_in_the_files_of_their_rows():
    found = [row for guide in ("ARCHITECTURE.md", "docs/calls.md") for row in rows((ROOT / guide).read_text())]
    assert len(found) > 50
    missing = [(path, name) for path, names in found for name in names if not re.search(rf"\b{name}\b", contents(path))]
    assert missing == []


def test_the_page_on_gpus_is_current():
    """It has every kernel and GPU, and is of today's texts; a few cells are compiled anew, with the same Triton."""
    text = gpus.FILE.read_text()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert table[0][1:] == [f"{each.name} ({each.target})" for each in gpus.GPUS]
    assert [row[0].strip("`") for row in table[2:]] == list(gpus.NAMES)
    if f"with Triton {triton.__version__};" in text:
        cells = dict(zip(gpus.NAMES, table[2:], strict=True))
        anew = [("softmax", each) for each in range(len(gpus.GPUS))] + [("mm", 1), ("sdpa_backward_query", 1)]
        assert [gpus.cell(name, gpus.GPUS[i]) for name, i in anew] == [cells[name][i + 1] for name, i in anew]
        texts = {line.split()[0]: line.split()[1:] for line in text.partition("<!--")[2].splitlines()[1:-1]}
        turns = [(name, i % len(gpus.GPUS)) for i, name in enumerate(gpus.NAMES)]  # One GPU a kernel, in turn.
        stale = [name for name, i in turns if gpus.digest(name, gpus.GPUS[i]) != texts[name][i]]
        assert not stale, "run `python -m docs.gpus`"


def test_the_page_on_what_a_backward_keeps_is_current():
    """Of ours; what PyTorch keeps differs by release."""
    written = [line.split("|")[1:3] for line in backward_memory.FILE.read_text().splitlines() if line[:3] == "| `"]
    found = [line.split("|")[1:3] for line in backward_memory.page().splitlines() if line[:3] == "| `"]
    assert written == found and len(found) > 5, "run `python -m docs.backward_memory`"


def test_quick_files_exist():
    assert len(set(conftest.QUICK)) == len(conftest.QUICK)
    assert [pattern for pattern in conftest.QUICK if not list((ROOT / "tests").glob(pattern))] == []


def test_the_changelog_begins_with_what_is_not_released():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (.+)$", text, re.M)[0] == "[Unreleased]"
    sections = re.findall(r"^### (.+)$", text, re.M)
    assert sections and set(sections) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
