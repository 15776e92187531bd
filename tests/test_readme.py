"""The README, executed: its Python runs in reading order, its commands are what CI runs, its links and extras exist."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_python_blocks_run_in_reading_order(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", README, re.S | re.M)
    assert len(blocks) == 4
    # A file, since the compiler reads functions from their source.
    path = tmp_path / "readme.py"
    path.write_text("\n\n".join(blocks))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "tl.dot" in done.stdout and "NTLinear" in done.stdout


@pytest.mark.parametrize("name, ending", {"demo": "examples/generate.py", "test": "-m pytest -n auto"}.items())
def test_commands_are_those_that_ci_extracts(name, ending):
    found = re.findall(rf"^<!-- command: {name} -->\n```sh\n(.*?)^```", README, re.S | re.M)
    assert len(found) == 1
    steps = [step.strip() for step in found[0].split("&&\n")]
    assert len(steps) == 3 and "-m venv --clear" in steps[0] and "-c constraints.txt" in steps[1]
    assert steps[2].endswith(ending)
    ci = (ROOT / ".ci" / "run").read_text()
    assert f"run_readme_command {name}\n" in ci
    # The function that CI extracts with, on the README as it is.
    function = re.search(r"^readme_command\(\) \{.*?^\}", ci, re.S | re.M).group()
    program = f"{function}\nreadme_command {name}"
    extracted = subprocess.run(["bash", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert extracted == found[0]


def test_links_lead_somewhere():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert targets and [target for target in targets if not (ROOT / target).exists()] == []


def test_extras_exist():
    declared = (ROOT / "pyproject.toml").read_text()
    extras = set(re.findall(r'-e "\.\[(\w+)\]"', README))
    assert extras and all(re.search(rf"^{extra} = \[", declared, re.M) for extra in extras)


def test_benchmarks_named_exist():
    modules = set(re.findall(r"python -m (benchmarks\.\w+)", README))
    assert len(modules) == 5
    paths = [ROOT / module.replace(".", "/") for module in modules]
    assert all(path.with_suffix(".py").exists() or (path / "__main__.py").exists() for path in paths)
