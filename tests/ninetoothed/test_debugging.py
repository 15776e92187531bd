"""`simulate_arrangement`: which element each program sees, without a GPU."""

import doctest
import functools

import pytest
import torch

from ninetoothed import Symbol, Tensor, debugging
from ninetoothed.debugging import simulate_arrangement
from ninetoothed.errors import ArrangementError
from ninetoothed_ops.kernels import bmm, mm


def pairs(x):
    return x.tile((2,))


def product(input, other, output, scale, BLOCK=2):
    arranged = output.tile((BLOCK, BLOCK))
    input = input.tile((BLOCK, BLOCK)).tile((1, -1)).expand((-1, arranged.shape[1]))
    input.dtype = input.dtype.squeeze(0)
    return input, scale, arranged


def test_a_product():
    tensors = (Tensor(shape=(3, 5)), Tensor(shape=(5, 4)), Tensor(shape=(3, 4)), Tensor(0))
    sources, targets = simulate_arrangement(product, tensors)
    for source, count in zip(sources, (15, 1, 12), strict=True):
        assert torch.equal(source.flatten(), torch.arange(count))
    assert [tuple(source.shape) for source in sources] == [(3, 5), (), (3, 4)]
    # Two rows and two columns of programs; those of a row see the same three tiles, and the last ends early.
    first = [[[0, 1], [5, 6]], [[2, 3], [7, 8]], [[4, -1], [9, -1]]]
    last = [[[10, 11], [-1, -1]], [[12, 13], [-1, -1]], [[14, -1], [-1, -1]]]
    assert targets[0].tolist() == [first, first, last, last]
    assert targets[1].tolist() == 0
    assert targets[2].tolist() == [[[0, 1], [4, 5]], [[2, 3], [6, 7]], [[8, 9], [-1, -1]], [[10, 11], [-1, -1]]]


@pytest.mark.parametrize("kernel, shapes", ((mm, ((3, 5), (5, 4), (3, 4))), (bmm, ((2, 3, 5), (2, 5, 4), (2, 3, 4)))))
def test_it_agrees_with_eval(kernel, shapes):
    blocks = dict.fromkeys((mm.BLOCK_SIZE_M, mm.BLOCK_SIZE_N, mm.BLOCK_SIZE_K), 2)

    def arrangement(*tensors):
        return tuple(each.subs(blocks) for each in kernel.arrangement(*tensors))

    tensors = [Tensor(shape=shape) for shape in shapes]
    _, targets = simulate_arrangement(arrangement, tensors)
    for arranged, target in zip(arrangement(*tensors), targets, strict=True):
        assert torch.equal(target, torch.from_numpy(arranged.flatten().eval()))


def test_no_programs_and_one():
    def one(x):
        return x.tile((-1, 2)).squeeze(0)[0]

    assert simulate_arrangement(one, (Tensor(shape=(2, 3)),))[1][0].tolist() == [[[0, 1], [3, 4]]]
    empty = simulate_arrangement(lambda x: x.tile((2, 4)), (Tensor(shape=(0, 3)),))[1][0]
    assert empty.shape == (0, 2, 4)


def test_on_the_device_that_is_asked_for():
    tensors = (Tensor(shape=(4,)),)
    for found in simulate_arrangement(pairs, tensors, device="meta"):
        assert found[0].device.type == "meta"
    with torch.device("meta"):
        assert simulate_arrangement(pairs, tensors)[1][0].device.type == "meta"
    assert simulate_arrangement(pairs, tensors)[1][0].dtype == torch.int64


def test_mistakes():
    with pytest.raises(ArrangementError, match=r"has no numbers for B, x_size_0; give `Tensor\(shape=\(4, 8\)\)`"):
        simulate_arrangement(lambda x: x.tile((Symbol("B"),)), (Tensor(1, name="x"),))
    with pytest.raises(ArrangementError, match="the arrangement returns None; let it return"):
        simulate_arrangement(lambda x: None, (Tensor(1),))
    with pytest.raises(ArrangementError, match="the tile size of dimension 0 is 0"):
        simulate_arrangement(functools.partial(product, BLOCK=0), [Tensor(shape=(2, 2))] * 4)


def test_examples():
    found = doctest.testmod(debugging)
    assert found.attempted >= 2 and not found.failed
