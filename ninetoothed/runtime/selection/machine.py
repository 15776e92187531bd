"""A GPU as a plain value: what choosing a configuration and compiling need to know of it."""

from __future__ import annotations

import difflib
import functools
from dataclasses import dataclass
from typing import Any

from ninetoothed.errors import ArgumentError


@dataclass(frozen=True)
class Machine:
    """A description of a GPU. Equal descriptions compile the same kernels.

    capability: 90 for compute capability 9.0. shared_memory: bytes that one program may have. registers: those of a
    multiprocessor, of 32 bits. l2: bytes. bandwidth: bytes a second from memory.
    """

    name: str
    capability: int
    multiprocessors: int
    shared_memory: int
    registers: int = 65536
    l2: int = 50 * 2**20
    bandwidth: float = 3.0e12

    def __str__(self) -> str:
        return f"{self.name} (sm_{self.capability}, {self.multiprocessors} multiprocessors)"


A100 = Machine("A100", 80, 108, 163 * 1024, l2=40 * 2**20, bandwidth=2.0e12)
H100 = Machine("H100", 90, 132, 227 * 1024, l2=50 * 2**20, bandwidth=3.35e12)
H200 = Machine("H200", 90, 132, 227 * 1024, l2=60 * 2**20, bandwidth=4.8e12)
B200 = Machine("B200", 100, 148, 227 * 1024, l2=126 * 2**20, bandwidth=8.0e12)

_PRESETS = (A100, H100, H200, B200)


def named(name: str) -> Machine:
    """Return the GPU of a name, in capitals or not: `named("h100")` is `H100`."""
    known = {preset.name.lower(): preset for preset in _PRESETS}
    if name.lower() in known:
        return known[name.lower()]
    names = [preset.name for preset in _PRESETS]
    near = difflib.get_close_matches(name.upper(), names, 1)
    meant = f"did you mean {near[0]!r}? Known are" if near else "known are"
    raise ArgumentError(
        f"there is no row for a GPU called {name!r}; {meant} {', '.join(names)}; describe another as a"
        " `ninetoothed.runtime.selection.machine.Machine`"
    )


def current(device: Any = None) -> Machine | None:
    """The GPU behind a CUDA device (the current one by default), or None where there is none."""
    import torch

    if not torch.cuda.is_available():
        return None
    device = torch.device("cuda" if device is None else device)
    return _describe(torch.cuda.current_device() if device.index is None else device.index)


@functools.cache
def _describe(index: int) -> Machine:
    import torch

    properties = torch.cuda.get_device_properties(index)
    capability = properties.major * 10 + properties.minor
    known = next((preset for preset in _PRESETS if preset.name in properties.name), None)
    return Machine(
        known.name if known else properties.name,
        capability,
        properties.multi_processor_count,
        getattr(properties, "shared_memory_per_block_optin", 0) or (known or A100).shared_memory,
        getattr(properties, "regs_per_multiprocessor", 65536),
        getattr(properties, "L2_cache_size", 0) or (known or A100).l2,
        known.bandwidth if known else 1.0e12,
    )
