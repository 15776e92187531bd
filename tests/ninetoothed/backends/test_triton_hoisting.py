"""Loops out of which nothing is hoisted. That ptxas then serializes no products is seen in `test_loops`."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.backends.triton import emit
from ninetoothed.passes import Target
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import DataParallel, Persistent, Schedule
from ninetoothed_ops.kernels import mm, sdpa


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


def loops(kernel, *arguments, persistent=False, target=None):
    program = dispatch.Launcher(kernel.definition).trace(arguments, {}, machine.H200).program
    described = frozenset(parameter.name for parameter in program.parameters)
    text = emit(
        program, Schedule(use_tma=described, sharing=Persistent(132) if persistent else DataParallel()), target
    ).source
    return [line for line in text.splitlines() if "for " in line]


SQUARE = halves(1024, 1024)


def test_of_products_whose_second_operand_is_turned():
    (turned,) = loops(mm.make(), SQUARE, SQUARE.mT, SQUARE)

    assert turned.strip() == "for k in tl.range(tl.cdiv(input_size_1, 128), disable_licm=True):"


@pytest.mark.parametrize("lhs", (SQUARE, SQUARE.mT), ids=("dense", "turned"))
def test_not_of_others(lhs):
    assert "disable_licm" not in "".join(loops(mm.make(), lhs, SQUARE, SQUARE))


def test_turned_in_the_application():
    def arrangement(input, weight, output):
        return mm.arrangement(input, weight.permute((1, 0)), output)

    def turned_back(input, weight, output):
        total = ntl.zeros(output.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(input[k], ntl.trans(ntl.trans(weight[k])))
        output = total

    kernel = ninetoothed.make(arrangement, turned_back, (Tensor(2), Tensor(2), Tensor(2)))
    assert "disable_licm" in "".join(loops(kernel, SQUARE, SQUARE, SQUARE))


def test_not_of_loops_over_tiles_nor_of_attention():
    q, mask = halves(1, 4, 1024, 64), halves(1).expand(1, 4, 1024, 1024)

    assert "disable_licm" not in "".join(loops(mm.make(), SQUARE, SQUARE.mT, SQUARE, persistent=True))
    assert "disable_licm" not in "".join(loops(sdpa.make(), q, q, q, mask, 0.125, q, sdpa.NO_MASK, False))


def test_not_without_wgmma():
    target = Target(architecture=100, has_wgmma=False)
    assert "disable_licm" not in "".join(loops(mm.make(), SQUARE, SQUARE.mT, SQUARE, target=target))
