"""Divisors of 0 that GPUs divide by: LLVM takes them for impossible, whether or not a lane is taken."""

import re

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import needs_triton
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
    compiled = executable.GpuExecutable.compile(kernel.definition, variant)
    assert "-7" in compiled.asm["ptx"]
