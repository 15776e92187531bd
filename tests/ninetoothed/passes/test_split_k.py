"""Sums shared out over programs: how that reads, for which kernels it is done, and that it is right."""

import dataclasses
import math

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.backends.triton import emit
from ninetoothed.passes.reduction_match import match
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.selection.pattern import pattern_of
from ninetoothed.schedule import Schedule, SplitK
from ninetoothed_ops.kernels import addmm, mm, sdpa
from tests.machine_code.sass import disassembled


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


def traced(kernel, *arguments):
    return dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_two_parts(self):
        arguments = halves(128), halves(256, 4096), halves(4096, 128)
        bias, a, b = arguments
        variant = traced(addmm.make(), bias.expand(256, 128), a, b, 1.0, 1.0, halves(256, 128))
        described = frozenset(parameter.name for parameter in variant.program.parameters)
        text = emit(variant.program, Schedule(use_tma=described, sharing=SplitK(2))).source
        self.assertExpectedInline(
            text[text.index("    part =") :],
            """\
    part = pid // (rows * columns)
    accumulator = tl.zeros((64, 64), tl.float32)
    for k in range(
        tl.cdiv(mat1_size_1, 128) * part // 2,
        (tl.cdiv(mat1_size_1, 128) * part + tl.cdiv(mat1_size_1, 128)) // 2,
    ):
        mat1 = mat1_desc.load([pid_0 * 64, k * 128])
        mat2 = mat2_desc.load([k * 128, pid_1 * 64])
        accumulator = tl.dot(mat1, mat2, accumulator)
    tile_number = tl.cdiv(input_size_1, 64) * pid_0 + pid_1
    tl.store(
        workspace_ptr + (part + tile_number * 2) * 4096 + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :],
        accumulator,
    )
    tl.debug_barrier()
    semaphore = semaphores_ptr + tile_number
    arrived = tl.atomic_add(semaphore, 1)
    input_index_0 = pid_0 * 64 + tl.arange(0, 64)
    input_index_1 = pid_1 * 64 + tl.arange(0, 64)
    mask = (input_index_0[:, None] < input_size_0) & (input_index_1[None, :] < input_size_1)
    if arrived == 1:
        tl.debug_barrier()
        accumulator_1 = tl.load(
            workspace_ptr + tile_number * 2 * 4096 + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :],
        )
        for other_part in range(1, 2):
            partial = tl.load(
                workspace_ptr
                + (other_part + tile_number * 2) * 4096
                + tl.arange(0, 64)[:, None] * 64
                + tl.arange(0, 64)[None, :],
            )
            accumulator_1 = accumulator_1 + partial
        input = tl.load(tl.broadcast_to(input_ptr + input_index_1[None, :], (64, 64)), mask=mask)
        output = tl.fma(beta, input.to(tl.float32), alpha * accumulator_1)
        output_desc.store([pid_0 * 64, pid_1 * 64], output.to(tl.float16))
        tl.store(semaphore, 0)
""",
        )


class TestWhatIsSplit:
    def program(self, application, *shapes):
        kernel = ninetoothed.make(mm.arrangement, application, tuple(Tensor(2) for _ in shapes))
        return traced(kernel, *(halves(*shape) for shape in shapes)).program

    def test_sums_of_tiles_from_zero(self):
        assert match(traced(mm.make(), halves(64, 512), halves(512, 64), halves(64, 64)).program)

    def test_not_what_is_no_sum(self):
        def scaled(input, other, output):
            total = ntl.zeros(output.shape, dtype=ntl.float32)
            for k in range(input.shape[0]):
                total = total * 2.0 + ntl.dot(input[k], other[k])
            output = total

        def started(input, other, output):
            total = ntl.full(output.shape, 1.0, dtype=ntl.float32)
            for k in range(input.shape[0]):
                total += ntl.dot(input[k], other[k])
            output = total

        def looked_at(input, other, output):
            total = ntl.zeros(output.shape, dtype=ntl.float32)
            for k in range(input.shape[0]):
                total += ntl.dot(input[k], other[k]) * ntl.max(total)
            output = total

        def read_and_written(input, other, output):
            total = ntl.zeros(output.shape, dtype=ntl.float32)
            for k in range(input.shape[0]):
                total += ntl.dot(input[k], other[k])
            output = total + output

        for application in (scaled, started, looked_at, read_and_written):
            assert match(self.program(application, (64, 512), (512, 64), (64, 64))) is None, application.__name__

    def test_not_attention(self):
        q = halves(1, 4, 128, 64)
        assert match(traced(sdpa.make(), q, q, q, q, 1.0, q, 0, False).program) is None


def test_buffers_and_programs():
    variant = traced(mm.make(), halves(100, 4096), halves(4096, 200), halves(100, 200))
    emitted = emit(variant.program, Schedule(sharing=SplitK(4)))
    sizes = dict(variant.selection.values)
    tiles = math.prod(emit(variant.program).programs(sizes))
    rows, columns, _ = variant.selection.schedule.blocks.values()
    assert emitted.programs(sizes) == (4 * tiles, 1, 1)
    assert [each.count.evaluate(sizes) for each in emitted.buffers] == [4 * tiles * rows * columns, tiles]


def test_compiled():
    pytest.importorskip("triton")
    kernel = mm.make()
    variant = traced(kernel, halves(2048, 4096), halves(4096, 2048), halves(2048, 2048))
    configuration = dataclasses.replace(variant.selection.schedule, sharing=SplitK(4))
    variant = dataclasses.replace(variant, selection=dataclasses.replace(variant.selection, schedule=configuration))
    compiled = executable.compile_for_gpu(kernel.definition, variant)
    assert compiled.emitted.buffers and not compiled.spills
    assert (
        "HGMMA" in disassembled(compiled) and "ATOM" in disassembled(compiled) and "UTMALDG" in disassembled(compiled)
    )


def test_parts_of_small_tiles_are_read_at_once():
    """Masks would keep their number, though it is known, from being that of a loop that is unrolled."""
    pytest.importorskip("triton")
    kernel = mm.make()
    variant = traced(kernel, halves(512, 8192), halves(8192, 512), halves(512, 512))
    chosen = variant.selection.schedule
    pattern = pattern_of(kernel.definition, variant.selection.specialisation)
    area = chosen.blocks[pattern.rows] * chosen.blocks[pattern.columns]
    assert isinstance(chosen.sharing, SplitK) and area <= 64 * 128
    vectors = area // (32 * chosen.num_warps) // 4
    assert (
        disassembled(executable.compile_for_gpu(kernel.definition, variant)).count("LDG.E.128")
        == chosen.sharing.parts * vectors
    )
