"""Short rows side by side in one program: how that reads, when it is done, and that it is right."""

import re

import expecttest
import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import rms_norm, softmax
from tests.machine_code.sass import disassembled


def matrices(rows, columns, count=2):
    return tuple(torch.empty(rows, columns, dtype=torch.float16) for _ in range(count))


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_short_rows(self):
        text = softmax.make(2).source(*matrices(100_000, 100), gpu=machine.H200).text
        self.assertExpectedInline(
            text[text.index("@triton.jit") :],
            """\
@triton.jit
def softmax(input_ptr, output_ptr, input_size_1):
    pid = tl.program_id(0)
    mask = tl.arange(0, 128)[None, :] < input_size_1
    input_index_0 = pid * 16 + tl.arange(0, 16)
    input = tl.load(
        input_ptr + input_index_0[:, None] * input_size_1 + tl.arange(0, 128)[None, :],
        mask=mask,
        other=float("-inf"),
    )
    wide = input.to(tl.float32)
    numerator = tl.exp2((wide - tl.max(wide, axis=1)[:, None]) * 1.4426950408889634)
    output = numerator / tl.sum(numerator, axis=1)[:, None]
    tl.store(
        output_ptr + input_index_0[:, None] * input_size_1 + tl.arange(0, 128)[None, :],
        output.to(tl.float16),
        mask=mask,
    )
""",
        )


def chosen(kernel, *arguments):
    return dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200).selection.schedule


class TestWhenRowsArePacked:
    def test_short_and_many(self):
        assert chosen(softmax.make(2), *matrices(100_000, 128)).sharing.coarsening == 16
        assert chosen(softmax.make(2), *matrices(100_000, 500)).sharing.coarsening == 4

    def test_few_beside_each_other(self):
        def arrangement(x, y):
            return x.tile((1, 1, 128)), y.tile((1, 1, 128))

        kernel = ninetoothed.make(arrangement, softmax.application, (Tensor(3), Tensor(3)))
        assert (
            chosen(kernel, *(torch.empty(100, 1000, 512, dtype=torch.float16) for _ in range(2))).sharing.coarsening
            == 4
        )

    def test_long(self):
        assert chosen(softmax.make(2), *matrices(100_000, 4096)).sharing.coarsening == 1

    def test_by_their_length_alone(self):
        """Else the sums of a row would be in another order where there are fewer rows."""
        for rows in (1, 2, 1000):
            assert chosen(softmax.make(2), *matrices(rows, 128)).sharing.coarsening == 16

    def test_the_users_own_warps(self):
        kernel = ninetoothed.make(ninetoothed.arrange.rows, softmax.application, (Tensor(2), Tensor(2)), num_warps=2)
        configuration = chosen(kernel, *matrices(100_000, 128))
        assert (configuration.sharing.coarsening, configuration.num_warps) == (1, 2)


def test_how_many_programs():
    kernel, arguments = softmax.make(2), matrices(100_001, 128)
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)
    emitted = executable.emitted_for(variant)
    assert emitted.programs(dict(variant.selection.values)) == (6251, 1, 1)


def test_compiled():
    pytest.importorskip("triton")
    x, y = matrices(2**17, 128)
    kernel, arguments = rms_norm.make(2), (x, torch.empty(128, dtype=torch.float16), 1e-6, y, True)
    variant = dispatch.Launcher(kernel.definition).trace(arguments, {}, machine.H200)
    compiled = executable.compile_for_gpu(kernel.definition, variant)
    assert compiled.emitted.coarsening > 1 and compiled.kernel.metadata.num_warps == 4 and not compiled.spills
    assert "LDG.E.128" in disassembled(compiled) and "STG.E.128" in disassembled(compiled)


@pytest.mark.parametrize("columns", (33, 128, 1000, 4097))
def test_sums_of_a_row_are_in_one_order_in_every_batch(columns):
    """Elements are summed by thread, then by warp: the order is the layout of what `tt.reduce` takes."""
    pytest.importorskip("triton")
    kernel, layouts = softmax.make(2), set()
    for rows in (1, 3, 100_000):
        variant = dispatch.Launcher(kernel.definition).trace(matrices(rows, columns), {}, machine.H200)
        compiled = executable.compile_for_gpu(kernel.definition, variant).asm["ttgir"]
        named = dict(re.findall(r"(#blocked\d*) = (#ttg.blocked<.*>)", compiled))
        operands = re.findall(r"tt.reduce.*?\}\) : \(tensor<(\w+), (#blocked\d*)>", compiled, re.DOTALL)
        layouts.add((tuple((shape, named[layout]) for shape, layout in operands), compiled.count('tt.reduce"')))
    assert len(layouts) == 1 and layouts.pop()[0]
