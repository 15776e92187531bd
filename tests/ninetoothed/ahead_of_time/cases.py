"""Kernels for a GPU that is there, and a call of each, with what it computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional


@dataclass(frozen=True)
class Case:
    """A call of the kernel that `kernel` makes, which fills `output`; the reference is that of float64."""

    kernel: str
    arguments: tuple
    output: torch.Tensor
    reference: Callable[[], torch.Tensor]

    def error(self) -> float:
        """How far the output is from the reference, in the norm of all elements."""
        expected = self.reference()
        return ((self.output.double() - expected).norm() / expected.norm()).item()


def definition(kernel):
    from ninetoothed_ops.kernels import add, mm, sdpa, softmax

    made = {"add": lambda: add.make(1), "softmax": lambda: softmax.make(2), "mm": mm.make, "sdpa": sdpa.make}
    return made[kernel]().definition


NAMES = ("add", "softmax", "mm", "mm_in_parts", "sdpa")


def cases(device="cuda"):
    """Small ones: `mm` is behind descriptors, `mm_in_parts` has a workspace and semaphores."""

    def halves(*shape):
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float16)

    generator = torch.Generator(device).manual_seed(0)
    x, y, z = halves(100_001), halves(100_001), halves(100_001)
    rows, normal = halves(513, 1024), halves(513, 1024)
    a, b, c = halves(2048, 1024), halves(1024, 2048), halves(2048, 2048)
    d, e, f = halves(64, 16384) / 32, halves(16384, 64), halves(64, 64)
    q, k, v, o = (halves(1, 8, 1024, 64) for _ in range(4))
    mask = torch.zeros(1, dtype=torch.float16, device=device).expand(1, 8, 1024, 1024)
    return {
        "add": Case("add", (x, y, 1.0, z), z, lambda: x.double() + y.double()),
        "softmax": Case("softmax", (rows, normal), normal, lambda: torch.softmax(rows.double(), -1)),
        "mm": Case("mm", (a, b, c), c, lambda: a.double() @ b.double()),
        "mm_in_parts": Case("mm", (d, e, f), f, lambda: d.double() @ e.double()),
        "sdpa": Case("sdpa", (q, k, v, mask, 0.125, o, 0, True), o, lambda: _attention(q, k, v)),
    }


def _attention(q, k, v):
    return functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
