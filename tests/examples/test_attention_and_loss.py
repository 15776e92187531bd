"""Paged attention and the cross-entropy of a product, at odd sizes and strides, in their poisoned outputs."""

import pytest
import torch
import torch.nn.functional as F

from examples import linear_cross_entropy, paged_attention
from tests.conftest import DEVICE


def strided(*shape):
    """A tensor of which no dimension is dense."""
    return torch.randn(*(2 * size for size in shape), device=DEVICE)[tuple(slice(None, None, 2) for _ in shape)]


def test_paged_attention():
    query, keys, values = strided(3, 2, 40), strided(11, 12, 2, 40), strided(11, 12, 2, 40)
    table = torch.tensor([[4, 9, 9], [0, 10, 3], [7, 2, 5]], device=DEVICE)
    length = torch.tensor([5, 13, 36], device=DEVICE)
    output = torch.full((3, 2, 40), torch.nan, device=DEVICE)
    paged_attention.kernel(query, keys, values, table, length, output)
    for own, result, pages, count in zip(query.double(), output, table, length, strict=True):
        k, v = (cache[pages].flatten(0, 1)[:count].double().transpose(0, 1) for cache in (keys, values))
        expected = F.scaled_dot_product_attention(own[:, None], k, v)[:, 0]
        torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("vocabulary", (35, 333))
def test_linear_cross_entropy(vocabulary):
    """Small logits, so that what counted past the end of the vocabulary would show."""
    hidden, weight = strided(37, 150), strided(vocabulary, 150) / 100
    target = torch.randint(0, vocabulary, (37,), device=DEVICE)
    loss = torch.full((37,), torch.nan, device=DEVICE)
    linear_cross_entropy.kernel(hidden, weight, target, loss)
    expected = F.cross_entropy(hidden.double() @ weight.double().T, target, reduction="none")
    torch.testing.assert_close(loss.double(), expected, rtol=1e-3, atol=1e-3)
    text = linear_cross_entropy.kernel.source(hidden, weight, target, loss, gpu="h200")
    assert text.count("tl.dot") == 2
