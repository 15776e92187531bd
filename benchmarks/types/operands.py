"""Operands of the kernels, as Python's numbers and as tensors, and the functions that references in NumPy call."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ninetoothed import dtypes
from ninetoothed.dtypes import DType

SHAPES = {
    "a": (32, 32), "b": (32, 32), "c": (32, 32), "d": (20, 10), "i": (64,), "o": (64,), "p": (32, 2), "r": (64,),
    "s": (), "u": (64,), "v": (50,), "w": (50,), "x": (64,), "y": (64,), "z": (64,),
}  # fmt: skip


def _values(letter: str, dtype: DType) -> Sequence[float]:
    """List the numbers of which an operand consists."""
    if letter == "i":
        return range(64)
    if dtype == dtypes.int1:
        return (1,) if letter in "syrw" else (0, 1)
    if letter in "syrw":
        return (3,) if letter == "s" else (1, 2, 3, 4, 5) if dtype.is_integer else (0.5, 1, 2, 3)
    if dtype.is_floating:
        return (0.5, 1) if letter == "u" else (-2, -1, -0.5, 0.25, 0.5, 1, 2) if letter in "zabcdp" else _FLOATS
    least, most = dtype.range
    small = range(-4 if least else 0, 5)
    return (1, 2) if letter == "u" else small if letter in "zvabcdp" else (least, most, most // 2 + 1, most - 3, *small)


_FLOATS = (-4, -1.5, -1, -0.25, 0.5, 0.75, 1, 2, 3)


def operand(letter: str, dtype: DType, choose: random.Random) -> np.ndarray:
    """Draw an operand, as Python's numbers."""
    values = _values(letter, dtype)
    drawn = np.empty(SHAPES[letter], dtype=object)
    drawn.reshape(-1)[:] = [choose.choice(values) for _ in range(drawn.size)]
    return drawn


def tensor_of(numbers: Any, dtype: DType) -> torch.Tensor:
    """Convert Python's numbers to a tensor; integers wrap, and float8 saturates."""
    numbers = np.asarray(numbers, dtype=object)
    own = getattr(torch, dtypes.to_torch_name(dtype))
    if dtype.is_floating:
        return torch.tensor(np.clip(numbers.astype(float), *dtype.range)).to(own)
    bits = [int(number) % 2**dtype.bits for number in numbers.reshape(-1)]
    wide = torch.from_numpy(np.array(bits, dtype=np.uint64).view(np.int64).reshape(numbers.shape))
    signed = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
    return wide.bool() if dtype == dtypes.int1 else wide.to(signed[dtype.bits]).view(own)


# -- references --


def f(*arguments: Any) -> Any:
    """Convert to float64, or apply a function of PyTorch to that."""
    if len(arguments) == 1:
        return np.asarray(arguments[0]).astype(float)
    function, *operands = arguments
    return function(*(torch.tensor(np.asarray(each).astype(float)) for each in operands)).numpy()


def softmax(z: Any) -> Any:
    return np.exp(f(z)) / np.exp(f(z)).sum()


def swizzle(y: Any) -> Any:
    linear = y * 9
    return linear // 16 * 2 + linear % 16 % 2


REFERENCES = {
    "np": np,
    "torch": torch,
    "math": math,
    "functools": functools,
    "f": f,
    "softmax": softmax,
    "swizzle": swizzle,
}
