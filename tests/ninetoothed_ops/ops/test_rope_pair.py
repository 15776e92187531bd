"""A query and a key rotated in one launch: bit for bit as apart, with gradients, fakes and errors."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck

import ninetoothed_ops  # noqa: F401 - registers the operators
from tests.ninetoothed_ops.samples import random as r

pair, single = torch.ops.ninetoothed.rope_pair.default, torch.ops.ninetoothed.rope.default
# Query heads, key heads, D, columns of the tables, and the options.
CALLS = {
    "halves": (6, 2, 16, 16, (False,)),
    "pairs, a column for both": (3, 3, 10, 5, (True,)),
    "a part of each head": (5, 1, 21, 12, (False, 12)),
    "pairs to halves": (4, 1, 8, 4, (True, None, False)),
    "a part, pairs to halves": (4, 1, 11, 4, (True, 8, False)),
    "the last columns": (5, 2, 21, 6, (False, -12)),
    "no keys": (4, 0, 8, 8, (False,)),
}


def arguments(label, dtype=torch.float32, layout="contiguous"):
    heads, kv_heads, width, columns, options = CALLS[label]
    states = (r(2, 5, n, width, dtype=dtype, layout=layout) for n in (heads, kv_heads))
    return *states, r(2, 5, columns, dtype=dtype), r(1, 5, columns, dtype=dtype), *options


@pytest.mark.parametrize("label", CALLS)
def test_bit_for_bit(label):
    for dtype, layout in ((torch.float32, "sliced"), (torch.bfloat16, "transposed")):
        query, key, *others = arguments(label, dtype, layout)
        torch.use_deterministic_algorithms(True, warn_only=True)  # outputs start as NaN
        try:
            found = pair(query, key, *others)
        finally:
            torch.use_deterministic_algorithms(False)
        for actual, expected in zip(found, (single(query, *others), single(key, *others))):
            assert torch.equal(actual, expected) and actual.stride() == expected.stride()
        with FakeTensorMode() as mode:
            converted = (mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in others)
            fakes = pair(mode.from_tensor(query), mode.from_tensor(key), *converted)
        assert [(f.shape, f.stride(), f.dtype) for f in fakes] == [(f.shape, f.stride(), f.dtype) for f in found]


@pytest.mark.parametrize("label", ("halves", "a part, pairs to halves"))
def test_derivatives(label):
    *tensors, _, _ = (*arguments(label, torch.float64)[:4], 0, 0)
    options = CALLS[label][-1]
    inputs = [each.requires_grad_() for each in tensors]
    assert gradcheck(lambda *args: pair(*args, *options), inputs, fast_mode=True)
    assert gradgradcheck(lambda *args: pair(*args, *options), inputs, fast_mode=True)
    for i in (0, 1):
        ours, theirs = pair(*inputs, *options)[i], single(inputs[i], *inputs[2:], *options)
        grad, leaves = torch.randn_like(ours), (inputs[i], *inputs[2:])
        both = (torch.autograd.grad(each, leaves, grad) for each in (ours, theirs))
        assert all(torch.equal(*each) for each in zip(*both))


def test_the_operator_is_registered_as_pytorch_asks():
    args = [each.requires_grad_() for each in arguments("halves")[:4]]
    torch.library.opcheck(pair, (*args, False))


@pytest.mark.parametrize(
    "change", (lambda key: key[:, :4], lambda key: key[:1], lambda key: key[..., :8], lambda key: key.double())
)
def test_a_key_that_does_not_fit(change):
    query, key, *others = arguments("halves")
    with pytest.raises(RuntimeError, match="ninetoothed::rope_pair expects a query and a key"):
        pair(query, change(key), *others)
