"""Which block sizes, warps and stages: a formula over a description of the GPU, without measuring anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ninetoothed.definition import KernelDefinition
from ninetoothed.runtime.device import GPU
from ninetoothed.specialisation import Specialisation


@dataclass(frozen=True)
class Configuration:
    """A choice: (name, number) for each meta symbol, the warps of a program, the stages of its pipelined loops."""

    meta: tuple[tuple[str, int], ...] = ()
    num_warps: int = 4
    num_stages: int = 3

    @property
    def blocks(self) -> dict[str, int]:
        return dict(self.meta)

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.meta]
        return ", ".join([*parts, f"num_warps={self.num_warps}", f"num_stages={self.num_stages}"])


def choose(
    definition: KernelDefinition, specialisation: Specialisation, sizes: Mapping[str, int], gpu: GPU | None
) -> Configuration:
    """The configuration of a class of calls; `gpu` None means the CPU backend.

    sizes: those of the parameters by name, rounded up to powers of two.
    """
    blocks = {}
    for name, symbol in definition.meta_symbols.items():
        low, high = symbol.lower_bound or 1, symbol.upper_bound or 1024
        blocks[name] = min(max(64, low), high)
    return Configuration(tuple(sorted(blocks.items())))
