"""Attention over the first keys of each batch entry: the others are neither read nor have a part."""

import pytest
import torch

import ninetoothed_ops
from ninetoothed.errors import ArgumentError, ArgumentTypeError
from tests.conftest import DEVICE
from tests.ninetoothed_ops.attention import attention
from tests.ninetoothed_ops.samples import random

CAPACITY, LENGTHS = 101, (0, 1, 37, 101)


def arguments(queries, kv_heads=2, heads=4, depth=16, lengths=LENGTHS):
    """Queries, keys and values; NaN where the lengths say that there are none."""
    query = random(len(lengths), heads, queries, depth)
    key, value = (random(len(lengths), kv_heads, CAPACITY, depth) for _ in range(2))
    for entry, length in enumerate(lengths):
        key[entry, :, length:] = value[entry, :, length:] = torch.nan
    return query, key, value


def assert_close(actual, expected):
    assert (actual.double() - expected).norm() <= 1e-5 * expected.norm()


def sdpa(query, key, value, lengths, **options):
    return ninetoothed_ops.sdpa(query, key, value, lengths=lengths, enable_gqa=True, **options)


@pytest.mark.parametrize("queries, kv_heads", ((1, 2), (1, 4), (5, 2), (70, 2)))
def test_each_batch_entry_has_its_own(queries, kv_heads):
    query, key, value = arguments(queries, kv_heads)
    boolean = torch.rand(4, 4, queries, CAPACITY, device=DEVICE) > 0.4
    boolean[2] = False
    for mask in (None, boolean, random(4, 1, 1, CAPACITY)):
        output = sdpa(query, key, value, torch.tensor(LENGTHS, device=DEVICE), attn_mask=mask)
        assert_close(output, attention(query, key, value, mask, LENGTHS))
        assert not output[0].any()


@pytest.mark.parametrize("queries", (1, 20, 70))
def test_causal(queries):
    query, key, value = arguments(queries)
    output = sdpa(query, key, value, torch.tensor(LENGTHS, device=DEVICE), is_causal=True)
    assert_close(output, attention(query, key, value, None, LENGTHS, is_causal=True))


@pytest.mark.parametrize("shape", ((), (1,), (3,)))
@pytest.mark.parametrize("dtype", (torch.int32, torch.int64))
def test_one_for_all(shape, dtype):
    query, key, value = arguments(1, lengths=(37,) * 3)
    output = sdpa(query, key, value, torch.full(shape, 37, dtype=dtype, device=DEVICE))
    assert_close(output, attention(query, key, value, None, (37,) * 3))


def test_no_more_than_there_are_and_none_below_zero():
    query, key, value = arguments(1, lengths=(0, CAPACITY))
    output = sdpa(query, key, value, torch.tensor((-70, 2**31 - 1), device=DEVICE))
    assert_close(output, attention(query, key, value, None, (0, CAPACITY)))


def test_other_ranks():
    query, key, value = arguments(3, kv_heads=4, lengths=(37, 37, 5, 5))
    expected = attention(query, key, value, None, (37, 37, 5, 5))
    five = (t.unflatten(0, (2, 2)) for t in (query, key, value))
    output = ninetoothed_ops.sdpa(*five, lengths=torch.tensor([[37], [5]], device=DEVICE))
    assert_close(output.flatten(0, 1), expected)
    three = (t[2] for t in (query, key, value))
    assert_close(ninetoothed_ops.sdpa(*three, lengths=torch.tensor(5, device=DEVICE)), expected[2])


def test_rows_of_nothing_are_nan_where_that_is_asked_for():
    query, key, value = arguments(1)
    output = torch.ops.ninetoothed.sdpa(
        query, key, value, lengths=torch.tensor(LENGTHS, device=DEVICE), enable_gqa=True, safe=False
    )
    assert output[0].isnan().all() and not output[1:].isnan().any()


@pytest.mark.parametrize(
    "lengths, error, message",
    (
        (torch.tensor([1, 2, 3]), ArgumentError, r"shape \(\), \(1,\) or \(4,\).* got \(3,\) of torch.int64"),
        (torch.ones(4, 1, dtype=torch.int32), ArgumentError, r"got \(4, 1\)"),
        (torch.ones(4), ArgumentError, "got .* of torch.float32"),
        (torch.ones(4, dtype=torch.int32, device="meta"), ArgumentError, "on meta"),
        (4, ArgumentTypeError, "ninetoothed::sdpa takes a tensor for lengths, but got 4"),
    ),
)
def test_refused(lengths, error, message):
    lengths = lengths.to(DEVICE) if isinstance(lengths, torch.Tensor) and lengths.device.type == "cpu" else lengths
    with pytest.raises(error, match=message):
        sdpa(*arguments(1), lengths)


def test_as_an_operator_of_pytorch():
    """Fake tensors, compiled and exported."""
    query, key, value = arguments(1)
    lengths = torch.tensor(LENGTHS, device=DEVICE)
    checks = ("test_schema", "test_faketensor", "test_autograd_registration")
    operator = torch.ops.ninetoothed.sdpa.default
    torch.library.opcheck(
        operator, (query, key, value, None, 0.0, False, lengths), {"enable_gqa": True}, test_utils=checks
    )
    expected = sdpa(query, key, value, lengths)
    torch._dynamo.reset()
    compiled = torch.compile(sdpa, fullgraph=True, dynamic=True, backend="aot_eager")
    assert torch.equal(compiled(query, key, value, lengths), expected)

    class Attention(torch.nn.Module):
        def forward(self, *args):
            return sdpa(*args)

    exported = torch.export.export(Attention(), (query, key, value, lengths)).module()
    assert torch.equal(exported(query, key, value, lengths), expected)
