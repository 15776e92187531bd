"""Counter-based random numbers: Philox 4x32, with the very bits that Triton gives for a seed and an offset."""

from __future__ import annotations

import torch

from ninetoothed import dtypes, ir
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import bitcast

_MASK = 0xFFFFFFFF
_KEYS = 0x9E3779B9, 0xBB67AE85
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_ROUNDS = 10


def _philox(programs: ProgramSlice, operation: ir.Apply) -> list[torch.Tensor]:
    """Compute four uint32 (in int64) for each offset."""
    seed, offset = (programs.tensor(value) for value in operation.operands)
    seed = seed.to(torch.int64).reshape(*seed.shape[: programs.rank], *(1,) * (offset.dim() - programs.rank))
    wide = operation.operands[1].type.dtype.bits > 32
    offset = offset.to(torch.int64)
    zero = torch.zeros_like(offset)
    c0, c1, c2, c3 = offset & _MASK, (offset >> 32) & _MASK if wide else zero, zero, zero
    k0, k1 = seed & _MASK, (seed >> 32) & _MASK
    for _ in range(operation.attribute("n_rounds") or _ROUNDS):
        # A product of 32 bits by 32 wraps in int64, and its two halves are right all the same.
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c2 = ((second >> 32) & _MASK) ^ c1 ^ k0, ((first >> 32) & _MASK) ^ c3 ^ k1
        c1, c3 = second & _MASK, first & _MASK
        k0, k1 = (k0 + _KEYS[0]) & _MASK, (k1 + _KEYS[1]) & _MASK
    return [c0, c1, c2, c3]


def _uniform(bits: torch.Tensor) -> torch.Tensor:
    """Turn bits into float32 in [0, 1)."""
    signed = bits.to(torch.int32)
    return torch.where(signed < 0, -signed - 1, signed).to(torch.float32) * torch.tensor(4.6566127342e-10, device="cpu")


def _rand(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    return _uniform(_philox(programs, operation)[0])


def _randn(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    """Draw by Box-Muller: sqrt(-2 log u) cos(2 pi v)."""
    u, v = (_uniform(bits) for bits in _philox(programs, operation)[:2])
    return torch.sqrt(-2.0 * torch.log(u.clamp_min(1.0e-7))) * torch.cos(6.283185307179586 * v)


def _integers(programs: ProgramSlice, operation: ir.Apply) -> list[torch.Tensor]:
    return [
        bitcast(bits, dtypes.uint32, result.type.dtype)
        for bits, result in zip(_philox(programs, operation), operation.results)
    ]


RANDOM = {
    "rand": _rand,
    "randn": _randn,
    "randint": lambda programs, operation: _integers(programs, operation)[0],
    "randint4x": _integers,
}
