"""Where multiples of 8 are told apart, and that elements are then read and written 16 bytes at once."""

import re

import expecttest
import pytest
import torch

import ninetoothed
from ninetoothed import Tensor, block_size
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.compilation.compile import compile_kernel
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.specialise_plan import source_dimensions
from ninetoothed_ops.kernels import long_rows, mm, rms_norm, silu, softmax
from tests.conftest import needs_triton
from tests.ninetoothed.runtime.definitions import BLOCK

HALF, FLOAT = torch.float16, torch.float32


def sizes_along(tensor, dim):
    return {name for name in source_dimensions(tensor.arrangement)[dim].names if "size" in name}


def test_what_a_dimension_depends_on():
    x, other = Tensor(3, name="x"), Symbol("y_size_0")
    assert sizes_along(x.tile((1, 1, -1)), 2) == {"x_size_2"}
    assert sizes_along(x.flatten(end_dim=-1).tile((1, -1)), 2) == {"x_size_2"}
    assert sizes_along(x.permute((2, 0, 1)).tile((BLOCK, 1, 4)), 2) == {"x_size_2"}
    assert sizes_along(x.flatten().tile((BLOCK,)), 1) == {"x_size_1", "x_size_2"}
    assert sizes_along(x.tile((1, 1, other)), 2) == {"x_size_2", "y_size_0"}
    assert sizes_along(x[..., other:].tile((1, 1, -1)), 2) == {"x_size_2", "y_size_0"}


def half_divisible(kernel, *arguments):
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)
    divisors = variant.selection.specialisation.divisors
    return {name.removeprefix("ninetoothed_") for name, divisor in divisors if divisor == 8}


def empty(*shape, dtype=HALF):
    return torch.empty(shape, dtype=dtype)


def twice(x, y):
    y = x + x


def make_twice(arrange, ndim=2):
    tensors = (Tensor(ndim, name="x"), Tensor(ndim, name="y"))
    return ninetoothed.make(lambda x, y: (arrange(x), arrange(y)), twice, tensors)


def blocks():
    size = block_size()
    return lambda tensor: tensor.tile((1, size))


def flat():
    size = block_size()
    return lambda tensor: tensor.flatten().tile((size,))


class TestWhatIsToldApart:
    def test_lengths_and_strides_of_rows_but_not_how_many(self):
        kernel = make_twice(blocks())
        rows = {"x_size_1", "x_stride_0", "y_stride_0"}
        assert half_divisible(kernel, empty(24, 1000), empty(24, 1000)) == rows
        assert half_divisible(kernel, empty(24, 1001), empty(24, 1001)) == set()
        assert half_divisible(kernel, empty(24, 2001)[:, :1000], empty(24, 1000)) == {"x_size_1", "y_stride_0"}

    def test_of_columns_what_lies_side_by_side(self):
        kernel = make_twice(blocks())
        columns = {"x_size_0", "x_stride_1", "y_stride_1"}
        assert half_divisible(kernel, empty(1000, 32).t(), empty(1000, 32).t()) == set()
        assert half_divisible(kernel, empty(32, 1000).t(), empty(32, 1000).t()) == columns

    def test_nothing_where_no_elements_lie_side_by_side(self):
        assert half_divisible(make_twice(blocks()), *(empty(24, 2000)[:, ::2] for _ in range(2))) == set()

    def test_of_what_is_flattened_the_inner_size(self):
        kernel = make_twice(flat())
        assert half_divisible(kernel, empty(24, 1001), empty(24, 1001)) == set()
        assert half_divisible(kernel, empty(24, 1000), empty(24, 1000)) == {"x_size_1"}
        assert half_divisible(kernel, empty(24, 1008), empty(24, 1008)) == set()


def instructions(kernel, *arguments, unaligned=()):
    """The accesses to global memory in the machine code for an H200, each once."""
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200)
    aligned = frozenset(parameter.name for parameter in variant.program.parameters) - set(unaligned)
    configuration = variant.selection.schedule
    text = executable.emitted_for(variant)
    compiled = compile_kernel(text, machine.H200, configuration.num_warps, configuration.num_stages, aligned)
    return set(re.findall(r"\b(?:ld|st)\.global\S*\.b\d+", compiled.asm["ptx"]))


WHOLE = {"ld.global.v4.b32", "st.global.v4.b32"}


@needs_triton
@pytest.mark.parametrize("dtype", (HALF, FLOAT), ids=("half", "float"))
class TestMachineCode:
    @pytest.mark.parametrize("columns", (1000, 1016))
    def test_rows(self, columns, dtype):
        x, w = empty(4096, columns, dtype=dtype), empty(columns, dtype=dtype)
        assert instructions(rms_norm.make(2), x, w, 1e-6, x, True) == WHOLE
        assert instructions(softmax.make(2), x, x) == WHOLE

    @pytest.mark.parametrize("columns", (24, 40, 72, 136))
    def test_short_rows_side_by_side(self, columns, dtype):
        x = empty(40000, columns, dtype=dtype)
        assert instructions(softmax.make(2), x, x) == WHOLE

    def test_rows_too_long_for_a_tile(self, dtype):
        x, w = empty(512, 40008, dtype=dtype), empty(40008, dtype=dtype)
        assert instructions(long_rows.make_softmax(2), x, x) == WHOLE
        assert instructions(long_rows.make_rms_norm(2), x, w, 1e-6, x, True) == WHOLE

    def test_elements(self, dtype):
        x, part = empty(41000, dtype=dtype), empty(4096, 2008, dtype=dtype)[:, :1000]
        assert instructions(silu.make(1), x, x) == WHOLE
        assert instructions(silu.make(2), part, part) == WHOLE

    def test_a_users_own(self, dtype):
        x = empty(4096, 1000, dtype=dtype)
        assert instructions(make_twice(blocks()), x, x) == WHOLE
        assert instructions(make_twice(flat()), x, x) == WHOLE

    @pytest.mark.parametrize("shape", ((4, 1000, 24), (3, 5, 7, 1000), (1000, 1, 24), (64, 3, 5)), ids=str)
    def test_a_users_own_in_more_dimensions(self, shape, dtype):
        x = empty(*shape, dtype=dtype)
        assert instructions(make_twice(flat(), x.ndim), x, x) == WHOLE

    def test_only_of_memory_that_is_aligned(self, dtype):
        x = empty(4096, 1000, dtype=dtype)
        element = f"ld.global.b{8 * x.itemsize}"
        assert instructions(make_twice(blocks()), x, x, unaligned="x") == {element, "st.global.v4.b32"}

    def test_lengths_that_are_no_multiples_of_8(self, dtype):
        x = empty(4096, 1001, dtype=dtype)
        assert not instructions(softmax.make(2), x, x) & WHOLE


@needs_triton
def test_products_of_floats():
    x = empty(1000, 1000, dtype=FLOAT)
    assert instructions(mm.make(), x, x, x) == {"st.global.v4.b32"}, "operands are copied 16 bytes at once, too"


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_tiles_of_8_need_no_mask(self):
        text = make_twice(lambda tensor: tensor.tile((1, 8))).source(empty(24, 1000), empty(24, 1000), gpu=machine.H200)
        self.assertExpectedInline(
            text.text[text.text.index("@triton.jit") :],
            """\
@triton.jit
def twice(x_ptr, y_ptr, x_stride_0, y_stride_0):
    pid_0 = tl.program_id(1)
    pid_1 = tl.program_id(0)
    x_index_1 = pid_1 * 8 + tl.arange(0, 8)
    x = tl.load(x_ptr + pid_0 * x_stride_0 + x_index_1[None, :])
    y = x + x
    tl.store(y_ptr + pid_0 * y_stride_0 + x_index_1[None, :], y)
""",
        )
