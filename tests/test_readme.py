"""README, guides and docs, executed: Python runs in reading order, commands are those of CI, links and extras exist."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests import forked

ROOT = pathlib.Path(__file__).resolve().parents[1]
GUIDES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = (*(ROOT / guide for guide in GUIDES), *sorted((ROOT / "docs").glob("*.md")))
README = PAGES[0].read_text()
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```", re.S | re.M)


def program_of(page):
    """The Python blocks of a page as one file, each line where it stands in the page, so that errors name it."""
    lines = [""] * page.count("\n")
    for block in BLOCK.finditer(page):
        if block[1] == "python":
            first = page.count("\n", 0, block.start(2))
            lines[first : first + block[2].count("\n")] = block[2].splitlines()
    return "\n".join(lines) + "\n"


def outputs_of(page):
    """What a page says is printed, in its order: text blocks, and what follows `# ->` in Python."""
    for block in BLOCK.finditer(page):
        if block[1] == "text":
            yield block[2]
        else:
            yield from re.findall(r"# -> (.*\n)", block[2])


@pytest.mark.parametrize(
    "path", [path for path in PAGES if "```python" in path.read_text()], ids=lambda path: path.name
)
def test_python_blocks_run_in_reading_order(path, tmp_path):
    page = path.read_text()
    if "import triton" in page:
        pytest.importorskip("triton", reason="needs Triton")
    # A file, since the compiler reads functions from their source.
    program = tmp_path / f"{path.stem}_page.py"
    program.write_text(program_of(page))
    # README as a newcomer runs it; and Triton reads how it is to run when it is imported.
    if path.name == "README.md" or "TRITON_INTERPRET" in page:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=600)
        status = str(done.returncode)
    else:
        done = forked.run_script(program)
        status = done.status
    assert status == "0", done.stderr[-4000:]
    rest = done.stdout
    for output in outputs_of(page):
        assert output in rest, f"{path.name} says that this is printed: {output}"
        rest = rest.partition(output)[2]
    if path.name == "README.md":
        assert "tl.dot" in done.stdout and "NTLinear" in done.stdout


@pytest.mark.parametrize("name", ("reference", "stub"))
def test_what_is_written_from_the_rows_is_up_to_date(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.FILE.read_text() == writer.text(), f"run `python docs/{name}.py`"


@pytest.mark.parametrize("name, ending", {"demo": "examples/generate.py", "test": "-m pytest -n auto"}.items())
def test_commands_are_those_that_ci_extracts(name, ending):
    found = re.findall(rf"^<!-- command: {name} -->\n```sh\n(.*?)^```", README, re.S | re.M)
    assert len(found) == 1
    steps = [step.strip() for step in found[0].split("&&\n")]
    # Both in one environment: PyTorch comes with gigabytes of CUDA's libraries.
    assert len(steps) == 4 and steps[1] == "python3 -m venv .venv/newest" and "-c constraints.txt" in steps[2]
    assert steps[3].endswith(ending)
    # Said before anything starts, and shown while it installs.
    assert (
        re.fullmatch(r'echo "Installing: .* minutes.*\. .*: .* minutes?.*\."', steps[0]) and "--quiet" not in steps[2]
    )
    ci = (ROOT / ".ci" / "run").read_text()
    assert f"run_readme_command {name}\n" in ci
    # The function that CI extracts with, on the README as it is.
    function = re.search(r"^readme_command\(\) \{.*?^\}", ci, re.S | re.M).group()
    program = f"{function}\nreadme_command {name}"
    extracted = subprocess.run(["bash", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert extracted == found[0]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(), flags=re.S | re.M)
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_within_a_page_lead_to_a_heading(path):
    page = path.read_text()
    anchors = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", page, re.M)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= anchors


def test_extras_exist():
    declared = (ROOT / "pyproject.toml").read_text()
    extras = set(re.findall(r'-e "\.\[(\w+)\]"', README))
    assert extras and all(re.search(rf"^{extra} = \[", declared, re.M) for extra in extras)


def test_benchmarks_named_exist():
    pages = README + (ROOT / "docs" / "performance.md").read_text()
    modules = set(re.findall(r"python -m (benchmarks\.\w+)", pages))
    assert len(modules) == 14
    paths = [ROOT / module.replace(".", "/") for module in modules]
    assert all(path.with_suffix(".py").exists() or (path / "__main__.py").exists() for path in paths)
