"""Tiles left over after whole waves in quarters: how that reads, what is cut, and what is compiled.

That it is right is shown by `interpret_split_k`, and how many there are by `test_stream_k`.
"""

import dataclasses

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.backends.triton import emit
from ninetoothed.passes.remainder_subtile import subtile
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import Schedule, StreamK
from ninetoothed_ops.kernels import addmm, mm
from tests.machine_code.sass import disassembled


def halves(*shape):
    return torch.empty(*shape, dtype=torch.float16)


def traced(kernel, *arguments):
    return dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)


def square(n):
    return traced(mm.make(), *(halves(n, n) for _ in range(3)))


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def text(self, split):
        program = square(5120).program
        described = frozenset(parameter.name for parameter in program.parameters)
        text = emit(program, Schedule(use_tma=described, sharing=StreamK(132, split, 6))).source
        return text[text.index("    spare =") :]

    def test_alone(self):
        assert "ctas_per_tile = is_cut * tl.maximum(tl.minimum(33 // tl.maximum(spare, 1), 8), 1) * 4" in self.text(8)
        self.assertExpectedInline(
            self.text(1),
            """\
    spare = tiles % 132
    is_cut = tl.minimum(66 // tl.maximum(spare, 1), 1)
    ctas_per_tile = is_cut * tl.maximum(tl.minimum(33 // tl.maximum(spare, 1), 1), 1) * 4 + 1 - is_cut
    whole = tiles - spare
    beyond = tl.maximum(pid - whole, 0)
    parts = tl.minimum(ctas_per_tile, tl.maximum(pid + 1 - whole, 0) * 4 + 1)
    part = beyond % ctas_per_tile
    slot = beyond // ctas_per_tile
    tile = tl.minimum(pid, whole) + slot
    group_size = columns * 8
    first_row = tile // group_size * 8
    group_rows = tl.minimum(rows - first_row, 8)
    pid_0 = first_row + tile % group_size % group_rows
    pid_1 = tile % group_size // group_rows
    if parts > 1:
        if part % 2 * 128 + pid_1 * 256 < other_size_1:
            if part // 2 % 2 * 64 + pid_0 * 128 < input_size_0:
                accumulator = tl.zeros((64, 128), tl.float32)
                for k in tl.range(tl.cdiv(input_size_1, 64), num_stages=6):
                    input = input_desc.load([part // 2 % 2 * 64 + pid_0 * 128, k * 64])
                    other = other_desc.load([k * 64, part % 2 * 128 + pid_1 * 256])
                    accumulator = tl.dot(input, other, accumulator)
                output_desc.store(
                    [part // 2 % 2 * 64 + pid_0 * 128, part % 2 * 128 + pid_1 * 256],
                    accumulator.to(tl.float16),
                )
    else:
        accumulator_1 = tl.zeros((128, 256), tl.float32)
        for k in range(tl.cdiv(input_size_1, 64)):
            input = input_desc_1.load([pid_0 * 128, k * 64])
            other = other_desc_1.load([k * 64, pid_1 * 256])
            accumulator_1 = tl.dot(input, other, accumulator_1)
        output_desc_1.store([pid_0 * 128, pid_1 * 256], accumulator_1.to(tl.float16))
""",
        )


def test_what_is_added_to_a_sum_is_loaded_after_it():
    program = traced(addmm.make(), *(halves(5120, 5120),) * 3, 1.0, 1.0, halves(5120, 5120)).program
    described = frozenset(parameter.name for parameter in program.parameters)
    text = emit(program, Schedule(use_tma=described, sharing=StreamK(132, 1, 6))).source
    quarter = text[text.index("if parts > 1") : text.index("else:")]
    assert quarter.index("tl.dot(") < quarter.index("input_desc.load(")


class TestWhatIsCut:
    def is_cut(self, application, *shapes):
        kernel = ninetoothed.make(mm.arrangement, application, tuple(Tensor(2) for _ in shapes))
        program = traced(kernel, *(halves(*shape) for shape in shapes)).program
        return subtile(program, StreamK(132, 8, 6)) is not None

    def test_what_is_computed_element_by_element_after_a_sum(self):
        def activated(input, other, output):
            total = ntl.zeros(output.shape, dtype=ntl.float32)
            for k in range(input.shape[0]):
                total += ntl.dot(input[k] * 2.0, ntl.exp(other[k]))
            output = ntl.maximum(total, 0.0)

        assert self.is_cut(activated, (4096, 4096), (4096, 4096), (4096, 4096))

    def test_not_what_needs_a_whole_row_which_has_its_sum_in_parts(self):
        def normalised(input, other, output):
            total = ntl.zeros(output.shape, dtype=ntl.float32)
            for k in range(input.shape[0]):
                total += ntl.dot(input[k], other[k])
            output = total / ntl.sum(total, axis=1)[:, None]

        assert not self.is_cut(normalised, (4096, 4096), (4096, 4096), (4096, 4096))
        kernel = ninetoothed.make(mm.arrangement, normalised, (Tensor(2), Tensor(2), Tensor(2)))
        emitted = emit(
            traced(kernel, *(halves(5120, 5120),) * 3).program,
            Schedule(sharing=StreamK(132, 4, 6)),
        )
        assert [each.name for each in emitted.buffers] == ["workspace", "semaphores"]
        assert "num_stages=6" not in emitted.source

    def test_not_small_tiles(self):
        program = traced(mm.make(), halves(64, 64), halves(64, 64), halves(64, 64)).program
        assert subtile(program, StreamK(132, 8, 6)) is None


@pytest.mark.parametrize("kernel", ("mm", "addmm", "turned"))
def test_compiled(kernel):
    pytest.importorskip("triton")
    a = halves(5120, 5120)
    made, arguments = {
        "mm": (mm.make(), (a, a, a)),
        "addmm": (addmm.make(), (a, a, a, 0.5, 1.5, a)),
        "turned": (mm.make(), (a, a.mT, a)),
    }[kernel]
    variant = traced(made, *arguments)
    chosen = dataclasses.replace(variant.selection.schedule, sharing=StreamK(132, 8, 6))
    variant = dataclasses.replace(variant, selection=dataclasses.replace(variant.selection, schedule=chosen))
    compiled = executable.compile_for_gpu(made.definition, variant)

    sass = disassembled(compiled)
    assert not compiled.spills and all(name in sass for name in ("HGMMA", "UTMALDG", "ATOM"))
    # A whole tile, a quarter, and one of which the parts have met.
    assert sass.count("UTMASTG") >= 3
    # Each of the two loops commits a group of products a round: they are not waited for one by one.
    assert compiled.asm["ptx"].count("wgmma.commit_group") == 2
