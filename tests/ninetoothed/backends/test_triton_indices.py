"""Computed numbers as indices and bounds: of any integer type, they count as numbers, and do not wrap."""

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE, needs_triton
from tests.ninetoothed.applications import application_of

TYPES = (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64)
KNOWN = {"shape_options": {"constexpr": True}}
of_all = pytest.mark.parametrize("dtype", TYPES, ids=str)


def kernel_of(body):
    """A kernel of eight indices, one number, a table, and eight results."""
    return ninetoothed.make(
        lambda i, s, x, y: (i.tile((-1,)), s, x.tile((-1, -1)), y.tile((-1,))),
        application_of(body, "i", "s", "x", "y"),
        (Tensor(1, **KNOWN), Tensor(0), Tensor(2, **KNOWN), Tensor(1, **KNOWN)),
    )


def arguments(dtype, device="cpu"):
    i = torch.tensor([0, 1, 50, 99, 100, 7, 127, 3])
    x = torch.arange(100 * 50, dtype=torch.float32).reshape(100, 50)
    return [each.to(device) for each in (i.to(dtype), torch.tensor(99).to(dtype), x, torch.full((8,), -7.0))]


INDICES = ("y = x.source[i, 1]", "y = x.source[s, 2] + x[s, 1] + i * 0", "x.source[i, 3] = 5\ny = x.source[i, 3]")
BOUNDS = (
    "t = 0\nfor j in range(s):\n    t += j\ny = t",
    "t = 0\nfor j in range(s, 105):\n    t += j\ny = t",
    "t = 0\nfor j in range(1, 300, s):\n    t += j\ny = t",
    "t = ntl.zeros((8,), ntl.int32)\nfor j in range(s):\n    t += j\ny = t",
)
EXPECTED = {
    INDICES[0]: lambda i, x: torch.where(i < 100, x[i.clamp(max=99), 1], 0),
    INDICES[1]: lambda i, x: (x[99, 2] + x[99, 1]).expand(8),
    INDICES[2]: lambda i, x: torch.where(i < 100, 5.0, 0),
    **{body: lambda i, x, n=n: torch.full((8,), float(n)) for body, n in zip(BOUNDS, (4851, 609, 598, 4851))},
}


@of_all
@pytest.mark.parametrize("body", EXPECTED)
def test_values(body, dtype):
    i, s, x, y = arguments(dtype, DEVICE)
    expected = EXPECTED[body](i.long().cpu(), x.cpu())
    kernel_of(body)(i, s, x, y)
    assert torch.equal(y.cpu(), expected)


@needs_triton
@of_all
@pytest.mark.parametrize("body", EXPECTED)
def test_compiles(body, dtype):
    kernel = kernel_of(body)
    variant = dispatch.launcher_of(kernel).trace(tuple(arguments(dtype)), {}, machine.H100)
    assert executable.compile_for_gpu(kernel.definition, variant).asm["ptx"]


@pytest.mark.parametrize("dtype", TYPES[:4], ids=str)
def test_products_are_of_32_bits(dtype):
    text = kernel_of(INDICES[0]).source(*arguments(dtype), gpu=machine.H100).text
    assert "x_ptr + 1 + tl.cast(i, tl.int32) * 50" in text


def test_products_of_long_tensors_are_of_64_bits():
    """No stride brings the index into 64 bits."""
    i, s, _, y = arguments(torch.int32)
    text = kernel_of(INDICES[0]).source(i, s, torch.empty(2**15, 2**16, dtype=torch.int8), y, gpu=machine.H100).text
    assert "tl.cast(i, tl.int64) * 65536" in text


@pytest.mark.parametrize("bound, rounds", ((True, 1), (False, 0)))
def test_a_bool_counts_as_in_python(bound, rounds):
    i, _, x, y = arguments(torch.int32, DEVICE)
    body = "t = 0\nfor j in range(s):\n    t += 1\nfor j in range(s, 3):\n    t += 10\ny = t"
    kernel_of(body)(i, torch.tensor(bound, device=DEVICE), x, y)
    assert y.tolist() == [rounds + 10 * (3 - rounds)] * 8
    # A bool of a tensor is loaded, as whether its byte is not 0 where there is a GPU to hold it.
    text = kernel_of(body).source(i, torch.tensor(bound), x, y, gpu=machine.H100).text.replace("s != 0", "s")
    assert "range(tl.cast(s, tl.int32))" in text and "range(tl.cast(s, tl.int32), 3)" in text


# Of one element: Triton's scans, sorts and reshapes give blocks, and pointers of rows of one element are scalars.
ALONE = (
    "y.source[row, ntl.cumsum(x) - 1] = x",
    "y.source[row, ntl.where(x > 0, ntl.cumsum(x) - 1, -1)] = x",
    "y = x.source[row, ntl.sort(x) - 1]",
    "y = 0\nntl.atomic_add(y.source[row, ntl.cumsum(x) - 1], x)",
    "y = x.source[row, ntl.flip(ntl.cumprod(x), 0) - 1]",
    "y = 0\nfor k in range(ntl.max(ntl.cumsum(x))):\n    y += x.source[row, ntl.cumsum(x) - 1 + k]",
)


@needs_triton
@pytest.mark.filterwarnings("ignore::ninetoothed.RaceWarning")
@pytest.mark.parametrize("body", ALONE)
def test_indices_of_one_element(body):
    application = application_of("row = x.offsets(0)\n" + body)
    kernel = ninetoothed.make(lambda x, y: (x.tile(None, -1), y.tile(None, -1)), application, (Tensor(2), Tensor(2)))
    x = torch.ones((3, 1), dtype=torch.int32, device=DEVICE)
    y = torch.full_like(x, 7)
    kernel(x, y)
    assert (y == 1).all()
    variant = dispatch.launcher_of(kernel).trace((x, y), {}, machine.H200)
    assert executable.compile_for_gpu(kernel.definition, variant).asm["ptx"]
