"""Kernels that others registered for an operator, and `torch.jit.trace`: the surroundings of a call.

PyTorch lists the kernels that Python code registered, by operator and key, and refuses a second one. Our own are taken
off that list: an entry for an operator of ours is then a user's kernel, and such a call must not skip the dispatcher.

While `torch.jit.trace` traces, sizes of a tensor are tensors themselves, which no memory of calls finds again. Each
that is read is a node of the graph, and names the tensor by a variable of ours: two traces of one function differ, and
PyTorch's check refuses them. So the insides of an operator are hidden from it.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

# The keys through which the dispatcher takes a call of plain tensors without gradients.
PLAIN = ("CPU", "CUDA", "Autograd", "AutogradCPU", "AutogradCUDA")
# By "namespace/operator/key".
_REGISTERED: set[str] = getattr(torch.library, "_impls", set())
# The state in which a trace is; None outside of one.
tracing_state: Callable[[], Any] = getattr(torch._C, "_get_tracing_state", lambda: None)
_enter: Callable[[Any], Any] = getattr(torch._C, "_set_tracing_state", lambda _: None)


def unlist(name: str, keys: Iterable[str]) -> None:
    """Take our own kernels of an operator off the list."""
    _REGISTERED.difference_update(_listed(name, keys))


def has_ours_alone(name: str, keys: Iterable[str]) -> Callable[[], bool]:
    """Make the function that tells whether nobody has registered another kernel of an operator for these keys."""
    return functools.partial(frozenset(_listed(name, keys)).isdisjoint, _REGISTERED)


def _listed(name: str, keys: Iterable[str]) -> list[str]:
    return [f"{name.replace('::', '/')}/{key}" for key in keys]


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Let nothing be traced; a trace goes on afterwards."""
    state = tracing_state()
    _enter(None)
    try:
        yield
    finally:
        _enter(state)
