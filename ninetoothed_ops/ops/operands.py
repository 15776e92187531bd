"""Operands of products as the GPU copies them best: rows that start at multiples of 16 bytes."""

import torch

# Below that many multiplications a copy costs more than it saves.
FEWEST_PRODUCTS = 2**27
ALIGNMENT = 16


def aligned(*operands: torch.Tensor, products: int) -> tuple[torch.Tensor, ...]:
    """The operands, those with rows that start anywhere as copies whose rows do not.

    Tiles of such rows cannot be copied whole, nor 16 bytes at once, which makes a product several times as slow.
    """
    return tuple(
        _copied(operand) if products >= FEWEST_PRODUCTS and _starts_anywhere(operand) else operand
        for operand in operands
    )


def _starts_anywhere(operand: torch.Tensor) -> bool:
    """Whether halves on a GPU have rows, along the dense dimension, at addresses that are no multiples of 16."""
    if operand.device.type != "cuda" or operand.itemsize != 2:
        return False
    strides = [stride for stride, size in zip(operand.stride(), operand.shape) if size != 1]
    places = [operand.data_ptr(), *(stride * operand.itemsize for stride in strides if stride != 1)]
    return 1 not in strides or any(place % ALIGNMENT for place in places)


def _copied(operand: torch.Tensor) -> torch.Tensor:
    """A copy with padded rows, along the same dimension where one is dense."""
    is_turned = operand.stride(-1) != 1 and operand.stride(-2) == 1
    source = operand.mT if is_turned else operand
    *outer, length = source.shape
    step = ALIGNMENT // operand.itemsize * 2
    rows = source.new_empty((*outer, -(-length // step) * step))[..., :length]
    rows.copy_(source)
    return rows.mT if is_turned else rows
