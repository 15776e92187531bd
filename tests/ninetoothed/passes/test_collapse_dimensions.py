"""Dimensions without gaps between them become one where indices were taken apart: how that reads, and compiles."""

import expecttest
import pytest
import torch

import ninetoothed
from ninetoothed import Tensor, block_size
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE
from tests.ninetoothed.passes.flattened import both, flattened, layer, more, product, turned


def half(*shape):
    return torch.empty(shape, dtype=torch.float16)


def make_layer():
    blocks = {"rows": block_size(), "columns": block_size(), "depth": block_size()}
    return ninetoothed.make(
        lambda *tensors: layer(*tensors, **blocks), product, (Tensor(3), Tensor(2), Tensor(3)), kernel_name="layer"
    )


def accesses(kernel, *arguments):
    """The arguments of the kernel, and how it loads and stores."""
    text = kernel.source(*arguments, gpu=machine.H200).text
    lines = [line.strip() for line in text[text.index("def ") :].splitlines()]
    words = ("def", "x", "mask", "input", "weight =", "y", "tl.store", "output", "total = tl.dot")
    return "".join(f"{line}\n" for line in lines if line.startswith(words))


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_a_layer_on_sequences(self):
        arguments = half(2, 1024, 4096), half(4096, 4096), half(2, 1024, 4096)
        self.assertExpectedInline(
            accesses(make_layer(), *arguments),
            """\
def layer(input_desc, weight_desc, output_desc, input_size_0, input_size_1, input_size_2, weight_size_0):
input = input_desc.load([pid_0 * 128, k * 64])
weight = tl.trans(weight_desc.load([pid_1 * 256, k * 64]))
total = tl.dot(input, weight, total)
output_desc.store([pid_0 * 128, pid_1 * 256], total.to(tl.float16))
""",
        )

    def test_gaps(self):
        arguments = half(2, 2048, 4096)[:, :1024], half(4096, 4096), half(2, 1024, 4096)
        self.assertExpectedInline(
            accesses(make_layer(), *arguments),
            """\
def layer(weight_desc, output_desc, input_ptr, input_size_0, input_size_1, input_size_2, weight_size_0, input_stride_0):
input_index = pid_0 * 128 + tl.arange(0, 128)
input_index_0 = input_index // input_size_1
input_index_1 = input_index % input_size_1
input_offsets = (input_index_0 * input_stride_0 + input_index_1 * input_size_2)[:, None] + tl.arange(0, 64)[None, :]
input = tl.load(
input_ptr + k * 64 + input_offsets,
mask=(
weight = tl.trans(weight_desc.load([pid_1 * 256, k * 64]))
total = tl.dot(input, weight, total)
output_desc.store([pid_0 * 128, pid_1 * 256], total.to(tl.float16))
""",
        )

    def test_any_order_of_dimensions(self):
        kernel = ninetoothed.make(turned, more, (Tensor(3), Tensor(3)), kernel_name="turned")
        x = half(5, 6, 7).permute(2, 1, 0)
        self.assertExpectedInline(
            accesses(kernel, x, x),
            """\
def turned(x_ptr, y_ptr, x_size_0, x_size_1, x_size_2):
x_index = pid * 64 + tl.arange(0, 64)
mask = x_index < x_size_0 * x_size_1 * x_size_2
x = tl.load(x_ptr + x_index, mask=mask)
y = x + 1.0
tl.store(y_ptr + x_index, y, mask=mask)
""",
        )

    def test_an_access_with_indices_of_its_own(self):
        kernel = ninetoothed.make(flattened, both, (Tensor(3), Tensor(3)), kernel_name="both")
        self.assertExpectedInline(
            accesses(kernel, half(5, 6, 7), half(5, 6, 7)),
            """\
def both(x_ptr, y_ptr, x_size_0, x_size_1, x_size_2):
x = tl.load(x_ptr + x_size_2 + 2, mask=(0 < x_size_0) & (1 < x_size_1) & (2 < x_size_2), other=0.0)
x_index = pid * 64 + tl.arange(0, 64)
mask = x_index < x_size_0 * x_size_1 * x_size_2
x_1 = tl.load(x_ptr + x_index, mask=mask)
y = x_1 + x
tl.store(y_ptr + x_index, y, mask=mask)
""",
        )


def test_machine_code_of_a_layer_on_sequences():
    pytest.importorskip("triton")
    kernel = make_layer()
    arguments = half(2, 1024, 4096), half(4096, 4096), half(2, 1024, 4096)
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)
    compiled = executable.compile_for_gpu(kernel.definition, variant)
    ptx = compiled.asm["ptx"]
    assert "cp.async.bulk.tensor" in ptx and "wgmma.mma_async" in ptx and "ld.global" not in ptx


@pytest.mark.parametrize("batch, length", ((2, 1024), (3, 77), (1, 1), (0, 5), (5, 0)))
def test_a_layer_on_sequences(batch, length):
    kernel, weight = make_layer(), torch.randn(136, 264, device=DEVICE).half()
    whole = torch.randn(batch, length, 264, device=DEVICE).half()
    turned = torch.randn(length, batch, 264, device=DEVICE).half().transpose(0, 1)
    for x in (whole, turned, torch.randn(batch, 2 * length, 264, device=DEVICE).half()[:, :length]):
        y = torch.full((batch, length, 136), float("nan"), device=DEVICE, dtype=torch.float16)
        kernel(x, weight, y)
        expected = x.double() @ weight.double().T
        assert (y.double() - expected).norm() <= 1e-3 * expected.norm()
