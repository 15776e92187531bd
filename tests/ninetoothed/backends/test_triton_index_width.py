"""Offsets of 64 bits: how they read, where they are taken, what they cost."""

import re

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import mm

# 2 GB that nobody touches, so that no memory is taken.
LONG, SHORT = (2**15, 2**16), (2**5, 2**16)


def arrangement(input, output):
    input = input.tile((1, 1024)).tile((-1, 1)).squeeze(0)
    input.dtype = input.dtype.squeeze(1)
    input.dtype.dtype = input.dtype.dtype.squeeze(0)
    return input, output.tile((1024,))


def application(input, output):
    total = ntl.zeros(output.shape, dtype=ntl.float32)
    for k in range(input.shape[0]):
        total += input[k]
    output = total


def sums(rows, columns, constexpr=False):
    """A kernel for the sums of all columns, and arguments."""
    options = {"shape_options": {"constexpr": True}} if constexpr else {}
    kernel = ninetoothed.make(
        arrangement, application, (Tensor(2, **options), Tensor(1, **options)), kernel_name="sums"
    )
    return kernel, (torch.empty(rows, columns, dtype=torch.int8), torch.empty(columns))


def source(*which, **options):
    kernel, arguments = sums(*which, **options)
    text = kernel.source(*arguments, gpu=machine.H200).text
    return text[text.index("@triton.jit") :]


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_short(self):
        self.assertExpectedInline(
            source(*SHORT),
            """\
@triton.jit
def sums(input_ptr, output_ptr, input_size_0, input_size_1, input_stride_0):
    pid = tl.program_id(0)
    total = tl.zeros((1024,), tl.float32)
    input_index_1 = pid * 1024 + tl.arange(0, 1024)
    mask = input_index_1 < input_size_1
    for k in range(input_size_0):
        input = tl.load(input_ptr + k * input_stride_0 + input_index_1, mask=mask, other=0)
        total = total + input.to(tl.float32)
    tl.store(output_ptr + input_index_1, total, mask=mask)
""",
        )

    def test_long(self):
        self.assertExpectedInline(
            source(*LONG),
            """\
@triton.jit
def sums(input_ptr, output_ptr, input_size_0, input_size_1, input_stride_0):
    pid = tl.program_id(0)
    total = tl.zeros((1024,), tl.float32)
    input_index_1 = pid.to(tl.int64) * 1024 + tl.arange(0, 1024)
    mask = input_index_1 < input_size_1
    for k in range(input_size_0):
        input = tl.load(input_ptr + tl.cast(k, tl.int64) * input_stride_0 + input_index_1, mask=mask, other=0)
        total = total + input.to(tl.float32)
    output_index = pid * 1024 + tl.arange(0, 1024)
    mask_1 = output_index < input_size_1
    tl.store(output_ptr + output_index, total, mask=mask_1)
""",
        )

    def test_long_and_known(self):
        """No stride brings the number of a round into 64 bits."""
        self.assertExpectedInline(
            source(*LONG, constexpr=True),
            """\
@triton.jit
def sums(input_ptr, output_ptr):
    pid = tl.program_id(0)
    total = tl.zeros((1024,), tl.float32)
    input_index_1 = pid.to(tl.int64) * 1024 + tl.arange(0, 1024)
    for k in range(32768):
        input = tl.load(input_ptr + tl.cast(k, tl.int64) * 65536 + input_index_1)
        total = total + input.to(tl.float32)
    output_index = pid * 1024 + tl.arange(0, 1024)
    tl.store(output_ptr + output_index, total)
""",
        )


def compiled(*which):
    kernel, arguments = sums(*which)
    variant = dispatch.Launcher(kernel.definition).trace(arguments, {}, machine.H200)
    return executable.compile_for_gpu(kernel.definition, variant)


def test_compiled():
    """Only addresses are of 64 bits where nothing else need be."""
    pytest.importorskip("triton")
    computed = re.compile(r"\b(?:setp\.lt|mul\.lo|mad\.lo)\.s64\b")
    short, long = (computed.findall(compiled(*which).asm["ptx"]) for which in (SHORT, LONG))
    assert not short and long


def test_a_product_too_long_for_its_descriptors_offsets():
    pytest.importorskip("triton")
    halves = [torch.empty(shape, dtype=torch.float16) for shape in ((2**16, 64), (64, 2**15), (2**16, 2**15))]
    launcher = dispatch.launcher_of(mm.make())
    variant = launcher.trace(halves, {}, machine.H200)
    text = mm.make().source(*halves, gpu=machine.H200).text

    assert "input_desc.load([tl.cast(pid_0 * 128, tl.int32), tl.cast(k * 64, tl.int32)])" in text
    assert executable.compile_for_gpu(launcher.definition, variant).spills == 0
