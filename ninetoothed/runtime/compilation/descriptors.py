"""Make tensor descriptors on the host, once for each address, and keep what a launch passes for them.

Triton's launcher would encode every descriptor anew at each launch, in Python. What it would make is made here, by
Triton's own function, and handed to the launcher underneath.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ninetoothed.backends.triton import Emitted
from ninetoothed.runtime import missing, private_triton

# How many sets of addresses a launch remembers; the older half goes when there are more.
CAPACITY = 256
# What CUDA's driver says of error 201, a call that needs a context where the thread has none.
_NO_CONTEXT = "invalid device context"


@functools.cache
def are_supported() -> bool:
    """Tell whether Triton has descriptors made on the host; without Triton there is only text, which has them."""
    return not missing.has("triton") or missing.has("triton.tools.tensor_descriptor.TensorDescriptor")


class Address(int):
    """An address that Triton takes for a tensor."""

    def data_ptr(self) -> int:
        return int(self)


@dataclass(frozen=True)
class DescribedMemory:
    """Memory as Triton's `TensorDescriptor` tells of it."""

    base: Address
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False


def encoder(run: Any) -> Callable[[int, DescribedMemory], tuple]:
    """Return the encoder of descriptors for Triton's launcher: (position, described) -> arguments in its place."""
    encode = private_triton.descriptor_encoder(run)
    return encode or (lambda position, described: (_of_triton(described),))


def _of_triton(described: DescribedMemory) -> Any:
    """Make an instance of Triton's class, whose own checks ask for a tensor."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    made = object.__new__(TensorDescriptor)
    made.__dict__.update(vars(described))
    return made


def _with_context(encode: Callable[[int, DescribedMemory], tuple], position: int, described: DescribedMemory) -> tuple:
    """Encode a descriptor, in a thread that has no current CUDA context, too.

    Threads get theirs at their first call of CUDA's runtime. One whose memory PyTorch has at hand, as that of a
    backward pass, may have made none yet, and Triton sees to it at the launch alone.
    """
    try:
        return encode(position, described)
    except RuntimeError as error:
        if _NO_CONTEXT not in str(error):
            raise
        torch.cuda.mem_get_info()  # Any call of the runtime that is allowed while a graph is captured.
        return encode(position, described)


@dataclass(frozen=True)
class DescriptorTable:
    """Keep the arguments of a launch that stand for descriptors, by the addresses of what they describe.

    shapes: sizes, strides and block of each.
    """

    ready: Callable[[int, DescribedMemory], tuple]
    shapes: tuple[tuple[list[int], list[int], list[int]], ...]
    known: dict[tuple, tuple] = field(default_factory=dict)

    @classmethod
    def of(cls, emitted: Emitted, ready: Callable, integers: Mapping[str, int]) -> DescriptorTable:
        def numbers(expressions):
            return [e.evaluate(integers) for e in expressions]

        return cls(ready, tuple((numbers(a.sizes), numbers(a.strides), list(a.block)) for a in emitted.descriptors))

    def make(self, addresses: tuple) -> tuple:
        """Make what stands for these addresses, and keep it."""
        described = (
            DescribedMemory(Address(address), *shape) for address, shape in zip(addresses, self.shapes, strict=True)
        )
        made = tuple(itertools.chain.from_iterable(_with_context(self.ready, *each) for each in enumerate(described)))
        if len(self.known) >= CAPACITY:
            for old in list(self.known)[: CAPACITY // 2]:
                self.known.pop(old, None)
        self.known[addresses] = made
        return made
