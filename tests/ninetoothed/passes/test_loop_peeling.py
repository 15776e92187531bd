"""Loops whose last round, which alone needs masks, is done apart: how that reads, when it is done, what it spares."""

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.passes import loop_peeling
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import conv2d, long_rows, mm
from tests.machine_code.sass import disassembled
from tests.ninetoothed.products import blocked


def empty(*shape, dtype=torch.float16):
    return torch.empty(shape, dtype=dtype)


def text(kernel, *arguments, gpu=machine.H200):
    source = kernel.source(*arguments, gpu=gpu).text
    return source[source.index("@triton.jit") :]


def chunks(input, output):
    return input.tile((64,)).tile((-1,)), output


def total(application, size=1001, dtype=torch.float16):
    kernel = ninetoothed.make(chunks, application, (Tensor(1), Tensor(0)), kernel_name="total")
    return text(kernel, empty(size, dtype=dtype), torch.empty(()))


def matrices(m, n, k, dtype=torch.float16):
    return empty(m, k, dtype=dtype), empty(k, n, dtype=dtype), empty(m, n, dtype=dtype)


def padded(m, n, k, dtype=torch.float16):
    """Matrices whose rows start at whole vectors, whatever their length."""
    return empty(m, k + 7, dtype=dtype)[:, :k], empty(k, n, dtype=dtype), empty(m, n, dtype=dtype)


def summed(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(input.shape[0]):
        total += ntl.sum(ntl.cast(input[i], ntl.float32))
    output = total


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_sum(self):
        self.assertExpectedInline(
            total(summed),
            """\
@triton.jit
def total(input_ptr, output_ptr, input_size_0):
    total_1 = tl.full((), 0.0, tl.float32)
    input_offsets = tl.arange(0, 64)
    for i in range(input_size_0 // 64):
        input = tl.load(input_ptr + i * 64 + input_offsets)
        total_1 = total_1 + tl.sum(input.to(tl.float32))
    for i in tl.range(input_size_0 // 64, tl.cdiv(input_size_0, 64), num_stages=1):
        input = tl.load(input_ptr + i * 64 + input_offsets, mask=tl.arange(0, 64) < input_size_0 - i * 64, other=0.0)
        total_1 = total_1 + tl.sum(input.to(tl.float32))
    tl.store(output_ptr, total_1)
""",
        )

    def test_product(self):
        tensors = Tensor(2), Tensor(2), Tensor(2)
        kernel = ninetoothed.make(blocked(64, 128, 32), mm.application, tensors, kernel_name="product")
        source = text(kernel, *matrices(4095, 4095, 4095))
        self.assertExpectedInline(
            source[source.index("    for") : source.index("    tl.store")],
            """\
    for k in range(input_size_1 // 32):
        input = tl.load(input_ptr + k * 32 + input_offsets, mask=input_index_0[:, None] < input_size_0, other=0.0)
        other = tl.load(
            other_ptr + k * 32 * other_stride_0 + other_offsets,
            mask=other_index_1[None, :] < other_size_1,
            other=0.0,
        )
        accumulator = tl.dot(input, other, accumulator)
    for k in tl.range(input_size_1 // 32, tl.cdiv(input_size_1, 32), num_stages=1):
        input = tl.load(
            input_ptr + k * 32 + input_offsets,
            mask=(input_index_0[:, None] < input_size_0) & (tl.arange(0, 32)[None, :] < input_size_1 - k * 32),
            other=0.0,
        )
        other = tl.load(
            other_ptr + k * 32 * other_stride_0 + other_offsets,
            mask=(other_index_1[None, :] < other_size_1) & (tl.arange(0, 32)[:, None] < input_size_1 - k * 32),
            other=0.0,
        )
        accumulator = tl.dot(input, other, accumulator)
""",
        )


def printing(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(input.shape[0]):
        print(i)
        total += ntl.sum(ntl.cast(input[i], ntl.float32))
    output = total


def branching(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(input.shape[0]):
        if i > 2:
            total += ntl.sum(ntl.cast(input[i], ntl.float32))
    output = total


def few(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(min(input.shape[0], 3)):
        total += ntl.sum(ntl.cast(input[i], ntl.float32))
    output = total


def long(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(input.shape[0]):
        x = ntl.cast(input[i], ntl.float32)
        for _ in ntl.static_range(80):
            x = ntl.sin(x)
        total += ntl.sum(x)
    output = total


def hinted(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in ntl.range(input.shape[0], num_stages=4):
        total += ntl.sum(ntl.cast(input[i], ntl.float32))
    output = total


def is_peeled(source):
    return source.count(" for ") == 2


class TestWhichLoops:
    def test_of_a_length_that_may_be_anything(self):
        assert is_peeled(total(summed))
        assert not is_peeled(total(summed, 1000))
        assert not is_peeled(total(summed, 1024))

    @pytest.mark.parametrize("application", (printing, branching, few, long))
    def test_whose_bodies_are_worth_repeating(self, application):
        assert not is_peeled(total(application))

    def test_hints_are_for_the_first(self):
        lines = [line.strip() for line in total(hinted).splitlines() if " for " in line]
        assert lines == [
            "for i in tl.range(input_size_0 // 64, num_stages=4):",
            "for i in tl.range(input_size_0 // 64, tl.cdiv(input_size_0, 64), num_stages=1):",
        ]

    def test_of_products(self):
        kernel = mm.make()
        assert is_peeled(text(kernel, *padded(1000, 1000, 1001), gpu=machine.A100))
        assert is_peeled(text(kernel, *padded(1000, 1000, 1001, torch.float32)))
        assert is_peeled(text(kernel, *matrices(128, 128, 999)))  # `other` through a descriptor
        # Through descriptors, in whole vectors, or four bytes at a time whatever the mask.
        assert not is_peeled(text(kernel, *matrices(1000, 1000, 1000)))
        assert not is_peeled(text(kernel, *matrices(1000, 1000, 1000), gpu=machine.A100))
        assert not is_peeled(text(kernel, *matrices(1000, 1000, 1000, torch.float32)))
        assert not is_peeled(text(kernel, *matrices(1001, 1001, 1001, torch.float32)))

    def test_of_as_many_rounds_as_are_known_when_compiling(self):
        image, weight, bias = empty(2, 100, 30, 30), empty(100, 100, 3, 3), empty(100)
        assert not is_peeled(text(conv2d.make(), image, weight, bias, empty(2, 100, 28, 28), True))


@pytest.fixture
def both(monkeypatch):
    """A kernel compiled without and with the pass, for an H200 that need not be there."""
    pytest.importorskip("triton")
    from tests.ninetoothed_ops.kernels.test_hopper import compiled

    def compiled_both(kernel, *arguments, **configuration):
        with monkeypatch.context() as patch:
            patch.setattr(loop_peeling, "MOST_OPERATIONS", 0)
            masked = compiled(kernel, arguments, patch, **configuration)
        return masked, compiled(kernel, arguments, monkeypatch, **configuration)

    return compiled_both


@pytest.fixture
def tf32():
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(precision)


def lengths(kernel):
    """The instructions of each loop, those that multiply matrices apart."""
    from tests.ninetoothed_ops.kernels.test_hopper import loops

    found = list(loops(disassembled(kernel)))
    return [length for length, _ in found], [length for length, products in found if products]


class TestCompiled:
    """Instructions of a round that is not the last."""

    def test_products_of_halves_at_odd_places(self, both):
        tile = {"blocks": (64, 128, 128), "num_warps": 4, "num_stages": 4}
        masked, bare = both(mm.make(), *matrices(1000, 1000, 1001), **tile)
        (_, (before, *_)), (_, (after, *_)) = lengths(masked), lengths(bare)
        assert after < 0.8 * before and bare.spills <= masked.spills

    def test_products_of_float32_are_copied_in_vectors_again(self, both, tf32):
        tile = {"blocks": (64, 128, 64), "num_warps": 4, "num_stages": 4}
        masked, bare = both(mm.make(), *padded(1000, 1000, 1001, torch.float32), **tile)
        assert "LDGSTS.E.BYPASS.128" in disassembled(bare) and "LDGSTS.E.BYPASS.128" not in disassembled(masked)
        (_, (before, *_)), (_, (after, *_)) = lengths(masked), lengths(bare)
        assert after < 0.65 * before

    @pytest.mark.parametrize("name", ("softmax", "rms_norm"))
    def test_rows(self, name, both):
        x = empty(64, 131075)
        arguments = (x, x) if name == "softmax" else (x, empty(131075), 1e-6, x, True)
        masked, bare = both(getattr(long_rows, f"make_{name}")(), *arguments, num_warps=16)
        ((first, second, *_), _), ((bare_first, _, bare_second, *_), _) = lengths(masked), lengths(bare)
        assert bare_first < first and bare_second < second and not bare.spills
