"""A primitive, a pass, a meta-operation and a GPU are the files that ARCHITECTURE names: a copy gets one of each."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ("ninetoothed", "benchmarks/__init__.py", "benchmarks/types")

ROW = '''@row
def trunc(x: TileLike) -> Tile:
    """Round each element towards 0 to a whole number."""


@row
def floor('''
PASS = '''"""Pass: leave out `maximum` of a value and itself."""

from dataclasses import dataclass, replace

from ninetoothed import ir


def leave_out(program: ir.Program) -> ir.Program:
    return replace(program, body=_Merger().block(program.body))


@dataclass(kw_only=True)
class _Merger(ir.Rewriter):
    def operation(self, operation: ir.Operation) -> ir.Block:
        match operation:
            case ir.Apply(function="maximum", operands=(x, y), results=(result,)) if self.value(x) is self.value(y):
                self.values[result] = self.value(x)
                return ()
        return (self.rebuilt(operation),)
'''
LINE = '    Pass("same_operands", _rewrites(same_operands.leave_out)),\n'
SHAPE_RULE = '''def reverse(arrangement: Arrangement, level: int) -> Arrangement:
    """Turn the order of dimensions around."""
    call = MetaOperation(arrangement, level, "reverse", ())
    return call.then((), call.shape[::-1])


def flatten('''
INDEX_RULE = """        case "reverse":  # x[i_0, i_1, ...] = y[..., i_1, i_0]
            here = here[::-1]
        case "flatten":"""
FOLLOWED = """        case "reverse":
            return (here[::-1],)
        case "flatten":
            start, end = step.arguments
            return"""
METHOD = '''    @tells_mistakes
    def reverse(self) -> Tensor:
        """Turn the order of dimensions around."""
        return self._then(metaops.reverse)

    @tells_mistakes
    def flatten('''
# By what is added and its file, what is replaced (nothing: the file is new) and by what.
ADDED = {
    "A primitive": {
        "ninetoothed/language/functions/elementwise.py": ("@row\ndef floor(", ROW),
        "ninetoothed/language/primitives.py": ('_rows("floor ceil"', '_rows("floor ceil trunc"'),
        "ninetoothed/backends/torch/elementwise.py": (
            '    "floor": _plain(torch.floor),',
            '    "floor": _plain(torch.floor),\n    "trunc": _plain(torch.trunc),',
        ),
        "ninetoothed/backends/triton/functions/elementwise.py": (" floor ceil ", " floor ceil trunc "),
        "benchmarks/types/rows.py": ("floor ceil", "floor ceil trunc"),
    },
    "A pass": {
        "ninetoothed/passes/same_operands.py": (None, PASS),
        "ninetoothed/passes/pipeline.py": ("    row_halves,\n", "    row_halves,\n    same_operands,\n"),
    },
    "A meta-operation": {
        "ninetoothed/arrangement/metaops.py": ("def flatten(", SHAPE_RULE),
        "ninetoothed/arrangement/tensor.py": ("    @tells_mistakes\n    def flatten(", METHOD),
    },
    "A GPU": {
        "ninetoothed/runtime/selection/machine.py": (
            '    Machine("B200"',
            '    Machine("H20", 90, 78, 227 * 1024, l2=60 * 2**20, bandwidth=4.0e12),\n    Machine("B200"',
        ),
    },
}
# More replacements in the same files.
MORE = (
    ("ninetoothed/passes/pipeline.py", "PORTABLE = (\n", "PORTABLE = (\n" + LINE),
    ("ninetoothed/arrangement/metaops.py", '        case "flatten":  #', INDEX_RULE + "  #"),
    (
        "ninetoothed/arrangement/metaops.py",
        '        case "flatten":\n            start, end = step.arguments\n            return',
        FOLLOWED,
    ),
    ("ninetoothed/runtime/selection/machine.py", "A100, H100, H200, B200, *_", "A100, H100, H200, H20, B200, *_"),
)
PROGRAM = """
import torch

import ninetoothed
import ninetoothed.language as ntl
from benchmarks.types.rows import rows
from ninetoothed import Tensor
from ninetoothed.runtime.selection import machine


def arrangement(x, y):
    return x.reverse().tile((4, 8)), y.tile((4, 8))


def application(x, y):
    y = ntl.trunc(ntl.maximum(x, x))


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)))
x, y = 3 * torch.randn(13, 11), torch.empty(11, 13)
kernel(x, y)
assert torch.equal(y, x.T.trunc())
found, text = str(kernel.explain(x, y, gpu="h20")), str(kernel.source(x, y, gpu="h20"))
assert "for H20 (sm_90, 78 multiprocessors)" in found and "same_operands" in found
assert "tl.trunc(" in text and "tl.maximum" not in text
assert any("trunc" in row.body for row in rows())
"""


def named(part: str) -> set[str]:
    """The files and folders that ARCHITECTURE names for a part."""
    table = (ROOT / "ARCHITECTURE.md").read_text().partition(f"### {part}\n")[2].partition("\n#")[0]
    cells = (line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    return {path for cell in cells for path in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("part", ADDED)
def test_the_files_are_those_that_are_named(part):
    """Or they lie beside one that is: the file of a family, or the new one beside an example."""
    places = {path if path.endswith("/") else path.rpartition("/")[0] + "/" for path in named(part)}
    assert all(file in named(part) or file.rpartition("/")[0] + "/" in places for file in ADDED[part])
    assert not any(file in named(part) and not (ROOT / file).exists() for files in ADDED.values() for file in files)


def test_one_of_each(tmp_path):
    for name in COPIED:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    changes = [(file, *change) for files in ADDED.values() for file, change in files.items()]
    for file, old, new in (*changes, *MORE):
        path = tmp_path / file
        text = path.read_text() if old is not None else ""
        assert old is None or old in text, (file, old)
        path.write_text(text.replace(old, new, 1) if old is not None else new)
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
