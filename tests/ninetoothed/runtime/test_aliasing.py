"""Outputs that share memory with other elements of an argument are refused, in every call; in place is not."""

import pytest
import torch

import ninetoothed
from ninetoothed import ArgumentError, Tensor
from tests.conftest import DEVICE


def kernel(ndim=1, count=2):
    def application(x, y):
        y = x + 1

    def third(x, unused, y):
        y = x + 1

    def arrangement(*tensors):
        return tuple(tensor.tile((4,) * tensor.ndim) for tensor in tensors)

    tensors = tuple(Tensor(ndim) for _ in range(count))
    return ninetoothed.make(arrangement, application if count == 2 else third, tensors)


def square():
    return torch.randn(8, 8, device=DEVICE)


REFUSED = {
    "shifted": lambda m: (m.view(-1)[:-1], m.view(-1)[1:]),
    "shifted back": lambda m: (m.view(-1)[1:], m.view(-1)[:-1]),
    "transposed": lambda m: (m.T, m),
    "columns": lambda m: (m[:, :5], m[:, 3:]),
    "every second": lambda m: (m.view(-1)[::2], m.view(-1)[:32]),
    "repeated": lambda m: (m[:1].expand(8, 8), m),
    "narrower": lambda m: (m[:4], m.view(torch.float16)[:4, :8]),
    "aligned": lambda m: (m[:-2], m[2:]),
}
TAKEN = {
    "in place": lambda m: (m, m),
    "in place, another view": lambda m: (m[:], m),
    "in place, transposed": lambda m: (m.T, m.T),
    "halves": lambda m: (m[:4], m[4:]),
    "columns": lambda m: (m[:, :4], m[:, 4:]),
    "every second": lambda m: (m.view(-1)[::2], m.view(-1)[1::2]),
    "other bits": lambda m: (m.view(torch.int32), m),
    "empty": lambda m: (m[:0], m[:0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_shared_memory_is_refused_in_every_call(name):
    x, y = REFUSED[name](m := square())
    before, own = m.clone(), kernel(x.ndim)
    for _ in range(3):
        own(x, torch.empty(x.shape, dtype=y.dtype, device=DEVICE))
        with pytest.raises(ArgumentError, match="`y` is written to, and shares memory with other elements of `x`"):
            own(x, y)
    assert torch.equal(m, before)


@pytest.mark.parametrize("name", TAKEN)
def test_memory_that_is_apart_or_the_same_is_taken(name):
    own = None
    for _ in range(4):
        x, y = TAKEN[name](square())
        own = own or kernel(x.ndim)
        expected = (x + 1).to(y.dtype)
        own(x, y)
        torch.testing.assert_close(y, expected)


def test_a_parameter_that_is_never_touched_may_share():
    m = square()
    kernel(2, count=3)(m[:-1], m[1:], out := torch.empty_like(m[1:]))
    kernel(2, count=3)(out, m[1:], m[:-1])
    assert torch.equal(m[:-1], out + 1)
