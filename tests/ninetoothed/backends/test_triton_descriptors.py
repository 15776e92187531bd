"""Descriptors, persistent programs and halved epilogues: which accesses, and how they read."""

import expecttest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.backends.triton import emit
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import DataParallel, Persistent, Schedule
from ninetoothed_ops.kernels import addmm, bmm, linear_swiglu, mm


def halves(*shape, dtype=torch.float16):
    return torch.empty(shape, dtype=dtype)


def emitted(kernel, *arguments, persistent=False, without=()):
    """Where all addresses but those of `without` are aligned."""
    program = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200).program
    described = frozenset(parameter.name for parameter in program.parameters) - {*without}
    return emit(program, Schedule(use_tma=described, sharing=Persistent(132) if persistent else DataParallel()))


def body(text):
    """What follows the number of the tile."""
    return text.source[text.source.index(" = tl.zeros(") :].partition("\n")[2]


def described(*arguments, kernel=None, **options):
    """The parameters that a product accesses through descriptors."""
    kernel = kernel or mm.make()
    return {argument.source for argument in emitted(kernel, *arguments, **options).descriptors}


def square(n, **options):
    return tuple(halves(n, n, **options) for _ in range(3))


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_weights_side_by_side(self):
        """One descriptor has both, and no mask is left: what is past their end is not stored."""
        self.assertExpectedInline(
            body(emitted(linear_swiglu.make(), halves(4096, 4096), halves(2, 4096, 4096), halves(4096, 4096))),
            """\
    for k in range(tl.cdiv(input_size_1, 64)):
        weights = weights_desc.load([0, pid_1 * 128, k * 64])
        permute = tl.trans(tl.reshape(weights, (256, 64)))
        input = input_desc.load([pid_0 * 128, k * 64])
        total = tl.dot(input, permute, total)
    gate, up = tl.split(tl.permute(tl.reshape(total, (128, 2, 128)), (0, 2, 1)))
    cast = gate.to(tl.float16)
    activated = (cast.to(tl.float32) * tl.sigmoid(cast.to(tl.float32))).to(tl.float16)
    output = activated.to(tl.float32) * up.to(tl.float16).to(tl.float32)
    output_desc.store([pid_0 * 128, pid_1 * 128], output.to(tl.float16))
""",
        )

    def test_turned_operands(self):
        a, b, c = square(4096)
        self.assertExpectedInline(
            body(emitted(mm.make(), a, b.mT, c.mT)),
            """\
    for k in tl.range(tl.cdiv(input_size_1, 64), disable_licm=True):
        input = input_desc.load([pid_0 * 128, k * 64])
        other = tl.trans(other_desc.load([pid_1 * 256, k * 64]))
        accumulator = tl.dot(input, other, accumulator)
    output_desc.store([pid_1 * 256, pid_0 * 128], tl.trans(accumulator.to(tl.float16)))
""",
        )

    def test_batches_and_what_is_not_aligned(self):
        arguments = (halves(4, 2048, 2048), halves(4, 2048, 2048), halves(4, 2048, 2048))
        self.assertExpectedInline(
            body(emitted(bmm.make(), *arguments, without=("output",))),
            """\
    for k in range(tl.cdiv(input_size_2, 64)):
        input = tl.reshape(input_desc.load([pid_0, pid_1 * 128, k * 64]), (128, 64))
        other = tl.reshape(other_desc.load([pid_0, k * 64, pid_2 * 256]), (64, 256))
        accumulator = tl.dot(input, other, accumulator)
    output_index_1 = pid_1 * 128 + tl.arange(0, 128)
    output_index_2 = pid_2 * 256 + tl.arange(0, 256)
    tl.store(
        output_ptr + pid_0 * output_stride_0 + output_index_1[:, None] * output_stride_1 + output_index_2[None, :],
        accumulator.to(tl.float16),
        mask=(output_index_1[:, None] < input_size_1) & (output_index_2[None, :] < other_size_2),
    )
""",
        )


class TestWhichAccesses:
    def test_rows_of_whole_16_bytes(self):
        assert described(*square(4096)) == {"input", "other", "output"}
        assert described(*square(4104)) == {"input", "other", "output"}
        assert described(*square(1000, dtype=torch.bfloat16)) == {"input", "other", "output"}
        assert described(*square(4095)) == described(*square(4100)) == set()

    def test_slices(self):
        a, b, c = square(4096)
        assert described(halves(4096, 4104)[:, :4096], b, c) == {"input", "other", "output"}
        assert described(halves(4096, 4100)[:, :4096], b, c) == {"other", "output"}
        assert described(halves(4096, 8192)[:, ::2], b, c) == {"other", "output"}

    def test_addresses(self):
        assert described(*square(4096), without=("other",)) == {"input", "output"}

    def test_float32_is_left_to_the_threads(self):
        assert described(*square(4096, dtype=torch.float32)) == set()

    def test_what_is_repeated_or_padded_otherwise(self):
        _, a, b = square(4096)
        bias, c = halves(4096).expand(4096, 4096), halves(4096, 4096)
        assert described(bias, a, b, 1.0, 1.0, c, kernel=addmm.make()) == {"mat1", "mat2", "output"}
        ones = ninetoothed.make(mm.arrangement, mm.application, (Tensor(2, other=1), Tensor(2), Tensor(2)))
        assert described(a, b, c, kernel=ones) == {"other", "output"}

    def test_what_is_read_and_written(self):
        def arrangement(input, other, output):
            return mm.arrangement(input, other, output)

        def accumulate(input, other, output):
            accumulator = ntl.cast(output, ntl.float32)
            for k in range(input.shape[0]):
                accumulator += ntl.dot(input[k], other[k])
            output = accumulator

        kernel = ninetoothed.make(arrangement, accumulate, tuple(Tensor(2) for _ in range(3)))
        assert described(*square(4096), kernel=kernel) == {"input", "other"}
        assert not emitted(kernel, *square(4096), persistent=True).persistent

    def test_only_where_asked_for(self):
        assert not emit(dispatch.launcher_of(mm.make()).trace(square(4096), {}, machine.H200).program).descriptors


def test_how_many_programs():
    text = emitted(mm.make(), *square(4096), persistent=True)
    sizes = {name: 4096 for axis in text.grid for extent in axis for name in extent.variables}
    assert [text.programs(sizes, most)[0] for most in (None, 132, 1000)] == [32 * 16, 132, 512]
    assert emitted(mm.make(), *square(4096)).programs(sizes, 132) == (512, 1, 1)
