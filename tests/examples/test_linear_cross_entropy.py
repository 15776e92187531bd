"""The cross-entropy of a product, at odd sizes and strides, in a poisoned output."""

import pytest
import torch
import torch.nn.functional as F

from examples import linear_cross_entropy
from tests.conftest import DEVICE


def strided(*shape):
    """A tensor of which no dimension is dense."""
    return torch.randn(*(2 * size for size in shape), device=DEVICE)[tuple(slice(None, None, 2) for _ in shape)]


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
