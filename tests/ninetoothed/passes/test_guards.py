"""Guards that go where they cannot fail: how that reads, and that loads are then made without asking."""

import re

import expecttest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import needs_triton


def add_one(input, output):
    output = input + 1


def add_one_to_second(input, output):
    output[1] = input[1] + 1


def kernel(arrange, application=add_one, **options):
    tensors = Tensor(1, **options), Tensor(1, **options)
    return ninetoothed.make(lambda *given: tuple(map(arrange, given)), application, tensors, kernel_name="add_one")


def blocks(size):
    return lambda tensor: tensor.tile((size,))


def blocks_of_blocks(tensor):
    return tensor.tile((16,)).tile((4,))


CONSTANT = {"shape_options": {"constexpr": True}}


def text(arrange, size, application=add_one, **options):
    source = kernel(arrange, application, **options).source(torch.empty(size), torch.empty(size), gpu=machine.H200).text
    return source[source.index("def add_one") :]


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_kept(self):
        self.assertExpectedInline(
            text(blocks(64), 1000),
            """\
def add_one(input_ptr, output_ptr, input_size_0):
    pid = tl.program_id(0)
    input_index = pid * 64 + tl.arange(0, 64)
    mask = input_index < input_size_0
    input = tl.load(input_ptr + input_index, mask=mask)
    output = input + 1.0
    tl.store(output_ptr + input_index, output, mask=mask)
""",
        )

    def test_proved_for_whole_blocks(self):
        """A size that is a multiple of 16, which is all of it that is known."""
        self.assertExpectedInline(
            text(blocks(16), 1600),
            """\
def add_one(input_ptr, output_ptr):
    pid = tl.program_id(0)
    input_index = pid * 16 + tl.arange(0, 16)
    input = tl.load(input_ptr + input_index)
    output = input + 1.0
    tl.store(output_ptr + input_index, output)
""",
        )

    def test_proved_for_sizes_that_are_known(self):
        self.assertExpectedInline(
            text(blocks(64), 1024, **CONSTANT),
            """\
def add_one(input_ptr, output_ptr):
    pid = tl.program_id(0)
    input_index = pid * 64 + tl.arange(0, 64)
    input = tl.load(input_ptr + input_index)
    output = input + 1.0
    tl.store(output_ptr + input_index, output)
""",
        )

    def test_implied_by_another(self):
        """That a block is one of all follows from that its elements are."""
        self.assertExpectedInline(
            text(blocks_of_blocks, 1000, add_one_to_second),
            """\
def add_one(input_ptr, output_ptr, input_size_0):
    pid = tl.program_id(0)
    input_index = pid * 64 + 16 + tl.arange(0, 16)
    mask = input_index < input_size_0
    input = tl.load(input_ptr + input_index, mask=mask)
    tl.store(output_ptr + input_index, input + 1.0, mask=mask)
""",
        )


@needs_triton
class TestCompiled:
    def guarded(self, size, **options):
        """Accesses to global memory that ask first."""
        own, arguments = kernel(blocks(64), **options), (torch.empty(size), torch.empty(size))
        variant = dispatch.Launcher(own.definition).trace(arguments, {}, machine.H200)
        return re.findall(r"@!?%p\d+ (?:ld|st)\.global", executable.compile_for_gpu(own.definition, variant).asm["ptx"])

    def test_no_access_asks(self):
        assert len(self.guarded(1000)) == 2
        assert not self.guarded(1024, **CONSTANT)
