"""`joint_linear(Tensor input, Tensor[] weights, Tensor[] biases) -> Tensor`: several linear layers of one input.

    torch.cat([linear(input, weight, bias) for weight, bias in zip(weights, biases)], -1)

Where the weights lie one behind another in memory, and the biases too, this is one product. Each call looks where they
lie, so that it is right, and the same, whoever has moved or replaced them since, and in compiled and captured code.
"""

import itertools
from collections.abc import Iterator

import torch
from torch.nn import functional

from ninetoothed.runtime.adjacent import concatenated

from ..registration import register
from .checks import refuse
from .linear import check, launch as compute


def namesake(input, weights, biases):
    layers = zip(weights, biases or [None] * len(weights), strict=True)

    return torch.cat([functional.linear(input, weight, bias) for weight, bias in layers], -1)


def flatten(input, weights, biases):
    """Give the weights, one where they are one in memory, then the biases."""
    if not weights or len(biases) not in (0, len(weights)):
        refuse("joint_linear", namesake, input, weights, biases)
    parts = [weights, biases] if biases else [weights]
    wholes = [concatenated(each) for each in parts]
    if not any(whole is None for whole in wholes):
        parts = [[whole] for whole in wholes]

    return input, len(parts[0]), *itertools.chain(*parts)


def allocate(input, count, *tensors):
    for layer in _layers(count, tensors):
        check(input, *layer)

    return input.new_empty((*input.shape[:-1], sum(weight.shape[0] for weight in tensors[:count])))


def launch(output, input, count, *tensors):
    start = 0
    for weight, *bias in _layers(count, tensors):
        compute(output.narrow(-1, start, weight.shape[0]), input, weight, *bias)
        start += weight.shape[0]


def _layers(count: int, tensors) -> Iterator[tuple[torch.Tensor, ...]]:
    """Give (weight,) or (weight, bias) of each layer, of weights followed by biases or none."""
    biases = tensors[count:]

    return zip(tensors, biases) if biases else zip(tensors)


operator = register(
    "ninetoothed::joint_linear(Tensor input, Tensor[] weights, Tensor[] biases) -> Tensor",
    allocate,
    launch,
    replay=True,
    flatten=flatten,
    autocast=torch.get_autocast_dtype,
)
