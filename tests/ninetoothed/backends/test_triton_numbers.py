"""Numbers in the text: each has the value that its type holds, and gives no other type to what it meets."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.ninetoothed.backends import interpreting


def wrapped(x, y):
    y = ntl.full((8,), 300, ntl.int32).to(ntl.int8) + x.to(ntl.int32)


def unsigned(x, y):
    y = ntl.full((8,), -1, ntl.int32).to(ntl.uint8) + x.to(ntl.int32)


def negated(x, y):
    y = -ntl.full((8,), 1, ntl.uint8) + x.to(ntl.int32)


def halved(x, y):
    y = ntl.full((8,), 0.1, ntl.float32).to(ntl.float16).to(ntl.float32) + x


def shortened(x, y):
    y = ntl.full((8,), 0.1, ntl.float32).to(ntl.bfloat16).to(ntl.float32) + x


def too_large(x, y):
    y = ntl.full((8,), -1e6, ntl.float32).to(ntl.float16).to(ntl.float32) + x


def compared(x, y):
    flag = ntl.sum(x) > 0
    y = x + ((not flag) != flag)


def raised(x, y):
    base, exponent = ntl.full((8,), 3, ntl.int32), x.to(ntl.int32)
    y = base ** (exponent + 100) % 1000 + base ** (exponent - 1) + (base - 4) ** (exponent - 3) + (base**65) % 10


VALUES = (
    (wrapped, 44),
    (unsigned, 255),
    (negated, 255),
    (halved, torch.tensor(0.1).half().item()),
    (shortened, torch.tensor(0.1).bfloat16().item()),
    (too_large, -torch.inf),
    (compared, 1),
    (raised, 505 + 0 - 1 + 5),
)


def make(application):
    return ninetoothed.make(lambda x, y: (x.tile((8,)), y.tile((8,))), application, (Tensor(1), Tensor(1)))


@pytest.mark.parametrize("application, expected", VALUES, ids=lambda value: getattr(value, "__name__", None))
def test_values(application, expected):
    x = torch.zeros(8, device="cuda" if torch.cuda.is_available() else "cpu")
    y = torch.full_like(x, float("nan"))
    make(application)(x, y)
    assert (y == expected).all()


def area(x, y, z):
    y = x.source.shape[0] * z.source.shape[0] + 0 * x


def half_of_an_area(x, y, z):
    y = x.source.shape[0] * (z.source.shape[0] - 1) // 2 + 0 * x


def clipped(x, y, z):
    y = min(x.source.shape[0] * z.source.shape[0], 5_000_000_000) + 0 * x


def rounds(x, y, z):
    last = 0
    for i in range(z.source.shape[0] - 2, z.source.shape[0]):
        last = i * x.source.shape[0]
    y = last + 0 * x


def programs(x, y, z):
    y = (ntl.program_id(0) + 1) * 1_500_000_000 + 0 * x


SIDE = 70_000
LONG_NUMBERS = (
    (area, SIDE * SIDE),
    (half_of_an_area, SIDE * (SIDE - 1) // 2),
    (clipped, SIDE * SIDE),
    (rounds, (SIDE - 1) * SIDE),
    (programs, 3_000_000_000),
)


def long_numbers(application, call):
    """Call it for sizes of which products take 32 bits, then 33, then 32: the last element of each output."""

    def arrangement(x, y, z):
        x = x.tile((65536,))
        return x, y.tile((65536,)), z.tile((-1,)).expand((x.shape[0],))

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))
    for side in (3, SIDE, 3):
        x = torch.zeros(side, dtype=torch.int64, device="cuda" if torch.cuda.is_available() else "cpu")
        call(kernel, (x, y := torch.zeros_like(x, dtype=torch.float64), x[:1].expand(side)))
        yield y[-1].item()


@pytest.mark.parametrize("application, expected", LONG_NUMBERS, ids=lambda value: getattr(value, "__name__", None))
def test_long_numbers(application, expected):
    short, long, again = long_numbers(application, lambda kernel, arguments: kernel(*arguments))
    assert long == expected and short == again < 2**31


def test_interpreted(tmp_path):
    pytest.importorskip("triton")
    interpreting.run("interpret_numbers", tmp_path)


def quotient(x, y):
    y = x.to(ntl.float32) // 2


def remainder(x, y):
    y = x.to(ntl.float32) % 2


def largest(x, y):
    y = ntl.argmax(x, axis=None)


def counted(x, y):
    y = ntl.histogram(x, 8)


def rooted(x, y):
    y = ntl.sqrt_rn(x.to(ntl.float64))


def divided(x, y):
    y = ntl.div_rn(x.to(ntl.float64), 3.0)


def whole(x, y):
    y = x**x


def in_a_branch(x, y):
    result = x
    if ntl.sum(x) > 0:
        result = x // -3
    y = result * 100


def multiplied(x, y):
    y = (x // -3) * 100


def shortest(x, y):
    y = x.to(ntl.float8e5).to(ntl.int32)


COMPILED = (quotient, remainder, largest, counted, rooted, divided, whole, shortest)


def compiled(application, dtype):
    kernel = make(application)
    arguments = torch.zeros(8, dtype=dtype), torch.zeros(8)
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)
    return executable.GpuExecutable.compile(kernel.definition, variant)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("dtype", (torch.uint8, torch.int8, torch.int32, torch.uint32), ids=str)
@pytest.mark.parametrize(
    "application",
    (quotient, remainder, largest, counted, rooted, divided, whole, shortest),
    ids=lambda each: each.__name__,
)
def test_compiles(application, dtype, cache):
    assert compiled(application, dtype).asm["ptx"]


def test_a_branch_is_of_one_type(cache):
    assert compiled(in_a_branch, torch.int8).asm["ptx"]


@pytest.mark.parametrize("dtype, bits", ((torch.int8, 8), (torch.int16, 16)))
def test_narrow_types_stay_narrow(dtype, bits, cache):
    lines = compiled(multiplied, dtype).asm["ttir"].splitlines()
    assert any("arith.muli" in line and f"xi{bits}>" in line for line in lines)
    assert not any(f"arith.{name}" in line and "tensor<8xi32>" in line for line in lines for name in ("muli", "divsi"))
