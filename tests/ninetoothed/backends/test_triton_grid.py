"""Programs counted along the axes of a launch: how that reads, when it is done, and how many are launched."""

import expecttest
import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import mm


def arrangement(x, y):
    tiles = (*(1 for _ in range(x.ndim - 1)), 64)
    return x.tile(tiles), y.tile(tiles)


def application(x, y):
    y = x


def copy(ndim):
    """With warps of the user's own: rows are then not done side by side."""
    tensors = (Tensor(ndim), Tensor(ndim))
    return ninetoothed.make(arrangement, application, tensors, num_warps=1, kernel_name="copy")


def both(*shape):
    """An input and an output of which no two dimensions can be taken for one."""
    return tuple(torch.empty_strided(shape, torch.empty([n + 1 for n in shape]).stride()) for _ in range(2))


def emitted(kernel, *arguments):
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)
    values = dict(variant.selection.values)
    return executable.emitted_for(variant), values


def is_spread(text):
    return len(text.grid) > 1


def indices(text):
    """The lines that say which program is which."""
    return "".join(f"{line.strip()}\n" for line in text.source.splitlines() if "program_id" in line or "outer" in line)


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_two_axes(self):
        self.assertExpectedInline(
            indices(emitted(copy(2), *both(70, 200))[0]),
            """\
pid_0 = tl.program_id(1)
pid_1 = tl.program_id(0)
""",
        )

    def test_three_axes(self):
        self.assertExpectedInline(
            indices(emitted(copy(3), *both(7, 70, 200))[0]),
            """\
pid_0 = tl.program_id(2)
pid_1 = tl.program_id(1)
pid_2 = tl.program_id(0)
""",
        )

    def test_more_axes_share_the_third(self):
        self.assertExpectedInline(
            indices(emitted(copy(5), *both(2, 3, 7, 70, 200))[0]),
            """\
outer = tl.program_id(2)
pid_0 = outer // (x_size_1 * x_size_2)
pid_1 = outer // x_size_2 % x_size_1
pid_2 = outer % x_size_2
pid_3 = tl.program_id(1)
pid_4 = tl.program_id(0)
""",
        )


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((200,), (4, 1, 1)), ((70, 200), (4, 70, 1)), ((7, 70, 200), (4, 70, 7)), ((2, 3, 7, 70, 200), (4, 70, 42))],
)
def test_how_many_are_launched(shape, expected):
    text, values = emitted(copy(len(shape)), *both(*shape))
    assert text.programs(values) == expected and is_spread(text) == (len(shape) > 1)


def test_one_along_an_axis_takes_none_of_the_launch():
    text, values = emitted(copy(4), *both(7, 1, 70, 200))
    assert text.programs(values) == (4, 70, 7)


def test_more_than_a_launch_has_along_its_outer_axes():
    for shape, fits in (((65535, 2), True), ((65536, 2), False), ((256, 256, 2), False), ((2, 2**20), True)):
        text, values = emitted(copy(len(shape)), *both(*shape))
        assert is_spread(text) == fits and ("tl.program_id(1)" in text.source) == fits, shape
        assert fits or text.programs(values) == (65536, 1, 1)


def test_grouped_programs_are_counted_along_one_axis():
    text, values = emitted(mm.make(), *(torch.empty(1024, 1024, dtype=torch.float16) for _ in range(3)))
    assert not is_spread(text) and text.programs(values)[1:] == (1, 1)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(16, 28672, 4096), (28672, 16, 4096), (16, 2048, 28672)])
def test_one_row_of_tiles_needs_no_groups(rows, columns, depth):
    shapes = ((rows, depth), (columns, depth), (rows, columns))
    lhs, rhs, output = (torch.empty(shape, dtype=torch.float16) for shape in shapes)
    text, values = emitted(mm.make(), lhs, rhs.t(), output)
    parts = dispatch.launcher_of(mm.make()).trace((lhs, rhs.t(), output), {}, machine.H200).selection.schedule.parts
    across, along, outer = text.programs(values)
    assert is_spread(text) and 1 in (across, along) and outer == parts
    assert (parts > 1) == (depth > 4096) and ("program_id(2)" in text.source) == (parts > 1)
    assert "group_rows" not in text.source
