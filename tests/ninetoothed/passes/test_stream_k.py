"""Tiles left over after whole waves: how many programs share them out, how that reads, and what is compiled.

That it is right is shown by `interpret_split_k`.
"""

import dataclasses

import expecttest
import pytest
import torch

from ninetoothed.backends.triton import emit
from ninetoothed.expr import const
from ninetoothed.passes.remainder import Remainder
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import Schedule, StreamK
from ninetoothed_ops.kernels import mm
from tests.machine_code.sass import disassembled


def traced(n):
    square = torch.empty(n, n, dtype=torch.float16)
    return dispatch.launcher_of(mm.make()).trace((square, square, square), {}, machine.H200)


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_four_parts(self):
        """Parts meet as those of split-K do: see `test_split_k`."""
        program = traced(5120).program
        described = frozenset(parameter.name for parameter in program.parameters)
        text = emit(program, Schedule(use_tma=described, sharing=StreamK(132, 4))).source
        self.assertExpectedInline(
            text[text.index("    spare =") : text.index("    workspace_index =")],
            """\
    spare = tiles % 132
    ctas_per_tile = tl.minimum(132 // tl.maximum(spare, 1), 4)
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
    accumulator = tl.zeros((128, 256), tl.float32)
    for k in range(
        tl.cdiv(input_size_1, 64) * part // parts,
        (tl.cdiv(input_size_1, 64) * part + tl.cdiv(input_size_1, 64)) // parts,
    ):
        input = input_desc.load([pid_0 * 128, k * 64])
        other = other_desc.load([k * 64, pid_1 * 256])
        accumulator = tl.dot(input, other, accumulator)
""",
        )


@pytest.mark.parametrize(
    "tiles, programs",
    [
        (0, 0),
        (132, 132),
        (133, 132 + 4),
        (132 + 33, 132 + 4 * 33),
        (132 + 34, 132 + 3 * 34),
        (5 * 132 + 66, 6 * 132),
        (5 * 132 + 67, 5 * 132 + 67),
    ],
)
def test_as_many_parts_as_still_run_at_once(tiles, programs):
    assert Remainder(const(tiles), tiles_per_wave=132, most_parts=4).programs == programs


@pytest.mark.parametrize(
    "tiles, programs",
    [
        (0, 0),
        (132, 132),
        (133, 132 + 4 * 8),
        (132 + 16, 132 + 4 * 2 * 16),
        (132 + 17, 132 + 4 * 17),
        (5 * 132 + 66, 5 * 132 + 4 * 66),
        (5 * 132 + 67, 5 * 132 + 67),
    ],
)
def test_quarters_have_parts_too_and_take_two_waves_at_most(tiles, programs):
    assert Remainder(const(tiles), tiles_per_wave=132, most_parts=8, subtiles=4).programs == programs


def test_memory_is_as_large_as_a_wave_whatever_the_sizes():
    emitted = emit(traced(5120).program, Schedule(sharing=StreamK(132, 4)))

    assert [each.count.constant for each in emitted.buffers] == [132 * 128 * 256, 132]


def test_compiled():
    pytest.importorskip("triton")
    variant = traced(5120)
    chosen = dataclasses.replace(variant.selection.schedule, sharing=StreamK(132, 4))
    variant = dataclasses.replace(variant, selection=dataclasses.replace(variant.selection, schedule=chosen))
    compiled = executable.compile_for_gpu(mm.make().definition, variant)

    sass = disassembled(compiled)
    assert not compiled.spills and all(name in sass for name in ("HGMMA", "UTMALDG", "UTMASTG", "ATOM"))
    # Parts are left and taken up by vectors, and both ways to end go through the copy engine.
    assert "STG.E.128" in sass and "LDG.E.128" in sass and sass.count("UTMASTG") == 2
