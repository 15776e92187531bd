"""Random pairs of kernels, fused by `ninetoothed.fuse`, against the two of them one after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

import ninetoothed
from ninetoothed import FusionError, Tensor
from ninetoothed.errors import NineToothedError

from .applications import function
from .parts import Case

PAIRS = 10
TYPES = {
    name: getattr(torch, name) for name in "int8 uint8 int16 int32 int64 float16 bfloat16 float32 float64 bool".split()
}
BINARY = ("({} + {})", "({} - {})", "({} * {})", "ntl.maximum({}, {})", "ntl.where({} > {}, 2, 5)")
UNARY = ("ntl.abs({})", "(-{})", "ntl.exp({} * 0.125)", "({} * 0.5)", "({} + 0.125)", "{}.to(ntl.{type})")
FOLDS = ("ntl.sum({})", "ntl.max({})", "ntl.min({})")
SCANS = ("ntl.cumsum({}, axis=0)", "ntl.sort({})", "ntl.argmax({}, axis=0)")


@dataclass(frozen=True)
class Cut:
    """How tensors of a pair are cut: by the meta-operations of `text`, and `stored`, a text for what second stores."""

    shape: tuple[int, ...]
    text: str
    stored: str
    stored_shape: tuple[int, ...]
    rank: int


def random_cut(rng: random.Random) -> Cut:
    """An arrangement of tensors of one or two dimensions."""
    rank = rng.choice((1, 1, 2))
    shape = tuple(rng.randint(1, 11) for _ in range(rank))
    block = tuple(rng.choice((1, 2, 3, 4, 5, 8)) for _ in shape)
    wide = tuple(b + rng.randint(0, 2) for b in block)
    kind = rng.choice(("tiles", "tiles", "whole", "rows", "padded", "strided", "flipped", "turned", "apart"))
    text, stored, stored_shape = f"{{}}.tile({block})", "", shape
    match kind:
        case "whole":
            text = f"{{}}.tile({(-1,) * rank})"
        case "rows" if rank == 2:
            text = "squeezed({}.tile((1, -1)))"
            rank = 1
        case "padded":
            before, after = rng.randint(0, 2), rng.randint(1, 2)
            text = f"{{}}.pad({((before, after),) * rank}).tile({block})"
            stored, stored_shape = f"{{}}.tile({block})", tuple(n + before + after for n in shape)
        case "strided":
            text = f"{{}}.tile({block}, strides={wide}, floor_mode={rng.random() < 0.3})"
        case "flipped":
            text = f"{{}}[{', '.join(('::-1',) * rank)}].tile({block})"
        case "turned" if rank == 2:
            text = f"{{}}.permute((1, 0)).tile({block})"
        case "apart":
            wide = tuple(b + 1 for b in block)
            stored = f"{{}}.tile({block}, strides={wide})"
            stored_shape = tuple(-(-n // b) * w - 1 for n, b, w in zip(shape, block, wide, strict=True))
    return Cut(shape, text, stored or text, stored_shape, rank)


class Writer:
    """Writes statements over parameters that are tiles of one shape."""

    def __init__(self, rng: random.Random, rank: int):
        self.rng, self.rank = rng, rank

    def expression(self, atoms: list[str], depth: int = 0) -> str:
        kind = self.rng.random()
        if depth > 2 or kind < 0.2:
            return self.rng.choice(atoms)
        if kind < 0.5:
            a, b = self.expression(atoms, depth + 1), self.expression(atoms, depth + 1)
            return self.rng.choice(BINARY).format(a, self.rng.choice((b, "3")))
        inner = self.expression(atoms, depth + 1)
        if kind < 0.8 or not self.rank:
            return self.rng.choice(UNARY).format(inner, type=self.rng.choice([t for t in TYPES if t != "bool"]))
        # A fold takes a tile, which an inner one may not be.
        return self.rng.choice(FOLDS + SCANS if self.rank == 1 else FOLDS).format(
            f"({inner} + {self.rng.choice(atoms)})"
        )

    def statements(self, inputs: list[str], outputs: list[str]) -> list[str]:
        """Assign each output, which later statements may read and assign again."""
        lines, atoms = [], [*inputs]
        for output in outputs:
            value = self.rng.choice(("2", f"ntl.sum({inputs[0]})", *[self.expression(atoms) for _ in range(4)]))
            lines.append(f"{output} = {value}")
            atoms.append(output)
            if self.rng.random() < 0.25:
                lines.append(f"{output} = {self.expression(atoms)}")
        return lines


@dataclass(frozen=True)
class Pair:
    """Two kernels as texts, the types of their tensors, what goes through, and what is kept."""

    cut: Cut
    first: tuple[list[str], list[str], list[str]]
    second: tuple[list[str], list[str], list[str]]
    through: dict[str, str]
    keep: tuple[str, ...]
    types: dict[str, str]
    declared: dict[str, str]
    other: dict[str, int]


def write(seed: int) -> Pair:
    """The pair of a seed."""
    rng = random.Random(seed)
    cut = random_cut(rng)
    writer = Writer(rng, cut.rank)
    between = ["m"] + ["n"] * (rng.random() < 0.3)
    before = ["a", "b"][: rng.randint(1, 2)]
    after = ["x", "w"] if len(between) == 2 or rng.random() < 0.2 else ["x"]
    through = dict(zip(after, (between * 2)[: len(after)], strict=True))
    more = ["c"] * (rng.random() < 0.4)
    first = (before, between, writer.statements(before, between))
    inputs = [*after, *more]
    second = (inputs, ["z"], writer.statements(inputs, ["z"]))
    types = {name: rng.choice(list(TYPES)) for name in "abczmn"}
    declared = {name: rng.choice(list(TYPES)) for name in between if rng.random() < 0.5}
    other = {name: rng.choice((1, 2)) for name in after if rng.random() < 0.15}
    keep = tuple(name for name in dict.fromkeys(through.values()) if rng.random() < 0.3)
    # A tensor is read alike, whoever reads it.
    other = {} if keep or len(set(through.values())) < len(through) else other
    return Pair(cut, first, second, through, keep, types, declared, other)


def kernel(name: str, pair: Pair, seed: int):
    """One of the two kernels."""
    inputs, outputs, lines = getattr(pair, name)
    names = [*inputs, *outputs]
    text = f"def {name}({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in lines)
    application = function(text, name, f"{seed} {name}")

    def squeezed(tensor):
        tensor.dtype = tensor.dtype.squeeze(0)
        return tensor

    def arrangement(*tensors):
        cuts = [pair.cut.stored if own == "z" else pair.cut.text for own in names]
        scope = {"squeezed": squeezed}
        return tuple(eval(cut.format("t"), {**scope, "t": t}) for cut, t in zip(cuts, tensors, strict=True))

    declared = {**pair.declared, **{x: pair.declared[m] for x, m in pair.through.items() if m in pair.declared}}
    rank = len(pair.cut.shape)
    tensors = tuple(
        Tensor(rank, dtype=TYPES[declared[own]] if own in declared else None, other=pair.other.get(own))
        for own in names
    )
    return ninetoothed.make(arrangement, application, tensors, kernel_name=name)


def type_between(pair: Pair, name: str) -> str:
    """The type of a tensor between: its own, the one declared, or the highest of those arranged alike, z first."""
    if name in pair.declared or name in pair.keep:
        return pair.types[name] if name in pair.keep else pair.declared[name]
    alike = [pair.types["z"]] if pair.cut.stored == pair.cut.text else []
    alike += [type_between(pair, each) for each in pair.first[1] if each in pair.keep]
    alike += [pair.types[each] for each in pair.second[0] if each not in pair.through]
    return max([*alike, *(pair.types[each] for each in pair.first[0])], key=kind_of)


def kind_of(name: str) -> int:
    return 2 if "float" in name else int(name != "bool")


def filled(rng: random.Random, shape, name: str) -> torch.Tensor:
    """Numbers that types round differently, or not at all."""
    numbers = rng.choices((0, 1, 2, 3, 5, 7, 100, 1.125, 2.5, 0.375, 257), k=max(torch.Size(shape).numel(), 1))
    numbers = torch.tensor(numbers[: torch.Size(shape).numel()], dtype=torch.float64).reshape(shape)
    return (numbers * rng.choice((1, 1, -1))).to(TYPES[name]) if name[0] != "u" else numbers.to(torch.uint8)


def check(seed: int) -> Case | None:
    """Compare the pair of a seed; None where it is refused."""
    pair, rng = write(seed), random.Random(seed)
    described = f"{seed}: {pair}"
    try:
        first, second = (kernel(name, pair, seed) for name in ("first", "second"))
        shape = pair.cut.shape
        given = {name: filled(rng, shape, pair.types[name]) for name in "abc"}
        between = {name: torch.full(shape, 77).to(TYPES[type_between(pair, name)]) for name in pair.first[1]}
        expected = torch.full(pair.cut.stored_shape, 99).to(TYPES[pair.types["z"]])
        first(*(given[name] for name in pair.first[0]), *between.values())
        sources = {**given, **{x: between[m] for x, m in pair.through.items()}}
        second(*(sources[name] for name in pair.second[0]), expected)
    except NineToothedError:
        return None  # Neither works one after the other.
    found, kept = torch.full(pair.cut.stored_shape, 99).to(expected.dtype), {}
    try:
        fused = ninetoothed.fuse(first, second, pair.through, keep=pair.keep)
        kept = {name: torch.full(shape, 77).to(tensor.dtype) for name, tensor in between.items()}
        own = {**given, **kept, "z": found}
        fused(*(own[parameter.name] for parameter in fused.definition.parameters))
    except FusionError:
        return None
    except Exception as error:
        if "say of which type" in str(error):
            return None  # What the first computes is of a higher kind than any tensor.
        return Case(described, f"{type(error).__name__}: {error}")
    wrong = [] if torch.equal(bits(found), bits(expected)) else [f"z: {found} instead of {expected}"]
    wrong += [
        f"{name}: {kept[name]} instead of {between[name]}"
        for name in pair.keep
        if not torch.equal(bits(kept[name]), bits(between[name]))
    ]
    return Case(described, "; ".join(wrong))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers, each NaN as the same one."""
    return tensor.double().nan_to_num(12345.0, 1e300, -1e300) if tensor.is_floating_point() else tensor


def cases(seed: int) -> Iterator[Case]:
    """Yield the pairs of a seed that are not refused."""
    found = (check(seed * PAIRS + i) for i in range(PAIRS))
    yield from (case for case in found if case is not None)
