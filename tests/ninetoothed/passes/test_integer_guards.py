"""Operations on integers that LLVM leaves undefined: divisors of 0, taken or not, and shifts by more than all bits."""

import re

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE, needs_triton
from tests.ninetoothed.applications import application_of

GUARD = "tl.where(b == 0, 1, b)"


def made(body):
    application = application_of(body, "a", "b", "y")
    return ninetoothed.make(lambda *tensors: tuple(each.tile((8,)) for each in tensors), application, (Tensor(1),) * 3)


def text(body, dtype):
    x = torch.ones(20, dtype=dtype)
    return made(body).source(x, x, torch.ones(20, dtype=torch.float64), gpu=machine.H100).text


@pytest.mark.parametrize("dtype", (torch.int8, torch.int32, torch.int64, torch.uint8))
@pytest.mark.parametrize("body", ("y = a // b", "y = a % b", "y = a // b + a % b", "y = 7 // b", "y = ntl.cdiv(a, b)"))
def test_each_divisor_is_guarded_once(body, dtype):
    assert text(body, dtype).count(GUARD) == 1


@pytest.mark.parametrize(
    "body",
    (
        "y = a // 3",
        "y = a.offsets(0) // a.shape[0] + a",
        "y = a // ntl.where(b == 0, 1, b)",
        "y = a // ntl.where(b != 0, b, 2)",
        "y = a // (ntl.arange(0, 8) + 1)",
        "y = a.to(ntl.float32) // b",
    ),
)
def test_divisors_that_are_not_zero_are_left_alone(body):
    assert text(body, torch.int64).count("tl.where(b == 0, 1, b)") == body.count("b == 0")


@pytest.mark.parametrize("guard", ("b == 0, 2, 0 * b", "b != 1, b, 5", "a == 0, 1, b", "b == 1, 1, b"))
def test_other_choices_are_guarded(guard):
    body = f"where = ntl.where({guard})\ny = a // where"
    assert "divisor = tl.where(where == 0, 1, where)" in text(body, torch.int64)


def test_divisors_of_functions_that_combine_are_guarded():
    body = "y = ntl.reduce(b, 0, lambda p, q: ntl.where(q != 0, p // q, p)) + a"
    assert re.search(r"divisor = tl.where\((\w+) == 0, 1, \1\)\n    .* % divisor\n", text(body, torch.int64))


@needs_triton
@pytest.mark.parametrize("dtype", (torch.int32, torch.int64))
@pytest.mark.parametrize(
    "body",
    (
        "y = ntl.where(b != 0, a // b, -7)",
        "y = ntl.where(b == 0, -7, a % b)",
        "z = b[3]\ny = ntl.where(z != 0, a // z, -7)",
    ),
)
def test_machine_code_still_asks_whether_the_divisor_is_zero(body, dtype):
    kernel, x = made(body), torch.ones(20, dtype=dtype)
    variant = dispatch.launcher_of(kernel).trace((x, x, torch.ones(20, dtype=dtype)), {}, machine.H100)
    compiled = executable.compile_for_gpu(kernel.definition, variant)
    assert "-7" in compiled.asm["ptx"]


# -- shifts --


@pytest.mark.parametrize("dtype", (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8), ids=str)
def test_shifts_by_all_bits_and_more(dtype):
    """As in PyTorch, which shifts everything out, and has nothing to do with what the hardware does."""
    bits = torch.iinfo(dtype).bits
    shifted = torch.tensor([-3, 5, 77, -128, -1, 1, 100, 3]).to(dtype)
    distances = torch.tensor([0, 1, bits - 1, bits, bits + 1, 100, 31, 7 if dtype == torch.uint8 else -1]).to(dtype)
    for body, expected in (("y = a << b", shifted << distances), ("y = a >> b", shifted >> distances)):
        found = torch.empty(8, dtype=dtype, device=DEVICE)
        made(body)(shifted.to(DEVICE), distances.to(DEVICE), found)
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize(
    "body, dtype, guarded",
    (
        ("y = a << b", torch.int32, "tl.where((b >= 0) & (b <= 31), a << b, 0)"),
        ("y = a >> b", torch.int32, "a >> tl.where((b >= 0) & (b <= 31), b, 31)"),
        ("y = a << b", torch.uint8, "tl.where(b <= 7, a << b, 0)"),
        ("y = a >> b", torch.uint8, "tl.where(b <= 7, a >> b, 0)"),
        ("y = a >> b", torch.int64, "a >> tl.where((b >= 0) & (b <= 63), b, 63)"),
    ),
)
def test_shifts_are_guarded(body, dtype, guarded):
    assert guarded in text(body, dtype)


@pytest.mark.parametrize(
    "distance",
    ("3", "ntl.arange(0, 8)", "(ntl.arange(0, 8) * 4)", "(ntl.arange(0, 8) % 4 * 8 + 7)", "(8 * k)", "(b & 15)"),
)
def test_shifts_within_the_bits_are_left_alone(distance):
    found = text(f"for k in range(4):\n    y = a.to(ntl.int32) >> {distance}", torch.int32)
    assert ">>" in found and "where" not in found
