"""Counter-based random numbers: Philox 4x32, with the very bits that Triton gives for a seed and an offset."""

from __future__ import annotations

import torch

from ninetoothed import dtypes, ir
from ninetoothed.backends.torch.bits import upper_half64
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import bitcast

_MASK = 0xFFFFFFFF
_KEYS = 0x9E3779B9, 0xBB67AE85
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEYS64 = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_MULTIPLIERS64 = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_ROUNDS = 10


def _philox(programs: ProgramSlice, operation: ir.Apply) -> list[torch.Tensor]:
    """Compute four uint32 (in int64) for each offset."""
    seed, offset = (programs.tensor(value) for value in operation.operands)
    seed = _beside(seed, offset, programs.rank).to(torch.int64)
    wide = operation.operands[1].type.dtype.bits > 32
    offset = offset.to(torch.int64)
    zero = torch.zeros_like(offset)
    counters = [offset & _MASK, (offset >> 32) & _MASK if wide else zero, zero, zero]
    return _rounds(counters, [seed & _MASK, (seed >> 32) & _MASK], operation)


def _beside(number: torch.Tensor, tile: torch.Tensor, rank: int) -> torch.Tensor:
    """Give a number of each program the axes of a tile."""
    return number.reshape(*number.shape[:rank], *(1,) * (tile.dim() - rank))


def _rounds(counters: list[torch.Tensor], keys: list[torch.Tensor], operation: ir.Apply) -> list[torch.Tensor]:
    """Mix counters by keys, all of 32 bits in int64."""
    (c0, c1, c2, c3), (k0, k1) = counters, keys
    for _ in range(operation.attribute("n_rounds") or _ROUNDS):
        # A product of 32 bits by 32 wraps in int64, and its two halves are right all the same.
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c2 = ((second >> 32) & _MASK) ^ c1 ^ k0, ((first >> 32) & _MASK) ^ c3 ^ k1
        c1, c3 = second & _MASK, first & _MASK
        k0, k1 = (k0 + _KEYS[0]) & _MASK, (k1 + _KEYS[1]) & _MASK
    return [c0, c1, c2, c3]


def _philox_impl(programs: ProgramSlice, operation: ir.Apply) -> list[torch.Tensor]:
    k0, k1, *counters = (programs.tensor(value) for value in operation.operands)
    counters = list(torch.broadcast_tensors(*counters))
    keys = [_beside(key, counters[0], programs.rank) for key in (k0, k1)]
    if operation.operands[0].type.dtype.bits == 32:
        return _rounds(counters, keys, operation)
    return _rounds64(counters, keys, operation)


def _rounds64(counters: list[torch.Tensor], keys: list[torch.Tensor], operation: ir.Apply) -> list[torch.Tensor]:
    """Mix counters by keys of 64 bits, which are held as int64: sums and products wrap."""
    (c0, c1, c2, c3), (k0, k1) = counters, keys
    first_factor, second_factor, first_step, second_step = (
        torch.tensor(number - 2**64, device=c0.device) for number in (*_MULTIPLIERS64, *_KEYS64)
    )
    for _ in range(operation.attribute("n_rounds") or _ROUNDS):
        first, second = upper_half64(first_factor, c0), upper_half64(second_factor, c2)
        c0, c1, c2, c3 = second ^ c1 ^ k0, second_factor * c2, first ^ c3 ^ k1, first_factor * c0
        k0, k1 = k0 + first_step, k1 + second_step
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
    "philox_impl": _philox_impl,
}
