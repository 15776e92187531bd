"""A backend, a primitive, a pass, a meta-operation and a GPU are what ARCHITECTURE names: a copy gets one of each."""

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
BACKEND = '''"""Run programs in NumPy, one after the other, and say so."""

import numpy as np

from ninetoothed.expr.sizes import evaluate


def prepare(program):
    def run(arguments, integers):
        print("by numbers:", program.name)
        for place in np.ndindex(*(evaluate(size, integers) for size in program.grid)):
            _run(program, arguments, {**integers, **dict(zip(program.axes, place))})

    return run


def _run(program, arguments, names):
    values = {}
    for operation in program.body:
        read = [values[each] for each in getattr(operation, "operands", ())]
        match type(operation).__name__, getattr(operation, "function", None):
            case "Load", _:
                values[operation.result] = np.full(operation.access.type.lanes, operation.access.other, np.float32)
                for lane, place in _places(operation.access, names):
                    values[operation.result][lane] = arguments[operation.access.parameter].numpy()[place]
            case "Store", _:
                for lane, place in _places(operation.access, names):
                    arguments[operation.access.parameter].numpy()[place] = values[operation.value][lane]
            case "Apply", "add":
                values[operation.result] = read[0] + read[1]
            case "Apply", "sum":
                values[operation.result] = read[0].sum(operation.attribute("axis"))
            case "Apply", "full":
                values[operation.result] = np.full(operation.result.type.lanes, read[0])
            case _:
                raise NotImplementedError(operation)


def _places(access, names):
    """Yield the lanes in bounds, and where in the source they are."""
    for lane in np.ndindex(*access.type.lanes):
        own = {**names, **{each.name: lane[each.axis] for each in access.lanes}}
        if all(0 <= evaluate(each.index, own) < evaluate(each.size, own) for each in access.guards):
            yield lane, tuple(evaluate(index, own) for index in access.indices)
'''
# By what is added and its file, what is replaced (nothing: the file is new) and by what.
ADDED = {
    "A backend": {
        "ninetoothed/backends/numbers/__init__.py": (None, BACKEND),
        "ninetoothed/runtime/hosts.py": (
            "HOSTS = (",
            'HOSTS = (Host("numbers", numbers.prepare, frozenset(("cpu",))), ',
        ),
    },
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
    ("ninetoothed/runtime/hosts.py", "import torch\n", "import numbers, torch\n"),
    ("ninetoothed/passes/pipeline.py", "PORTABLE = (\n", "PORTABLE = (\n" + LINE),
    ("ninetoothed/arrangement/metaops.py", '        case "flatten":  #', INDEX_RULE + "  #"),
    (
        "ninetoothed/arrangement/metaops.py",
        '        case "flatten":\n            start, end = step.arguments\n            return',
        FOLLOWED,
    ),
    ("ninetoothed/arrangement/metaops.py", '"flatten" | "ravel":', '"flatten" | "reverse" | "ravel":'),
    ("ninetoothed/runtime/selection/machine.py", "A100, H100, H200, B200, *_", "A100, H100, H200, H20, B200, *_"),
)
PROGRAM = """
import torch

import ninetoothed
import ninetoothed.language as ntl
from benchmarks.types.rows import rows
from ninetoothed import Tensor
from ninetoothed.arrangement.metaops import partitions
from ninetoothed.runtime import hosts


def tiles(*tensors):
    return tuple(tensor.tile((4,)) for tensor in tensors)


def add(x, y, z):
    z = x + y


def rows_and_sums(x, y):
    return x.tile((1, -1)), y.tile((1,))


def total(x, y):
    y = ntl.sum(x)


x, y, z = torch.randn(2, 10), torch.randn(10), torch.full((10,), float("nan"))
ninetoothed.make(tiles, add, (Tensor(1),) * 3)(x[0], y, z)
assert torch.equal(z, x[0] + y)
ninetoothed.make(rows_and_sums, total, (Tensor(2), Tensor(1)))(x, z[:2])
torch.testing.assert_close(z[:2], x.sum(1))
hosts.HOSTS = hosts.HOSTS[1:]


def arrangement(x, y):
    return x.reverse().tile((4, 8)), y.tile((4, 8))


def application(x, y):
    y = ntl.trunc(ntl.maximum(x, x))


assert partitions(Tensor(2).reverse().arrangement.steps[-1])
kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)))
x, y = 3 * torch.randn(13, 11), torch.empty(11, 13)
kernel(x, y)
assert torch.equal(y, x.T.trunc())
found, text = str(kernel.explain(x, y, gpu="h20", passes=True)), str(kernel.source(x, y, gpu="h20"))
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
    """Or they lie beside one that is: the file of a family, or the new file or folder beside an example."""
    places = {path if path.endswith("/") else path.rpartition("/")[0] + "/" for path in named(part)}
    folders = {path[:-1].rpartition("/")[0] for path in named(part) if path.endswith("/")}
    for file in ADDED[part]:
        folder = file.rpartition("/")[0]
        assert file in named(part) or folder + "/" in places or folder.rpartition("/")[0] in folders, file
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
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace(old, new, 1) if old is not None else new)
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    # The backend that is added has no rule for lanes that are filled with NaN.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NINETOOTHED_POISON": "0"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n") == ["by numbers: add", "by numbers: total", ""]
