"""Numbers in the text: each has the value that its type holds, and gives no other type to what it meets."""

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE, needs_triton
from tests.ninetoothed.applications import application_of

VALUES = (
    ("y = ntl.full((8,), 300, ntl.int32).to(ntl.int8) + x.to(ntl.int32)", 44),
    ("y = ntl.full((8,), -1, ntl.int32).to(ntl.uint8) + x.to(ntl.int32)", 255),
    ("y = -ntl.full((8,), 1, ntl.uint8) + x.to(ntl.int32)", 255),
    ("y = ntl.full((8,), 0.1, ntl.float32).to(ntl.float16).to(ntl.float32) + x", torch.tensor(0.1).half().item()),
    ("y = ntl.full((8,), 0.1, ntl.float32).to(ntl.bfloat16).to(ntl.float32) + x", torch.tensor(0.1).bfloat16().item()),
    ("y = ntl.full((8,), -1e6, ntl.float32).to(ntl.float16).to(ntl.float32) + x", -torch.inf),
    ("y = (x + 8388609) // 1.0", 8388609),  # to which half of one cannot be added
    ("flag = ntl.sum(x) > 0\ny = x + ((not flag) != flag)", 1),
    (
        "base, exponent = ntl.full((8,), 3, ntl.int32), x.to(ntl.int32)\n"
        "y = base ** (exponent + 100) % 1000 + base ** (exponent - 1) + (base - 4) ** (exponent - 3) + (base**65) % 10",
        505 + 0 - 1 + 5,
    ),
)


def make(body):
    return ninetoothed.make(lambda x, y: (x.tile((8,)), y.tile((8,))), application_of(body), (Tensor(1), Tensor(1)))


@pytest.mark.parametrize("body, expected", VALUES)
def test_values(body, expected):
    x = torch.zeros(8, device=DEVICE)
    y = torch.full_like(x, float("nan"))
    make(body)(x, y)
    assert (y == expected).all()


SIDE = 70_000
LONG_NUMBERS = (
    ("y = x.source.shape[0] * z.source.shape[0] + 0 * x", SIDE * SIDE),
    ("y = x.source.shape[0] * (z.source.shape[0] - 1) // 2 + 0 * x", SIDE * (SIDE - 1) // 2),
    ("y = min(x.source.shape[0] * z.source.shape[0], 5_000_000_000) + 0 * x", SIDE * SIDE),
    (
        "last = 0\nfor i in range(z.source.shape[0] - 2, z.source.shape[0]):\n    last = i * x.source.shape[0]\n"
        "y = last + 0 * x",
        (SIDE - 1) * SIDE,
    ),
    ("y = (ntl.program_id(0) + 1) * 1_500_000_000 + 0 * x", 3_000_000_000),
)


def long_numbers(body, call):
    """Call it for sizes of which products take 32 bits, then 33, then 32: the last element of each output."""

    def arrangement(x, y, z):
        x = x.tile((65536,))
        return x, y.tile((65536,)), z.tile((-1,)).expand((x.shape[0],))

    kernel = ninetoothed.make(arrangement, application_of(body, "x", "y", "z"), (Tensor(1), Tensor(1), Tensor(1)))
    for side in (3, SIDE, 3):
        x = torch.zeros(side, dtype=torch.int64, device=DEVICE)
        call(kernel, (x, y := torch.zeros_like(x, dtype=torch.float64), x[:1].expand(side)))
        yield y[-1].item()


@pytest.mark.parametrize("body, expected", LONG_NUMBERS)
def test_long_numbers(body, expected):
    short, long, again = long_numbers(body, lambda kernel, arguments: kernel(*arguments))
    assert long == expected and short == again < 2**31


COMPILED = (
    "y = x.to(ntl.float32) // 2",
    "y = x.to(ntl.float32) % 2",
    "y = ntl.argmax(x, axis=None)",
    "y = ntl.histogram(x, 8)",
    "y = ntl.sqrt_rn(x.to(ntl.float64))",
    "y = ntl.div_rn(x.to(ntl.float64), 3.0)",
    "y = x**x",
    "y = x.to(ntl.float8e5).to(ntl.int32)",
)


def compiled(body, dtype):
    kernel = make(body)
    arguments = torch.zeros(8, dtype=dtype), torch.zeros(8)
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)
    return executable.compile_for_gpu(kernel.definition, variant)


@needs_triton
@pytest.mark.parametrize("dtype", (torch.uint8, torch.int8, torch.int32, torch.uint32), ids=str)
@pytest.mark.parametrize("body", COMPILED)
def test_compiles(body, dtype):
    assert compiled(body, dtype).asm["ptx"]


EVERYWHERE = (
    "y = (x == 0.1) + (x < 1e-8) + (0.1 * x + 2049)",
    "value, place = ntl.max(x, None, return_indices=True)\ny = value + place",
    "y = ntl.reduce(ntl.max(x), None, lambda a, b: a + b) + ntl.argmax(ntl.max(x), None) + ntl.sort(ntl.max(x))",
    "y = ntl.gather(x, ntl.arange(0, 8) - 3, 0) + ntl.sum(ntl.topk(ntl.max(x), 1)) + ntl.sum(ntl.interleave(x[0], 1))",
    "for k in ntl.static_range(1):\n    y = x[k - 1] + (x + 1)[k - 1] + x.source[k - 1]\n    y[k - 1] = 2.0",
)


@needs_triton
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint32), ids=str)
def test_awkward_operands_compile(dtype):
    for body in EVERYWHERE:
        assert compiled(body, dtype).asm["ptx"]


@needs_triton
@pytest.mark.parametrize("accumulator", (torch.int32, torch.float32), ids=str)
@pytest.mark.parametrize("depth", (16, 32, 70))
def test_products_of_bytes_compile(depth, accumulator):
    """In tensor cores, and where the depth is too short for them."""
    shapes = (16, depth), (depth, 32), (16, 32)
    arguments = [torch.zeros(shape, dtype=torch.int8) for shape in shapes[:2]]
    arguments.append(torch.zeros(shapes[2], dtype=accumulator))
    for body in ("c = ntl.dot(a, b)", "c = ntl.dot(a, b, c)", "c = c + ntl.dot(a, b)"):
        kernel = ninetoothed.make(
            lambda *tensors: tuple(each.tile((-1, -1)) for each in tensors),
            application_of(body, "a", "b", "c"),
            tuple(Tensor(shape=shape) for shape in shapes),
        )
        variant = dispatch.launcher_of(kernel).trace(tuple(arguments), {}, machine.H200)
        assert executable.compile_for_gpu(kernel.definition, variant).asm["ptx"]


@needs_triton
def test_a_branch_is_of_one_type():
    assert compiled("result = x\nif ntl.sum(x) > 0:\n    result = x // -3\ny = result * 100", torch.int8).asm["ptx"]


@needs_triton
@pytest.mark.parametrize("dtype, bits", ((torch.int8, 8), (torch.int16, 16)))
def test_narrow_types_stay_narrow(dtype, bits):
    lines = compiled("y = (x // -3) * 100", dtype).asm["ttir"].splitlines()
    assert any("arith.muli" in line and f"xi{bits}>" in line for line in lines)
    assert not any(f"arith.{name}" in line and "tensor<8xi32>" in line for line in lines for name in ("muli", "divsi"))
