"""Emitted text in Triton's interpreter, in processes of their own: applications, and `interpret_*.py` of each room."""

import pathlib

import pytest

from tests.conftest import needs_triton
from tests.ninetoothed.backends import interpreting

pytestmark = needs_triton
SCRIPTS = sorted(pathlib.Path(__file__).parents[1].glob("*/interpret_*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_scripts(script, tmp_path):
    interpreting.run_module(tmp_path, f"tests.ninetoothed.{script.parent.name}.{script.stem}")


def test_applications(tmp_path):
    """Do everything that applications may do once more."""
    names = ("applications", "blocks", "division", "indexing", "random_programs", "agreement", "jagged")
    files = [f"tests/ninetoothed/frontend/test_{name}.py" for name in names]
    plugin = ("-p", "tests.ninetoothed.backends.interpreted")
    files += ["tests/ninetoothed/arrangement/test_arrange.py", "tests/ninetoothed/language/test_statistics.py"]
    files.append("tests/ninetoothed/passes/test_overhang.py")
    # Programs of a thousand statements take the interpreter as long as all others together, and show it nothing new;
    # of the random ones eight do.
    # Ten thousand programs of one line, and jagged tensors of the fewest entries, show it nothing either.
    chosen = "not compiles and not long_programs and not python_does[1 and not python_does[2 and not many_entries"
    chosen += " and not lengths1 and not lengths2 and not lengths4 and not gaps-four and not plain-whole"
    interpreting.run_module(tmp_path, "pytest", "-q", "-x", *plugin, *files, "-k", chosen)
