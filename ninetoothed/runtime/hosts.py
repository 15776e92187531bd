"""List the backends of tensors that are on no GPU, by the types of their devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ninetoothed import ir
from ninetoothed.backends import torch

# Runs the whole grid, with the arguments and the numbers of sizes and strides by name.
Run = Callable[[Mapping[str, Any], Mapping[str, int]], None]


@dataclass(frozen=True)
class Host:
    """A backend that runs programs where tensors are, without compiling a text.

    prepare: makes of a program, after the passes for every backend, what runs it.
    devices: the types of devices whose tensors it takes; None for all.
    """

    name: str
    prepare: Callable[[ir.Program], Run]
    devices: frozenset[str] | None = None


# The first that takes a tensor's device runs the call.
HOSTS = (Host("torch", torch.prepare),)


def host_of(device: str) -> Host:
    """Find the backend for a type of devices.

    >>> host_of("cpu").name
    'torch'
    """
    return next(host for host in HOSTS if host.devices is None or device in host.devices)
