"""Activation functions in PyTorch's operations, by the names that operators take."""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

from ninetoothed.errors import ArgumentError

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": functional.relu,
    "relu_squared": lambda x: functional.relu(x).square(),
}


def check(name: str, function: str) -> None:
    """Raise where an operator has no function of this name."""
    if function not in FUNCTIONS:
        raise ArgumentError(
            f"ninetoothed::{name}: function is {function!r}; it is one of {', '.join(map(repr, FUNCTIONS))}"
        )


def in_float32(function: str, x: torch.Tensor) -> torch.Tensor:
    """Apply a function to a tensor, a half converted to float32."""
    return FUNCTIONS[function](x.to(torch.promote_types(x.dtype, torch.float32)))
