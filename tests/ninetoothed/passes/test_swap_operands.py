"""Products of few rows, computed as their transpose: how that reads, for which it is done, what it compiles to.

That it is right is shown by `interpret_merge`.
"""

import re

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.passes.swap_operands import swap
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import addmm, mm
from tests.ninetoothed.passes import interpret_merge


def halves(*shape):
    return torch.empty(shape, dtype=torch.bfloat16)


def launcher(kernel):
    return dispatch.launcher_of(kernel)


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_linear(self):
        text = str(mm.make().source(halves(2, 4096), halves(6144, 4096).mT, halves(2, 6144), gpu="h200"))
        self.assertExpectedInline(
            text[text.index("@triton.jit") :],
            """\
@triton.jit
def mm(input_desc, other_desc, output_desc, input_size_1):
    pid_0 = tl.program_id(1)
    pid_1 = tl.program_id(0)
    accumulator = tl.zeros((64, 16), tl.float32)
    for k in tl.range(tl.cdiv(input_size_1, 256), disable_licm=True):
        input = input_desc.load([pid_0 * 16, k * 256])
        other = tl.trans(other_desc.load([pid_1 * 64, k * 256]))
        other = tl.trans(other)
        input = tl.trans(input)
        accumulator = tl.dot(other, input, accumulator)
    accumulator_1 = tl.trans(accumulator)
    output_desc.store([pid_0 * 16, pid_1 * 64], accumulator_1.to(tl.bfloat16))
""",
        )


@pytest.mark.parametrize("rows, is_swapped", ((1, True), (16, True), (32, True), (64, False), (4096, False)))
def test_few_rows_alone(rows, is_swapped):
    program = launcher(mm.make()).trace((halves(rows, 4096), halves(4096, 4096), halves(rows, 4096)), {}, machine.H200)
    assert (swap(program.program) != program.program) == is_swapped


def test_not_without_wgmma():
    for gpu in ("a100", "b200"):
        source = str(mm.make().source(halves(2, 4096), halves(4096, 4096), halves(2, 4096), gpu=gpu))
        assert "tl.trans" not in source


def test_not_what_is_looked_at():
    def application(input, other, output):
        total = ntl.zeros(output.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(input[k], other[k]) * ntl.max(total)
        output = total

    kernel = ninetoothed.make(mm.arrangement, application, tuple(Tensor(2) for _ in range(3)))
    program = launcher(kernel).trace((halves(2, 4096), halves(4096, 4096), halves(2, 4096)), {}, machine.H200).program
    assert swap(program) == program


def test_two_products_of_the_same_rows():
    pytest.importorskip("triton")
    from ninetoothed.runtime import executable

    weight, kernel = halves(14336, 4096).mT, interpret_merge.make_two_products()
    traced = launcher(kernel).trace((halves(2, 4096), weight, weight, halves(2, 14336)), {}, machine.H200)
    source = executable.compile_for_gpu(kernel.definition, traced)
    assert len(re.findall(r"tl\.dot\((gate|up), input_1, ", source.emitted.source)) == 2
    assert re.search(r"wgmma\.mma_async\S*m64n16k16", source.asm["ptx"]) and "mma.sync" not in source.asm["ptx"]
    # Both weights count in the shared memory that a schedule needs.
    assert source.spills == 0 and source.shared <= machine.H200.shared_memory


def test_not_where_one_sum_is_no_product():
    def application(input, other, output):
        total, sums = ntl.zeros(output.shape, dtype=ntl.float32), ntl.zeros(output.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(input[k], other[k])
            sums += ntl.sum(input[k], axis=1)[:, None]
        output = total + sums

    kernel = ninetoothed.make(mm.arrangement, application, tuple(Tensor(2) for _ in range(3)))
    program = launcher(kernel).trace((halves(2, 4096), halves(4096, 4096), halves(2, 4096)), {}, machine.H200).program
    assert swap(program) == program


def test_not_what_a_function_merges():
    """Its variables would no longer be of the shapes that the function takes."""

    def merge(total, other_total):
        return total + other_total

    def application(input, other, output):
        total = ntl.zeros(output.shape, dtype=ntl.float32)
        for k in ntl.range(input.shape[0], merge=merge):
            total += ntl.dot(input[k], other[k])
        output = total

    kernel = ninetoothed.make(mm.arrangement, application, tuple(Tensor(2) for _ in range(3)))
    source = kernel.source(halves(2, 4096), halves(4096, 4096), halves(2, 4096), gpu="h200")
    assert "tl.trans" not in source


@pytest.mark.parametrize("is_turned", (False, True))
def test_compiles_to_wgmma(is_turned):
    pytest.importorskip("triton")
    from ninetoothed.runtime import executable

    weight = halves(4096, 4096)
    arguments = halves(4096), halves(8, 4096), weight.mT if is_turned else weight, 1.0, 1.0, halves(8, 4096)
    traced = launcher(addmm.make()).trace((arguments[0].expand(8, 4096), *arguments[1:]), {}, machine.H200)
    compiled = executable.compile_for_gpu(addmm.make().definition, traced)
    assert re.search(r"wgmma\.mma_async\S*m64n16k16", compiled.asm["ptx"])
    assert "mma.sync" not in compiled.asm["ptx"] and compiled.spills == 0
