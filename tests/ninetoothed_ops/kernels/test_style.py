"""What the kernels are held to: the language alone, and brevity."""

import ast
import importlib
import pathlib

import pytest

from ninetoothed_ops import kernels
from tests.ninetoothed_ops.kernels import calls

FOLDER = pathlib.Path(kernels.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
# Logical lines at most: those of the paper's Table 2, and what options cost.
LINES = {
    "add": 16,
    "addmm": 22,
    "bmm": 27,
    "conv2d": 40,
    "mm": 29,
    "rms_norm": 25,
    "rope": 43,
    "sdpa": 100,
    "silu": 14,
    "softmax": 18,
}


def nodes(path):
    return list(ast.walk(ast.parse(path.read_text())))


def test_only_the_language_is_imported():
    for path in FILES:
        imports = [node for node in nodes(path) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {
            getattr(node, "module", None) or node.names[0].name for node in imports if not getattr(node, "level", 0)
        }
        assert names <= {"functools", "ninetoothed", "ninetoothed.language"}, path


def test_no_pointers_and_no_guards():
    for path in FILES:
        attributes = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        assert not attributes & {"load", "store", "data_ptr", "arange", "program_id", "num_programs", "stride"}, path


def test_brevity():
    for name, most in LINES.items():
        assert sum(isinstance(node, ast.stmt) for node in nodes(FOLDER / f"{name}.py")) <= most, name


@pytest.mark.parametrize("name", calls.ALL)
def test_a_kernel_is_made_once(name):
    module = importlib.import_module(f"ninetoothed_ops.kernels.{name}")

    assert module.make() is module.make()
    # Kernels of activations are named after the function, too.
    assert module.make().__name__ in (name, f"{name}_gelu") and module.__doc__
