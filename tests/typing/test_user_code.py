"""Users' code under pyright: README, docs, examples and `user_code.py`, in one run.

Examples that import transformers take it 20 seconds; `.ci/run` has them checked, as `pyproject.toml` says.
"""

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if "transformers" not in path.read_text()]
FILES = (ROOT / "tests" / "typing" / "user_code.py", *EXAMPLES)
# That on Triton launches kernels of Triton's, whose own types take no number for a `tl.constexpr`.
PAGES = (ROOT / "README.md", *sorted(set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / "triton.md"}))


def blocks_of(page):
    """The Python blocks of a page as one file, each line where it stands in the page."""
    lines = [""] * page.count("\n")
    for block in BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1))
        lines[first : first + block[1].count("\n")] = block[1].splitlines()
    return "\n".join(lines) + "\n"


def expected(file):
    """(line, rule) of each line that says `# error: RULE`."""
    lines = enumerate(file.read_text().splitlines(), 1)
    return {(number, found[1]) for number, line in lines if (found := re.search(r"# error: (\w+)", line))}


@pytest.mark.slow
def test_pyright_accepts_what_users_write_and_nothing_else(tmp_path):
    pytest.importorskip("pyright")  # of the extra `test`
    pages = []
    for page in PAGES:
        pages.append(tmp_path / f"{page.stem.lower()}_page.py")
        pages[-1].write_text(blocks_of(page.read_text()))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *FILES, *pages]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(FILES) + len(pages)
    found = {
        (pathlib.Path(each["file"]).name, each["range"]["start"]["line"] + 1, each.get("rule")): each["message"]
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    }
    wanted = {(file.name, *place) for file in FILES for place in expected(file)}
    assert len(wanted) > 10
    unwanted = {place: message for place, message in found.items() if place not in wanted}
    assert not unwanted, unwanted
    assert wanted - set(found) == set(), "these lines should be errors"
