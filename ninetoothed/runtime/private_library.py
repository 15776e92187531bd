"""Kernels that others register for an operator of ours, as a `torch.library.Library` of a user's does.

PyTorch writes down which operator has a kernel from Python for which key, so that it can tell of two. Ours are taken
off that list: what it holds of an operator of ours is another's, which a call past the dispatcher would pass by.
"""

import functools
from collections.abc import Callable, Iterable

import torch

# By "namespace/operator/key".
_REGISTERED: set[str] = getattr(torch.library, "_impls", set())
# The keys through which the dispatcher takes a call of plain tensors without gradients.
PLAIN = ("CPU", "CUDA", "Autograd", "AutogradCPU", "AutogradCUDA")


def unlist(name: str, keys: Iterable[str]) -> None:
    """Take our own kernels of an operator off the list."""
    _REGISTERED.difference_update(_listed(name, keys))


def has_ours_alone(name: str, keys: Iterable[str]) -> Callable[[], bool]:
    """Make the function that tells whether nobody has registered another kernel of an operator for these keys."""
    return functools.partial(frozenset(_listed(name, keys)).isdisjoint, _REGISTERED)


def _listed(name: str, keys: Iterable[str]) -> list[str]:
    return [f"{name.replace('::', '/')}/{key}" for key in keys]
