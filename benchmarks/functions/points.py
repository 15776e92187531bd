"""Arguments over the whole range of a type: each exponent with both signs, denormal numbers, infinities, NaN, zeros."""

from __future__ import annotations

import torch

Tensor = torch.Tensor
# Where functions turn, and what is next to it.
SPECIAL = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 10.0, 17.0, 100.0, 1e5, torch.inf, torch.nan)
_BITS = {torch.float16: (torch.int16, 10), torch.bfloat16: (torch.int16, 7),
         torch.float32: (torch.int32, 23), torch.float64: (torch.int64, 52)}  # fmt: skip


def specials(dtype: torch.dtype) -> Tensor:
    """Return special numbers, their neighbours, and those at the ends of the range, of both signs."""
    numbers = torch.tensor(SPECIAL, dtype=dtype)
    ends = torch.finfo(dtype)
    tiny = torch.zeros((), dtype=dtype).nextafter(torch.ones((), dtype=dtype)) if dtype != torch.float16 else 2.0**-24
    numbers = torch.cat(
        [numbers, torch.tensor([ends.max, ends.tiny, ends.tiny / 2, float(tiny), ends.eps], dtype=dtype)]
    )
    bits = numbers.view(_BITS[dtype][0])
    finite = numbers.isfinite() & (numbers != 0)
    numbers = torch.cat([numbers, (bits[finite] - 1).view(dtype), (bits[finite] + 1).view(dtype)])
    return torch.cat([numbers, -numbers])


def numbers(dtype: torch.dtype, mantissas: int = 16, every: int = 1) -> Tensor:
    """Return all of 16 bits; of wider types every `every`-th exponent with random mantissas, and special numbers."""
    bits, digits = _BITS[dtype]
    width = torch.finfo(dtype).bits
    if width == 16:
        return torch.arange(-(2**15), 2**15).to(bits).view(dtype)
    generator = torch.Generator().manual_seed(0)
    exponents = torch.arange(0, 2 ** (width - 1 - digits), every).repeat_interleave(mantissas)
    mantissa = torch.randint(0, 2**digits, exponents.shape, generator=generator)
    positive = ((exponents << digits) | mantissa).to(bits).view(dtype)
    # Most functions turn between 2^-20 and 2^20.
    near = torch.exp2(torch.rand(1500 if width == 32 else 300, generator=generator, dtype=torch.float64) * 40 - 20).to(
        dtype
    )
    return torch.cat([positive, -positive, near, -near, specials(dtype)])


def operands(dtype: torch.dtype, count: int, size: int = 160) -> list[Tensor]:
    """Return as many operands of floats: all pairs of some numbers for two, random ones for more."""
    if count == 1:
        return [numbers(dtype)]
    generator = torch.Generator().manual_seed(count)
    some = numbers(dtype)
    some = some[torch.randperm(len(some), generator=generator)[:size]]
    some = torch.cat([some, specials(dtype)])
    if count == 2:
        x, y = (each.flatten() for each in torch.meshgrid(some, some, indexing="ij"))
        near = numbers(dtype)
        return [torch.cat([x, near]), torch.cat([y, near * 1.25])]
    return [some[torch.randint(0, len(some), (8000,), generator=generator)] for _ in range(count)]


def integers(dtype: torch.dtype, count: int) -> list[Tensor]:
    """Return as many operands of integers: small ones, those at the ends, and bits at random."""
    generator = torch.Generator().manual_seed(count)
    info = torch.iinfo(dtype)
    ends = torch.tensor([info.min, info.min + 1, info.max // 2, info.max // 2 + 1, info.max - 1, info.max], dtype=dtype)
    bits = torch.randint(-(2**31), 2**31, (2000, info.bits // 32), generator=generator, dtype=torch.int32)
    # Bits of all lengths.
    drawn = bits.view(torch.int64).flatten() if info.bits == 64 else bits.flatten().long()
    lengths = torch.randint(0, info.bits, drawn.shape, generator=generator)
    drawn = torch.cat([drawn >> lengths, torch.arange(-40, 40) if info.min else torch.arange(80)])
    signed = {32: torch.int32, 64: torch.int64}[info.bits]
    all_ = torch.cat([ends, drawn.to(signed).view(dtype)])
    return (
        [all_[torch.randint(0, len(all_), (5000,), generator=generator)] for _ in range(count)] if count > 1 else [all_]
    )
