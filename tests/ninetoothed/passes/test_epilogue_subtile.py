"""The end of a product in two subtiles: that it takes half the shared memory. See `test_triton_descriptors`."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, passes
from ninetoothed.backends.triton import emit
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import Persistent, Schedule
from ninetoothed_ops.kernels import mm


def square():
    return torch.empty(4096, 4096, dtype=torch.float16)


def persistent(arrangement, application, *arguments):
    """The text of a kernel whose programs take tile after tile."""
    kernel = ninetoothed.make(arrangement, application, tuple(Tensor(each.ndim) for each in arguments))
    program = dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200).program
    described = frozenset(parameter.name for parameter in program.parameters)
    emitted = emit(program, Schedule(use_tma=described, sharing=Persistent(132)))
    assert emitted.persistent
    return emitted.source


def test_a_vector_from_before_the_loop():
    def arrangement(input, other, bias, output):
        input, other, output = mm.arrangement(input, other, output)
        return input, other, bias.tile((mm.BLOCK_SIZE_N,)).unsqueeze(0).expand((output.shape[0], -1)), output

    def application(input, other, bias, output):
        doubled = bias * 2.0
        total = ntl.zeros(output.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(input[k], other[k])
        output = total + doubled[None, :]

    text = persistent(arrangement, application, square(), square(), torch.empty(4096, dtype=torch.float16), square())
    assert text.count("output_desc.store") == text.count("tl.split") == 2


def test_a_sum_that_is_turned_stays_whole():
    def application(input, other, output):
        total = ntl.zeros((output.shape[1], output.shape[0]), dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(ntl.trans(other[k]), ntl.trans(input[k]))
        output = ntl.trans(total)

    text = persistent(mm.arrangement, application, square(), square(), square())
    assert text.count("output_desc.store") == 1 and "tl.split" not in text


def test_compiled(monkeypatch):
    pytest.importorskip("triton")
    from tests.ninetoothed_ops.kernels.test_hopper import compiled

    square = torch.empty(4096, 4096, dtype=torch.float16)
    in_two = compiled(mm.make(), (square, square, square))
    others = tuple(each for each in passes.GPU if each.name != "epilogue_subtile")
    monkeypatch.setattr(passes, "GPU", others)
    whole = compiled(mm.make(), (square, square, square))
    assert in_two.emitted.persistent and whole.emitted.persistent
    assert in_two.emitted.source.count("output_desc.store") == 2 * whole.emitted.source.count("output_desc.store")
    assert whole.shared - in_two.shared == 128 * 256 * 2 // 2
