"""An operator with its gradient is six files, those that ARCHITECTURE names: one is added to a copy of the project."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = (
    "ninetoothed",
    "ninetoothed_ops",
    "benchmarks/__init__.py",
    "benchmarks/tasks",
    "tests/conftest.py",
    "tests/ninetoothed_ops",
)

KERNEL = """
import functools

import ninetoothed
from ninetoothed import Tensor, arrange


def application({parameters}):
    {formula}


@functools.cache
def make(ndim=1):
    tensors = tuple(Tensor(ndim) for _ in range({count}))

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name="{name}")
"""
OPERATOR = """
import torch

from ..kernels import cube as kernels, cube_backward as gradient_kernels
from ..registration import of_file
from . import readers
from .layout import coalesce, empty_elementwise


def allocate(self):
    return empty_elementwise((self,), self.shape, self.dtype, self.device)


def launch(output, self):
    self, output = coalesce((self, output))
    kernels.make(output.ndim)(self, output)


def backward(ctx, grad):
    return gradient(grad, *ctx.saved_tensors)


def allocate_gradient(grad, self):
    return allocate(self)


def launch_gradient(output, grad, self):
    grad, self, output = coalesce((grad, self, output))
    gradient_kernels.make(output.ndim)(grad, self, output)


def backward_gradient(ctx, grad_of_grad):
    grad, self = ctx.saved_tensors
    return gradient(grad_of_grad, self), 6 * grad_of_grad * grad * self


operator = of_file("cube(Tensor self) -> Tensor", globals())
gradient = of_file("cube_backward(Tensor grad, Tensor self) -> Tensor", globals(), "_gradient")


@readers.by_annotations()
def cube(input: torch.Tensor) -> torch.Tensor:
    if type(input) not in readers.PLAIN:
        return readers.call(operator, "cube", lambda input: input**3, input)
    return operator(input)
"""
TASK = """
from benchmarks.tasks import Task

TASK = Task("cube", "(8,)", lambda input: input**3, {"quick": lambda r: ((r(8),), {})})
"""
PROGRAM = """
import torch

import ninetoothed_ops
from benchmarks import tasks
from ninetoothed_ops.registration import OPERATORS
from tests.ninetoothed_ops import every, samples

assert "cube" in ninetoothed_ops.__all__ and {"ninetoothed::cube", "ninetoothed::cube_backward"} <= OPERATORS.keys()
calls = [call for call in every.roots() if call[0] == "cube"]
assert set(every.kept(calls)) == {"cube", "cube_backward"} < every.names()
x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
assert torch.allclose(ninetoothed_ops.cube(x), x**3) and torch.autograd.gradcheck(ninetoothed_ops.cube, x)
assert torch.autograd.gradgradcheck(ninetoothed_ops.cube, x)
task = tasks.load("cube")
args, kwargs = tasks.arguments(task, "quick", torch.float32, "cpu")
assert "cube" in tasks.MORE and torch.allclose(ninetoothed_ops.cube(*args), task.eager(*args, **kwargs))
for sample in samples.samples("cube").values():
    samples.check_gradient(sample, 0, samples.NAMESAKES["cube"])
"""


def written(tree):
    """Add `cube` to a copy of the project; give what was written or changed."""
    texts = {
        "ninetoothed_ops/kernels/cube.py": KERNEL.format(
            parameters="input, output", formula="output = input * input * input", count=2, name="cube"
        ),
        "ninetoothed_ops/kernels/cube_backward.py": KERNEL.format(
            parameters="grad, input, input_grad",
            formula="input_grad = 3 * grad * input * input",
            count=3,
            name="cube_backward",
        ),
        "ninetoothed_ops/ops/cube.py": OPERATOR,
        "benchmarks/tasks/cube.py": TASK,
    }
    path = "ninetoothed_ops/ops/__init__.py"
    row = "from .cube import cube\n\n__all__ = ["
    texts[path] = (tree / path).read_text().replace("\n__all__ = [", row + '"cube", ', 1)
    path = "tests/ninetoothed_ops/samples.py"
    texts[path] = (
        (tree / path)
        .read_text()
        .replace('    "add": torch.add,\n', '    "add": torch.add,\n    "cube": lambda x: x**3,\n')
    )
    texts[path] = texts[path].replace('    "add": _add,\n', '    "add": _add,\n    "cube": _cube,\n')
    calls = 'def _cube(r) -> Iterator:\n    yield "vector", (r(100),)\n\n\n_CALLS: '
    texts[path] = texts[path].replace("_CALLS: ", calls, 1)
    for path, text in texts.items():
        (tree / path).write_text(text)
    return texts


def test_an_operator_with_its_gradient_is_six_files(tmp_path):
    for name in COPIED:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    files = written(tmp_path)
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("### An operator\n")[2].partition("\n\nWhat is")[0]
    named = {path.replace("softmax", "cube") for path in re.findall(r"^\| `([^`]+)`", table, re.M)}
    assert named == files.keys() and len(files) <= 6

    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
