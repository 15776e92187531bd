"""Everything that applications may do, once more: as emitted text in Triton's interpreter, in a process of its own."""

import importlib.util

import pytest

from tests.ninetoothed.backends import interpreting

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")


def test_applications_in_the_interpreter(tmp_path):
    names = ("applications", "blocks", "division", "indexing", "random_programs")
    files = [f"tests/ninetoothed/frontend/test_{name}.py" for name in names]
    plugin = ("-p", "tests.ninetoothed.backends.interpreted")
    files.append("tests/ninetoothed/passes/test_overhang.py")
    # Programs of a thousand statements take the interpreter as long as all others together, and show it nothing new.
    interpreting.run_module(tmp_path, "pytest", "-q", "-x", *plugin, *files, "-k", "not compiles and not long_programs")
