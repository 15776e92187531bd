"""Describe the GPU that a call's tensors are on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime.launching import driver


@dataclass(frozen=True)
class Device:
    """A GPU, and its driver."""

    index: int
    name: str
    architecture: int
    multiprocessors: int
    shared_memory: int
    driver: driver.Driver

    def made_current(self) -> AbstractContextManager[None]:
        """Make it the current GPU meanwhile, with its context."""
        torch.cuda.mem_get_info(self.index)
        return torch.cuda.device(self.index)


def device_of(place: torch.device) -> Device:
    """Describe the GPU that tensors are on. Raises `ArgumentError` for tensors that are on none."""
    if place.type != "cuda":
        raise ArgumentError(
            f"kernels that were built ahead of time run on GPUs, and the tensors are on {place}; move them, or call"
            " the kernel that `make` gives, which runs on the CPU, too"
        )
    index = torch.cuda.current_device() if place.index is None else place.index
    found = torch.cuda.get_device_properties(index)
    shared = getattr(found, "shared_memory_per_block_optin", 0) or 2**20
    architecture = found.major * 10 + found.minor
    return Device(index, found.name, architecture, found.multi_processor_count, shared, driver.driver())


def here() -> Device | None:
    """Describe the current GPU; None where there is none."""
    return device_of(torch.device("cuda")) if torch.cuda.is_available() else None
