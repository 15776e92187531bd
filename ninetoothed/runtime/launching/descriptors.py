"""Encode tensor descriptors on the host, once for each address, and keep what a launch passes for them.

Triton's launcher encodes every descriptor anew at each launch, in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

# How many sets of addresses a launch remembers; the older half goes when there are more.
CAPACITY = 256


@dataclass(frozen=True)
class DescriptorTable:
    """Keep the descriptors of a launch, encoded, by the addresses of what they describe.

    encode: (position, address, sizes, strides) -> what is passed. shapes: sizes and strides of each.
    """

    encode: Callable[[int, int, list[int], list[int]], bytes]
    shapes: tuple[tuple[list[int], list[int]], ...]
    known: dict[tuple, tuple] = field(default_factory=dict)

    def make(self, addresses: tuple) -> tuple:
        """Encode the descriptors of these addresses, and keep them."""
        pairs = zip(addresses, self.shapes, strict=True)
        made = tuple(self.encode(i, address, *shape) for i, (address, shape) in enumerate(pairs))
        if len(self.known) >= CAPACITY:
            for old in list(self.known)[: CAPACITY // 2]:
                self.known.pop(old, None)
        self.known[addresses] = made
        return made
