"""Sizes and strides that a variant knows: how that reads, and what it compiles to."""

import expecttest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import needs_triton
from tests.machine_code.sass import disassembled


def tiled(input, output):
    return input.tile((1, 64)), output.tile((1, 64))


def flattened(input, output):
    return input.flatten().tile((64,)), output.flatten().tile((64,))


def application(input, output):
    output = input + 1


def copies(arrangement=tiled, ndim=2, **options):
    tensors = Tensor(ndim, **options), Tensor(ndim, **options)
    return ninetoothed.make(arrangement, application, tensors, kernel_name="copy")


def rows(rows, columns, pitch=None, step=1):
    """Every `step`-th column of rows that start `pitch` elements apart."""
    return torch.empty(rows, pitch or columns * step)[:, : columns * step : step]


def accesses(*arguments, arrangement=tiled, **options):
    """The arguments of the kernel, and how it loads and stores."""
    text = copies(arrangement, **options).source(*arguments, gpu=machine.H200).text
    lines = text[text.index("def copy") :].splitlines()
    return "".join(
        f"{line.strip()}\n" for line in lines if line.strip().startswith(("def", "input", "mask", "tl.store"))
    )


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_nothing(self):
        self.assertExpectedInline(
            accesses(rows(30, 100, 410, 4), rows(30, 100, 310, 3)),
            """\
def copy(input_ptr, output_ptr, input_size_1, input_stride_0, input_stride_1, output_stride_0, output_stride_1):
input_index_1 = pid_1 * 64 + tl.arange(0, 64)
mask = input_index_1[None, :] < input_size_1
input = tl.load(input_ptr + pid_0 * input_stride_0 + input_index_1[None, :] * input_stride_1, mask=mask)
tl.store(output_ptr + pid_0 * output_stride_0 + input_index_1[None, :] * output_stride_1, output, mask=mask)
""",
        )

    def test_unit_strides(self):
        self.assertExpectedInline(
            accesses(rows(30, 100, 110), rows(30, 100, 130)),
            """\
def copy(input_ptr, output_ptr, input_size_1, input_stride_0, output_stride_0):
input_index_1 = pid_1 * 64 + tl.arange(0, 64)
mask = input_index_1[None, :] < input_size_1
input = tl.load(input_ptr + pid_0 * input_stride_0 + input_index_1[None, :], mask=mask)
tl.store(output_ptr + pid_0 * output_stride_0 + input_index_1[None, :], output, mask=mask)
""",
        )

    def test_rows_with_gaps_one_after_another(self):
        self.assertExpectedInline(
            accesses(rows(30, 100, 110), rows(30, 100, 130), arrangement=flattened),
            """\
def copy(input_ptr, output_ptr, input_size_0, input_size_1, input_stride_0, output_stride_0):
input_index = pid * 64 + tl.arange(0, 64)
mask = input_index < input_size_0 * input_size_1
input_index_0 = input_index // input_size_1
input_index_1 = input_index % input_size_1
input = tl.load(input_ptr + input_index_0 * input_stride_0 + input_index_1, mask=mask)
tl.store(output_ptr + input_index_0 * output_stride_0 + input_index_1, output, mask=mask)
""",
        )

    def test_rows_without_gaps_one_after_another(self):
        self.assertExpectedInline(
            accesses(rows(30, 100), rows(30, 100), arrangement=flattened),
            """\
def copy(input_ptr, output_ptr, input_size_0, input_size_1):
input_index = pid * 64 + tl.arange(0, 64)
mask = input_index < input_size_0 * input_size_1
input = tl.load(input_ptr + input_index, mask=mask)
tl.store(output_ptr + input_index, output, mask=mask)
""",
        )

    def test_images_without_gaps_one_after_another(self):
        x = torch.empty(4, 30, 100)
        self.assertExpectedInline(
            accesses(x, x, arrangement=flattened, ndim=3),
            """\
def copy(input_ptr, output_ptr, input_size_0, input_size_1, input_size_2):
input_index = pid * 64 + tl.arange(0, 64)
mask = input_index < input_size_0 * input_size_1 * input_size_2
input = tl.load(input_ptr + input_index, mask=mask)
tl.store(output_ptr + input_index, output, mask=mask)
""",
        )

    def test_one_row(self):
        self.assertExpectedInline(
            accesses(rows(1, 100), rows(1, 100)),
            """\
def copy(input_ptr, output_ptr, input_size_1):
input_index_1 = pid * 64 + tl.arange(0, 64)
mask = input_index_1[None, :] < input_size_1
input = tl.load(input_ptr + input_index_1[None, :], mask=mask)
tl.store(output_ptr + input_index_1[None, :], output, mask=mask)
""",
        )

    def test_declared_sizes(self):
        self.assertExpectedInline(
            accesses(rows(30, 128), rows(30, 128), shape_options={"constexpr": True}),
            """\
def copy(input_ptr, output_ptr):
input_index_1 = pid_1 * 64 + tl.arange(0, 64)
input = tl.load(input_ptr + pid_0 * 128 + input_index_1[None, :])
tl.store(output_ptr + pid_0 * 128 + input_index_1[None, :], output)
""",
        )


@needs_triton
class TestCompiled:
    def sass(self, *arguments):
        kernel = copies()
        variant = dispatch.Launcher(kernel.definition).trace(arguments, {}, machine.H200)
        return disassembled(executable.compile_for_gpu(kernel.definition, variant))

    def test_vectors_where_strides_are_known(self):
        whole = self.sass(rows(30, 128), rows(30, 128))
        assert "LDG.E.64" in whole and "STG.E.64" in whole
        apart = self.sass(rows(30, 128, 410, 3), rows(30, 128, 410, 3))
        assert "LDG.E.64" not in apart and "STG.E.64" not in apart
