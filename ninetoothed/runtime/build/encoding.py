"""Decode machine code for Hopper from its bits: quickly, and coarsely.

nvdisasm takes a quarter of a second before it looks at its first instruction. Here an instruction is known by little
more than the places in its bits where registers stand. It may write four registers from the one at the place of its
result, and may read four from each at any place, even where a number stands there; only common operations are known
better. Nothing is sure to be written, and nothing can be told of values. So an instruction touches at least the
registers that it touches in `sass`: where `wgmma` finds no fault in these bits, it finds none in the text; where it
does, the text decides.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ninetoothed.runtime.build.code import Code, Instruction, Wgmma

_ZERO = 0xFF  # the register that is always 0
_ALWAYS = 7  # the predicate that is always true

# The lowest 12 bits are the operation: 9 that name it, and its form, which says where numbers stand.
_BRANCH, _EXIT, _WARPGROUP = 0x947, 0x94D, 0x9C5
_WGMMAS = {0xDF0: 4, 0x9F0: 0}  # HGMMA: how many registers its left operand takes
_TYPES = (0x08, 0x18)  # of float16, and of bfloat16, added up in float32
_ARRIVE, _WAIT = 0, 1 << 31
# By name, those of the warpgroup, and those that change the flow or call.
_UNKNOWN = frozenset({*range(0x140, 0x160), *range(0x1F0, 0x200), 0x1C5})


@dataclass(frozen=True)
class _Rule:
    """Tell how many registers an operation writes, at which bits those stand that it reads, and how many from each.

    varies: whether a number stands at bit 32 instead, but for form 1.
    """

    writes: int
    places: tuple[int, ...] = ()
    width: int = 1
    varies: bool = False


_ANY = _Rule(4, (16, 24, 32, 64), 4)  # what is stored may stand where results do
_RULES = {
    **dict.fromkeys(
        (
            *(0x002, 0x003, 0x007, 0x008, 0x009),  # MOV, P2R, SEL, FSEL, FMNMX
            *(0x010, 0x011, 0x012, 0x016, 0x019, 0x01A),  # IADD3, LEA, LOP3, PRMT, SHF, SGXT
            *(0x020, 0x021, 0x023, 0x024),  # FMUL, FADD, FFMA, IMAD
            *(0x030, 0x032, 0x035, 0x036, 0x03E, 0x108),  # HADD2, HMUL2, HFMA2, VIADD, F2FP, MUFU
        ),
        _Rule(1, (24, 32, 64), varies=True),
    ),
    **dict.fromkeys((0x00B, 0x00C), _Rule(0, (24, 32), varies=True)),  # FSETP, ISETP
    **dict.fromkeys(
        (
            *(0x082, 0x086, 0x087, 0x08C, 0x090, 0x091, 0x092),  # UMOV, VOTEU, USEL, UISETP, UIADD3, ULEA, ULOP3
            *(0x097, 0x099, 0x09A, 0x0A4, 0x0A5, 0x0B9),  # UIADD3, USHF, USGXT, UIMAD, UIMAD.WIDE, ULDC
            *(0x1B4, 0x1B5, 0x1B7, 0x1C3),  # UTMALDG, UTMASTG, UTMACMDFLUSH, S2UR
        ),
        _Rule(0),  # no registers of threads
    ),
    0x0CA: _Rule(0, (24,)),  # R2UR
    0x189: _Rule(1, (24, 32, 64)),  # SHFL
    **dict.fromkeys((0x1A7, 0x1B1, 0x1B2), _Rule(4, (24, 32), 4)),  # SYNCS
}


def functions(cubin: bytes) -> dict[str, Code]:
    """Return the functions of a cubin by name; LookupError for wgmmas and jumps that are not known here."""
    return {name: _function(code) for name, code in _sections(cubin)}


def _sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the machine code of each function of an ELF file."""
    (start,), (size, count, names) = struct.unpack_from("<Q", cubin, 0x28), struct.unpack_from("<3H", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + size * n) for n in range(count)]
    for name, _, _, _, offset, length in headers:
        begin = headers[names][4] + name
        section = cubin[begin : cubin.index(b"\0", begin)].decode()
        if section.startswith(".text."):
            yield section.removeprefix(".text."), cubin[offset : offset + length]


def _function(code: bytes) -> Code:
    words = [low | high << 64 for low, high in struct.iter_unpack("<QQ", code)]
    instructions = [_instruction(n, word) for n, word in enumerate(words)]
    labels = {label: int(label) for each in instructions for label in each.targets}
    if not set(labels.values()) <= set(range(len(instructions))):
        raise LookupError("a branch leaves the function")
    return Code(instructions, list(labels.items()))


def _instruction(n: int, word: int) -> Instruction:
    """Decode one instruction of Hopper; `n` is its number."""
    operation, text = word & 0xFFF, f"{word:032x}"
    is_guarded = _bits(word, 12, 4) != _ALWAYS
    # A second predicate guards jumps, too.
    if operation == _BRANCH and _bits(word, 24, 8) == 0 and _bits(word, 82, 9) == _ALWAYS << 5:
        return Instruction(text, targets=(str(n + 1 + _distance(word)),), falls=is_guarded)
    if operation == _EXIT and _bits(word, 87, 4) == _ALWAYS:
        return Instruction(text, falls=is_guarded)
    if operation == _WARPGROUP and not is_guarded and _bits(word, 16, 48) in (_ARRIVE, _WAIT):
        return Instruction(text, waits=_bits(word, 72, 8) if _bits(word, 16, 48) else None)
    if operation in _WGMMAS and not is_guarded and _bits(word, 72, 8) in _TYPES and _bits(word, 84, 3) in (0, 7):
        return _wgmma(text, word)
    if operation & 0x1FF in _UNKNOWN:
        raise LookupError(f"{text} is not known")
    return _plain(text, word)


def _wgmma(text: str, word: int) -> Instruction:
    columns = 8 * (_bits(word, 53, 5) + 1)
    accumulator = _registers(word, 16, columns // 2)
    wgmma = Wgmma(f"64x{columns}x16", _registers(word, 24, _WGMMAS[word & 0xFFF]), accumulator)
    reads = frozenset((*wgmma.left, *accumulator))
    return Instruction(text, frozenset(accumulator), reads, wgmma=wgmma, commits=_bits(word, 84, 3) == 0)


def _plain(text: str, word: int) -> Instruction:
    rule = _RULES.get(word & 0x1FF, _ANY)
    places = (place for place in rule.places if not (rule.varies and place == 32 and _bits(word, 9, 3) != 1))
    reads = frozenset(register for place in places for register in _registers(word, place, rule.width))
    writes = frozenset(_registers(word, 16, rule.writes))
    return Instruction(text, writes, reads, is_conditional=True, is_opaque=True)


def _registers(word: int, place: int, count: int) -> tuple[str, ...]:
    first = _bits(word, place, 8)
    return tuple(f"R{first + k}" for k in range(count)) if first != _ZERO else ()


def _distance(word: int) -> int:
    """Return how many instructions, of 16 bytes, a branch skips: the bits tell it in units of 4 bytes, signed."""
    distance = _bits(word, 34, 48) << 8 | _bits(word, 16, 8)
    return (distance - (_bits(word, 81, 1) << 56)) // 4


def _bits(word: int, first: int, count: int) -> int:
    return word >> first & (1 << count) - 1
