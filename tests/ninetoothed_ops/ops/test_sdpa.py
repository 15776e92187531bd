"""Masks: rows that see nothing, the lowest numbers, and the diagonal."""

import pytest
import torch
import torch.nn.functional as F

import ninetoothed_ops
from tests.conftest import DEVICE
from tests.ninetoothed_ops.attention import attention
from tests.ninetoothed_ops.samples import random


def assert_close(actual, expected, tolerance=1e-5):
    assert (actual.double() - expected).norm() <= tolerance * expected.norm()


def test_keys_that_are_masked_for_many_blocks_first():
    query, key, value = random(1, 2, 20, 16), random(1, 2, 600, 16), random(1, 2, 600, 16)
    visible = torch.zeros(20, 600, dtype=torch.bool, device=DEVICE)
    visible[:, 590:] = True

    assert_close(ninetoothed_ops.sdpa(query, key, value, visible), attention(query, key, value, visible))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
def test_the_lowest_number_is_no_infinity(dtype):
    """A row of lowest numbers, which padding makes in transformers, is a row of equals."""
    query, key, value = (random(2, 2, 33, 16, dtype=dtype) for _ in range(3))
    mask = torch.zeros(33, 33, dtype=dtype, device=DEVICE)
    mask[4], mask[7, 10:] = torch.finfo(dtype).min, torch.finfo(dtype).min

    expected = F.scaled_dot_product_attention(*(t.double() for t in (query, key, value)), mask.double())
    if dtype is not torch.float16:  # Whose lowest number is not low enough to swallow the scores.
        expected[:, :, 4] = value.double().mean(2)
    assert_close(ninetoothed_ops.sdpa(query, key, value, mask), expected, 1e-5 if dtype is torch.float32 else 8e-3)


@pytest.mark.parametrize("queries, keys", ((1, 1), (1, 100), (65, 64), (64, 65), (300, 300), (31, 257), (257, 31)))
def test_causal_masks_start_at_the_first_key(queries, keys):
    query, key, value = random(1, 2, queries, 16), random(1, 2, keys, 16), random(1, 2, keys, 16)
    visible = torch.ones(queries, keys, dtype=torch.bool, device=DEVICE).tril()

    assert_close(ninetoothed_ops.sdpa(query, key, value, is_causal=True), attention(query, key, value, visible))


def test_one_query_of_keys_and_values_of_other_numbers_of_heads():
    query, key, value = random(2, 6, 1, 16), random(2, 3, 70, 16), random(2, 2, 70, 16)
    expected = attention(query, key.repeat_interleave(2, 1), value.repeat_interleave(3, 1), key.new_ones(()).bool())

    assert_close(ninetoothed_ops.sdpa(query, key, value, enable_gqa=True), expected)


def written_out(query, key, value, mask, scale, is_causal):
    """The definition: rows whose scores are all -inf give zeros."""
    scores = query * scale @ key.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype is torch.bool else scores + mask
    if is_causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=DEVICE).tril()
        scores = scores.masked_fill(~visible, float("-inf"))
    return torch.softmax(scores, -1).masked_fill((scores == float("-inf")).all(-1, keepdim=True), 0) @ value


def some(special, *shape):
    """Zeros and ones, with a few of what is special; a third of the rows hold nothing else."""
    values = torch.randint(-1, 2, shape, device=DEVICE).float()
    chosen = (
        torch.rand(shape, device=DEVICE)
        < torch.tensor([0, 0.05, 1], device=DEVICE)[torch.randint(3, (*shape[:-1], 1), device=DEVICE)]
    )
    return values.where(~chosen, special)


def are_told(query, key):
    """The rows that a GPU computes: without terms of scores so great that their rounding counts.

    It multiplies by `scale` and subtracts the peak in one step (FlashAttention does so, too), and adds up the terms of
    a score in an order of its own: 1e25 + 1 - 1e25 is 0 or 1.
    """
    if DEVICE != "cuda":
        return torch.ones(query.shape[:-1], dtype=torch.bool)
    return ~((query.abs() @ key.abs().mT > 1e6) & (query @ key.mT).isfinite()).any(-1)


INFINITY, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("special", (-1e25, 1e25, INFINITY, -INFINITY, NAN))
@pytest.mark.parametrize("scale", (0.25, 1.0, 64.0, 0.0, -0.5))
def test_scores_that_overflow_and_rows_that_see_nothing(scale, special):
    ones, hidden = torch.ones(33, 70, device=DEVICE), some(-INFINITY, 33, 70)
    masks = (None, hidden != -INFINITY, hidden, some(torch.finfo().min, 33, 70), some(INFINITY, 33, 70), ones * NAN)
    for query_special, key_special in ((special, 1e25), (1e25, special), (0.0, special)):
        query, key, value = some(query_special, 2, 33, 4), some(key_special, 2, 70, 4), random(2, 70, 8)
        for mask, is_causal in (*((mask, False) for mask in masks), (None, True)):
            actual = ninetoothed_ops.sdpa(query, key, value, mask, scale=scale, is_causal=is_causal)
            expected = written_out(query, key, value, mask, scale, is_causal)
            told = are_told(query * scale, key)
            torch.testing.assert_close(actual[told], expected[told], rtol=1e-4, atol=1e-4, equal_nan=True)
