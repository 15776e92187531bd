"""Bad arguments raise what PyTorch raises for them; what PyTorch has and we have not is an error that says so."""

import functools
import math
from collections.abc import Callable, Iterable
from typing import NoReturn

import torch

from ninetoothed.errors import UnsupportedError

FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
NUMBERS = FLOATS | INTEGERS | {torch.bool}


def of_shapes(function: Callable) -> Callable:
    """A function of shapes and numbers, remembered for those that are ints: symbols of fakes cannot be hashed."""
    remembered = functools.lru_cache(maxsize=4096)(function)

    @functools.wraps(function)
    def call(*args):
        try:
            return remembered(*args)
        except TypeError:
            return function(*args)

    return call


def alike(first: torch.Tensor, *others: torch.Tensor) -> bool:
    """Tell whether tensors have one floating type, and one device."""
    dtype, device = first.dtype, first.device
    for other in others:
        if other.dtype is not dtype or other.device != device:
            return False
    return dtype in FLOATS


def are_floats(first: torch.Tensor, *others: torch.Tensor) -> bool:
    """Tell whether tensors have floating types, each its own, and one device."""
    return first.dtype in FLOATS and all(other.dtype in FLOATS and other.device == first.device for other in others)


def can_hold(dtype: torch.dtype, number: float) -> bool:
    """Tell whether a number is within the range of a floating type, as infinities and NaN are."""
    is_finite = isinstance(number, (int, float)) and math.isfinite(number)
    return not is_finite or abs(number) <= torch.finfo(dtype).max


def check_product(name: str, tensor: torch.Tensor) -> None:
    """Products in float64 are for the CPU alone."""
    if tensor.dtype is torch.float64 and tensor.is_cuda:
        raise UnsupportedError(
            f"ninetoothed::{name} multiplies float64 on the CPU alone; convert to float32, or call PyTorch's operator"
        )


def check_supported(name: str, tensors: Iterable[torch.Tensor | None], dtypes=FLOATS) -> None:
    """Types that PyTorch's operator may have and ours has not."""
    for tensor in tensors:
        if tensor is not None and tensor.dtype not in dtypes:
            names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
            raise UnsupportedError(f"ninetoothed::{name} does not support {tensor.dtype}; it takes {names}")


def refuse(name: str, namesake: Callable, *args, dtypes=FLOATS, **kwargs) -> NoReturn:
    """Raise for arguments that an operator cannot take: what PyTorch's `namesake` raises for them, in its own words.

    Tensors that are given by position have one of `dtypes`.
    """
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    try:
        namesake(*args, **kwargs)
    except NotImplementedError:
        check_supported(name, tensors, dtypes)
        raise
    check_supported(name, tensors, dtypes)
    options = "".join(f", {option}={_described(value)}" for option, value in kwargs.items() if value is not None)
    raise RuntimeError(f"ninetoothed::{name} cannot take {', '.join(map(_described, tensors))}{options} together")


def _described(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"{tuple(value.shape)} {value.dtype} on {value.device}"
    return str(value)
