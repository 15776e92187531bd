"""Layouts of results, as PyTorch lays them out, and dimensions that become one."""

import random

import pytest
import torch
import torch.nn.functional as F

from ninetoothed_ops.ops.layout import coalesce, empty_elementwise


def any_layout(numbers: random.Random, shape) -> torch.Tensor:
    """A tensor of this shape, permuted, sliced with steps, perhaps with a dimension broadcast."""
    order = numbers.sample(range(len(shape)), len(shape))
    steps = [numbers.choice((1, 1, 2)) for _ in order]
    larger = torch.randn([shape[dim] * step + numbers.choice((0, 1)) for dim, step in zip(order, steps)])
    tensor = larger[tuple(slice(0, shape[dim] * step, step) for dim, step in zip(order, steps))]
    tensor = tensor.permute(sorted(range(len(shape)), key=order.__getitem__))
    if numbers.random() < 0.4:
        tensor = tensor.narrow(numbers.randrange(len(shape)), 0, 1)
        tensor = tensor.expand(shape) if numbers.random() < 0.5 else tensor
    return tensor


@pytest.mark.parametrize("seed", range(10))
def test_strides_are_those_of_pytorch(seed):
    numbers = random.Random(seed)
    for _ in range(100):
        shape = [numbers.choice((1, 2, 3, 4)) for _ in range(numbers.choice((1, 2, 3, 4, 4)))]
        x, y = any_layout(numbers, shape), any_layout(numbers, shape)
        expected = torch.add(x, y)
        actual = empty_elementwise((x, y), expected.shape, x.dtype, x.device)
        assert actual.stride() == expected.stride(), (x.shape, x.stride(), y.shape, y.stride())
        assert empty_elementwise((x,), x.shape, x.dtype, x.device).stride() == F.silu(x).stride(), (x.shape, x.stride())


@pytest.mark.parametrize("kept", (0, 1))
@pytest.mark.parametrize("seed", range(5))
def test_coalescing_keeps_elements_together(seed, kept):
    numbers = random.Random(seed)
    for _ in range(50):
        shape = [numbers.choice((1, 2, 3)) for _ in range(numbers.choice((1, 2, 3, 4)))]
        x = any_layout(numbers, shape).expand(shape)
        output = torch.full_like(x, float("nan"))
        source, target = coalesce((x, output), kept)
        assert source.shape == target.shape and kept < source.ndim <= max(x.ndim, kept + 1)
        target.copy_(source)
        assert torch.equal(output, x)


@pytest.mark.parametrize("shape", ((4, 5, 6), (1, 1), (), (2, 0, 3)))
def test_contiguous_tensors_become_vectors(shape):
    x = torch.randn(shape)

    assert coalesce((x, x))[0].shape == (x.numel(),)


def test_rows_that_lie_apart_stay_apart():
    x = torch.randn(3, 8, 16)[:, 1:6]

    assert [tensor.shape for tensor in coalesce((x, torch.empty_like(x)), kept=1)] == [(3, 5, 16)] * 2
