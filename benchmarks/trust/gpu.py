"""The random applications and operators on a GPU, every tensor between canaries that no launch may touch."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ninetoothed.errors import UnsupportedError

from . import applications, operators
from .parts import Case

APART = 2 * 10**6  # Other programs than those of `applications` and `interpreter`.
CANARIES = 128


def cases(seed: int, device: str = "cuda") -> Iterator[Case]:
    """Check some calls of one program, then some of the operators."""
    guards = Guards(device)
    for case in applications.cases(seed + APART, guards.run):
        yield Case(case.description, case.wrong or guards.touched())
    for case in operators.cases(seed + APART, device):
        if UnsupportedError.__name__ not in case.wrong:  # Products of float64 are for the CPU.
            yield case


class Guards:
    """Calls kernels on copies of their arguments that lie between canaries, and brings back the results."""

    def __init__(self, device: str):
        self.device, self.copies = device, []

    def run(self, kernel, arguments):
        self.copies = [self.guarded(value) for value in arguments if isinstance(value, torch.Tensor)]
        copies = iter(self.copies)
        passed = [next(copies)[1] if isinstance(value, torch.Tensor) else value for value in arguments]
        kernel(*passed)
        for given, value in zip(arguments, passed, strict=True):
            if isinstance(given, torch.Tensor):
                given.copy_(value)

    def guarded(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`(memory, copy in it, its elements as a mask of the memory)`, the copy with the strides of the tensor."""
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        length = reach + 1 + 2 * CANARIES if tensor.numel() else 2 * CANARIES
        memory = torch.full((length,), 55, dtype=tensor.dtype, device=self.device)
        used = torch.zeros(length, dtype=torch.bool, device=self.device)
        copy, own = (each.as_strided(tensor.shape, tensor.stride(), CANARIES) for each in (memory, used))
        copy.copy_(tensor)
        own.fill_(True)
        return memory, copy, used

    def touched(self) -> str:
        """Name the tensor of the last call that has something else beside it; "" where none has."""
        for position, (memory, _, used) in enumerate(self.copies):
            if (memory[~used] != 55).any():
                return f"memory beside tensor {position} was written"
        return ""
