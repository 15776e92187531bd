"""The kernels of examples/kernels: right on the device that is there and in Triton's interpreter, proved, and in form.

Each file has four parts: a docstring with the formula; an arrangement; an application with `kernel = make(...)`; and
the check, which is a function of PyTorch's arguments, `check(device)`, and `timed(device)`.
"""

import ast
import functools
from unittest import mock

import pytest
import torch

import ninetoothed
from benchmarks.gallery.files import FOLDER, IN_TRITON, THEMES, examples, is_made
from ninetoothed.make import Kernel
from ninetoothed.runtime import private
from ninetoothed.runtime.jagged import JaggedParts
from tests.conftest import DEVICE, needs_triton
from tests.examples.kernel_checks import assert_right
from tests.ninetoothed.backends import interpreting

EXAMPLES = {example.name: example for example in examples()}


@pytest.fixture(params=EXAMPLES)
def example(request):
    return EXAMPLES[request.param]


@pytest.fixture
def poisoned():
    """Fill new tensors with NaN, or the greatest integer: what a kernel leaves out shows."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.utils.deterministic.fill_uninitialized_memory and torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@pytest.mark.filterwarnings("ignore:.*deterministic:UserWarning")
def test_right(example, poisoned):
    assert assert_right(example, DEVICE) >= 2


@needs_triton
@pytest.mark.parametrize("theme", sorted({example.theme for example in EXAMPLES.values()}))
def test_right_in_the_interpreter(theme, tmp_path):
    """The text that is emitted for a GPU gives the same numbers, of the first call of each."""
    printed = interpreting.run_module(tmp_path, "tests.examples.interpret_examples", theme)
    own = [each for each in EXAMPLES.values() if each.theme == theme]
    assert printed.split() == [each.name for each in own if not getattr(each.module, "NOT_INTERPRETED", "")]


@needs_triton
def test_those_in_triton_are_right_in_the_interpreter(tmp_path):
    printed = interpreting.run_module(tmp_path, "tests.examples.interpret_examples", IN_TRITON)
    assert printed.split() == [each.name for each in EXAMPLES.values() if each.in_triton]


def test_proved_for_all_sizes(example):
    """Or the file names the access that the data decide on, and no other is left open."""
    torch.manual_seed(0)
    calls = example.first_calls()
    assert calls.keys() == set(example.kernels.values()), "the check calls each kernel of the file"
    found = [ninetoothed.verify(kernel, *args, **kwargs) for kernel, (args, kwargs) in calls.items()]
    assert found and all(each.verdict != "refuted" for each in found), "\n".join(map(str, found))
    left = {each.parameter for one in found for each in one.findings if each.verdict != "proved"}
    named = {name for name in left if f"`{name}`" in example.data_dependent}
    assert left == named, f"DATA_DEPENDENT names `parameter` and says why for each of {sorted(left - named)}:\n{found}"
    assert bool(left) == bool(example.data_dependent), "all is proved: take DATA_DEPENDENT away"


def test_what_is_timed_has_one_shape(example):
    """On tensors without memory: ours is emitted for a GPU, and gives what PyTorch's function gives."""
    arguments, ours, eager = example.module.timed("meta")
    kinds = []
    with mock.patch.object(Kernel, "__call__", emitted), torch.no_grad():
        for function in (ours, eager):
            found = function(*arguments)
            found = found if isinstance(found, tuple | list) else (found,)
            kinds.append([(each.shape, each.dtype) for each in found])
    assert kinds[0] == kinds[1]


def emitted(kernel, *args, **kwargs):
    text = kernel.source(*map(untouched, args), gpu="h200", **kwargs)
    assert "@triton.jit" in text or "@gluon.jit" in text


def untouched(value):
    """Stand in for a tensor on the meta device; of one that nobody touches no page of memory is taken."""
    if private.is_jagged(value):
        parts = JaggedParts.of(value)
        offsets = no_rows(len(parts.offsets))
        return JaggedParts(untouched(parts.values), offsets, None, parts.dim, longest=parts.find_longest())
    is_tensor = isinstance(value, torch.Tensor)
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype) if is_tensor else value


@functools.cache
def no_rows(count):
    """Return so many offsets, the same for all tensors of a call: these share their entries."""
    return torch.zeros(count, dtype=torch.int64)


def test_four_parts(example):
    about, statements = ast.get_docstring(example.tree), example.tree.body[1:]
    title, _, rest = about.partition("\n\n")
    assert title.endswith(".") and "\n" not in title and rest
    code = [each for each in statements if not isinstance(each, ast.Import | ast.ImportFrom)]
    assert all(isinstance(each, ast.FunctionDef | ast.Assign) for each in code)
    functions = [each.name for each in code if isinstance(each, ast.FunctionDef)]
    assert [name for name in functions if name in (example.name, "check", "timed")] == [example.name, "check", "timed"]
    assert [each.targets[0].id for each in code if is_made(each)][-1] == "kernel"
    assert 0 < len(example.kernel_lines) <= 40
    assert all(getattr(each.func, "id", "") != "print" for each in ast.walk(example.tree) if isinstance(each, ast.Call))
    for each in code:  # nothing else runs when it is imported
        calls = [node for node in ast.walk(each) if isinstance(node, ast.Call)] if isinstance(each, ast.Assign) else []
        assert {ast.unparse(call.func) for call in calls} <= BUILDERS


# What may be called when a file is imported.
BUILDERS = {
    "ninetoothed.make",
    "ninetoothed.fuse",
    "Tensor",
    "range",
    "Symbol",
    "block_size",
    "tuple",
    "float",
    "functools.partial",
}


def test_names_are_unique_and_every_file_is_found():
    files = {path for path in FOLDER.rglob("*.py") if path.parent.name != IN_TRITON}
    assert files == {example.path for example in EXAMPLES.values()} and len(EXAMPLES) == len(files)
    assert {path.parent.name for path in files} <= set(THEMES)
    assert {path.stem for path in (FOLDER / IN_TRITON).glob("*.py")} <= set(EXAMPLES)
