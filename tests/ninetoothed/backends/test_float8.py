"""Conversions to float8: on every backend what is beyond all saturates, infinities too, and NaN stays NaN.

The PTX that Triton writes shows what GPUs do that are not there: `cvt.rn.satfinite` from sm_89 on.
"""

import math
import re

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor, dtypes
from ninetoothed.backends.triton.functions.values import _float8
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE, needs_triton
from tests.ninetoothed.applications import application_of

FLOAT8 = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
BEYOND = torch.tensor([math.inf, -math.inf, math.nan, 65504, -65504, 3, 0.4375, -0.0])
both = pytest.mark.parametrize("dtype", FLOAT8, ids=str)


def make(body="y = x", **options):
    application = application_of(body, "x", "y")
    arrangement = lambda x, y: (x.tile((8,)), y.tile((8,)))  # noqa: E731
    return ninetoothed.make(arrangement, application, (Tensor(1, **options), Tensor(1)))


def run(x, dtype, body="y = x", **options):
    y = torch.zeros(8, dtype=torch.uint8).view(dtype).to(DEVICE)
    make(body, **options)(x.to(DEVICE), y)
    return y.cpu().float()


def saturated(x, dtype):
    return x.double().clamp(-FLOAT8[dtype], FLOAT8[dtype]).to(dtype).float()


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@both
@pytest.mark.parametrize("source", (torch.float16, torch.bfloat16, torch.float32, torch.float64), ids=str)
def test_floats_saturate(source, dtype):
    same(run(BEYOND.to(source), dtype), saturated(BEYOND.to(source), dtype))


@both
@pytest.mark.parametrize("source", (torch.int16, torch.int32, torch.int64), ids=str)
def test_integers_saturate(source, dtype):
    limits = torch.iinfo(source)
    x = torch.tensor([limits.min, limits.max, 0, 1, -7, 448, 464, 500], dtype=source)
    same(run(x, dtype), saturated(x, dtype))


def test_one_type_of_eight_bits_from_the_other():
    x = BEYOND.to(torch.float8_e5m2)
    same(run(x, torch.float8_e4m3fn), saturated(x.float(), torch.float8_e4m3fn))


@both
@pytest.mark.parametrize("number", (math.inf, -math.inf, math.nan, 1e6, -500.0, 0.4375, -0.0, 3))
def test_numbers_saturate(number, dtype):
    expected = saturated(torch.full((8,), float(number)), dtype)
    x = torch.zeros(8)
    same(run(x, dtype, f"y = ntl.full((8,), float('{number}'), y.dtype)"), expected)
    same(run(x, dtype, f"y = ntl.where(x == 0, float('{number}'), 1.0)"), expected)
    same(run(x.to(dtype), dtype, "y = x[8 + ntl.program_id(0)]", other=float(number)), expected)


@both
def test_numbers_are_written_by_their_bits(dtype):
    own = dtypes.from_torch(dtype)
    numbers = [*torch.arange(256, dtype=torch.uint8).view(dtype).tolist(), *(torch.randn(500) * 30).tolist()]
    numbers += [2.0**-k * m for k in range(30) for m in (1, -1.5, 1.25, 1.75, 1.125)] + [math.inf, -math.inf]
    bits = torch.tensor([_float8(number, own) for number in numbers], dtype=torch.uint8)
    same(bits.view(dtype).float(), saturated(torch.tensor(numbers), dtype))


@pytest.mark.parametrize(
    "number, dtype",
    (
        (1.0, torch.float8_e4m3fn),
        (-448.0, torch.float8_e4m3fn),
        (1.0, torch.float8_e5m2),
        (-math.inf, torch.float8_e5m2),
    ),
)
@pytest.mark.parametrize("function", ("max(x)", "argmax(x, 0)", "max(ntl.sort(x))", "min(x)", "argmin(x, 0)"))
def test_lanes_past_the_end_are_no_numbers_of_eight_bits(function, number, dtype):
    """Neither type holds what leaves a maximum as it is: one has no infinity, to the other none is converted."""
    x = torch.full((5,), -number if "min" in function else number).to(dtype)
    expected = 0.0 if "arg" in function else saturated(x.float(), dtype)[0].item()
    assert of_five(x, f"ntl.{function}") == expected


def of_five(x, text):
    kernel = ninetoothed.make(
        lambda x, y: (x.tile((8,)), y), application_of(f"y = {text}", "x", "y"), (Tensor(1), Tensor(0))
    )
    y = torch.full((), 77.0, device=DEVICE)
    kernel(x.to(DEVICE), y)
    return y.item()


def test_lanes_past_the_end_do_not_add_to_sums():
    x = torch.full((5,), -1.0).to(torch.float8_e4m3fn)
    assert abs(of_five(x, "ntl.sum(ntl.exp(x.to(ntl.float32) * 0.01))") - 5 * math.exp(-0.01)) < 1e-5


def compiled(source, dtype, gpu):
    kernel, arguments = make(), (torch.zeros(8, dtype=source), torch.zeros(8, dtype=dtype))
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, gpu)
    return executable.compile_for_gpu(kernel.definition, variant).asm


@needs_triton
@pytest.mark.parametrize("gpu", (machine.A100, machine.H100, machine.B200), ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("source", (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32), ids=str)
@both
def test_what_is_compiled_saturates(source, dtype, gpu):
    if gpu.architecture < 89 and dtype == torch.float8_e4m3fn:
        pytest.skip("a type that the GPU lacks")
    text = compiled(source, dtype, gpu)["ptx"]
    instructions = re.findall(r"cvt\S*\.e[45]m[23]x2\.\S+", text)
    if gpu.architecture < 89:
        assert not instructions and "min.NaN.f32" in text and "0f47600000" in text  # 57344
    else:
        assert instructions and all("satfinite" in each for each in instructions)


@needs_triton
@pytest.mark.parametrize("gpu", ("MI300X", "MI355X"))
@pytest.mark.parametrize("source", (torch.float16, torch.bfloat16, torch.float32), ids=str)
def test_what_is_compiled_for_amd_saturates_in_float32(source, gpu):
    """Where Triton converts float16 itself, what is between 464 and 480 becomes NaN on gfx942."""
    text = compiled(source, torch.float8_e4m3fn, machine.named(gpu))["amdgcn"]
    assert "0x43e00000" in text and ("v_cvt_f32_f16" in text) == (source == torch.float16)  # 448
    text = compiled(source, torch.float8_e5m2, machine.named(gpu))["amdgcn"]
    assert "0x47600000" in text and "bf8" not in text  # 57344


@both
@pytest.mark.parametrize("wide", (torch.float16, torch.bfloat16, torch.float32), ids=str)
def test_every_number_of_eight_bits_is_one_of_more(wide, dtype):
    x, y = torch.arange(256, dtype=torch.uint8).view(dtype), torch.zeros(256, dtype=wide, device=DEVICE)
    make()(x.to(DEVICE), y)
    same(y.cpu().float(), x.float())


@needs_triton
@pytest.mark.parametrize("gpu", (machine.H100, machine.B200), ids=lambda gpu: gpu.name)
def test_infinity_is_not_multiplied(gpu):
    """Triton's own conversion to bfloat16 multiplies by 2^112, which makes 65536 of infinity, and a number of NaN."""
    text = compiled(torch.float8_e5m2, torch.bfloat16, gpu)["ptx"]
    assert "cvt.rn.bf16.f32" in text and not re.search(r"mul\S*\.(bf16|f32)", text)


@needs_triton
@pytest.mark.parametrize("body", ("y = ntl.where(x > 1, x, float('-inf'))", "y = ntl.where(x > 1, 1e9, x)"))
@both
def test_numbers_beside_float8(body, dtype):
    """Triton gives such a number the type of eight bits, and cannot convert it."""
    x = torch.tensor([-3, 5, 1, 2, 3, 4, 5, 6.0]).to(dtype)
    chosen = (x.float() > 1) == body.endswith("x)")
    same(run(x, dtype, body), torch.where(chosen, FLOAT8[dtype] * (1 if body.endswith("x)") else -1), x.float()))
    kernel = make(body)
    variant = dispatch.launcher_of(kernel).trace((x, torch.zeros(8).to(dtype)), {}, machine.H100)
    assert executable.compile_for_gpu(kernel.definition, variant).asm["ptx"]
