"""Exact products summed up in blocks: how that reads, for which loops it is done, that it is right, how it compiles."""

import re

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.passes.blocked_summation import MOST_REGISTERS, sum_in_blocks
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import conv2d, mm, sdpa_backward_query
from tests.ninetoothed_ops.kernels import calls
from tests.ninetoothed_ops.kernels.launched import launched


def whole(*shape):
    return torch.empty(shape)


def product(n=4096, dtype=torch.float32):
    return tuple(torch.empty(n, n, dtype=dtype) for _ in range(3))


def traced(kernel, arguments, gpu=machine.H200):
    return dispatch.Launcher(kernel.definition).trace(arguments, {}, gpu)


def loops(kernel, arguments):
    """The emitted text from the first loop to its end, and the statement after it."""
    text = kernel.source(*arguments, gpu=machine.H200).text
    body = re.search(r"^    for .*?(?=^    \w)", text, re.M | re.S)
    return body[0] + text[body.end() :].splitlines()[0]


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_blocks(self):
        a, b, c = whole(4096, 4096), whole(4096, 4096), whole(4096, 4096)
        self.assertExpectedInline(
            loops(mm.make(), (a, b, c)),
            """\
    for k in range(tl.cdiv(input_size_1, 32)):
        input = tl.load(
            input_ptr + k * 32 + input_offsets,
            mask=(input_index_0[:, None] < input_size_0) & (tl.arange(0, 32)[None, :] < input_size_1 - k * 32),
            other=0.0,
        )
        other = tl.load(
            other_ptr + k * 32 * other_stride_0 + other_offsets,
            mask=(other_index_1[None, :] < other_size_1) & (tl.arange(0, 32)[:, None] < input_size_1 - k * 32),
            other=0.0,
        )
        part_1 = tl.dot(input, other, part, input_precision="ieee")
        if k % ((input_size_1 + 31) // 3072 + 1) == (input_size_1 + 31) // 3072:
            accumulator = accumulator + part_1
            part = tl.zeros((128, 128), tl.float32)
        else:
            part = part_1
    accumulator_1 = accumulator + part""",
        )

    def test_rounds(self):
        image, filters, output = whole(4, 64, 14, 14), whole(64, 64, 1, 1), whole(4, 64, 14, 14)
        self.assertExpectedInline(
            loops(conv2d.make(), (image, filters, whole(64), output, False)),
            """\
    for k in range(2):
        input = tl.load(
            input_ptr + k * 32 * 196 + input_offsets,
            mask=input_index[:, None] < input_size_0 * 196,
            other=0.0,
        )
        weight = tl.load(weight_ptr + k * 32 + weight_offsets)
        accumulator = tl.fma(tl.dot(input, weight, input_precision="ieee"), tl.full((), 1.0, tl.float32), accumulator)
    tl.store(""",
        )


@pytest.mark.parametrize("dtype, precision", ((torch.float16, "highest"), (torch.float32, "high")))
def test_not_on_tensor_cores(dtype, precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        program = traced(mm.make(), product(dtype=dtype)).program
    finally:
        torch.set_float32_matmul_precision(before)
    assert sum_in_blocks(program, 1024) == program


def powers(a, b, c):
    x = b
    for k in range(a.shape[0]):
        x = ntl.dot(a[k], x)
    c = x


def powers_from_the_left(a, b, c):
    x = b
    for k in range(a.shape[0]):
        x = ntl.dot(x, a[k])
    c = x


def two_summands(a, b, c):
    total = ntl.zeros(c.shape, dtype=ntl.float32)
    for k in range(a.shape[0]):
        total += ntl.dot(a[k], b, b)
    c = total


def doublings(a, b, c):
    total = b
    for _ in range(a.shape[0]):
        total = total + total
    c = total


@pytest.mark.parametrize("application", (powers, powers_from_the_left, two_summands, doublings))
@pytest.mark.parametrize("options", ({}, {"constexpr": True}))
def test_not_of_what_is_no_sum_of_products(application, options):
    def arrangement(a, b, c):
        b, c = (tensor.tile((-1, -1)) for tensor in (b, c))
        a = a.tile((1, -1, -1)).tile((-1, 1, 1)).squeeze((1, 2))
        a.dtype = a.dtype.squeeze((1, 2))
        a.dtype.dtype = a.dtype.dtype.squeeze(0)
        a = a.unsqueeze(1).expand((-1, c.shape[1]))
        return a, b, c

    shapes = ({"constexpr": True},) * 2
    tensors = Tensor(3, shape_options=(options or None, *shapes)), *(Tensor(2, shape_options=shapes) for _ in "bc")
    kernel = ninetoothed.make(arrangement, application, tensors)
    program = traced(kernel, (whole(3, 16, 16), whole(16, 16), whole(16, 16))).program
    assert sum_in_blocks(program, 128) == program


def test_not_without_registers():
    variant = traced(mm.make(), product())
    lanes = variant.selection.schedule.blocks.values()
    rows, columns, _ = lanes
    threads = rows * columns // MOST_REGISTERS
    assert sum_in_blocks(variant.program, threads) != variant.program
    assert sum_in_blocks(variant.program, threads // 2) == variant.program


def test_not_beside_other_products():
    kernel, arguments = calls.large("sdpa_backward_query", torch.float32)
    assert kernel is sdpa_backward_query.make()
    program = traced(kernel, arguments).program
    assert sum_in_blocks(program, 1024) == program


@pytest.mark.parametrize("gpu", (machine.A100, machine.H200, machine.B200), ids=lambda gpu: gpu.target)
@pytest.mark.parametrize("name", ("mm", "conv2d"))
def test_compiled(name, gpu):
    """Triton does not take the additions for those of `dot`: sums are apart in machine code, too."""
    pytest.importorskip("triton")
    kernel, arguments = calls.large(name, torch.float32)
    compiled, schedule = launched(kernel, arguments, gpu)
    rows, columns, _ = schedule.blocks.values()
    accumulator = rows * columns // (32 * schedule.num_warps)
    # Blackwell adds two at once.
    assert len(re.findall(r"\badd(?:\.rn)?(?:\.ftz)?\.f32", compiled.asm["ptx"])) >= accumulator // 2
    assert compiled.spills == 0
