"""Signatures of primitives: which element types operands and results have, as text that a verifier executes.

    condition: int1, then: any T, otherwise: T -> T

A place is `[name:] [scalar] type`, with `?` behind it if it may be left out, `...` if there may be any number of it. A
type is one of
  * alternatives of element types and of classes of them (`float32|float64`, `integer|int1`), perhaps with a variable
    that stands for the type found from then on;
  * a variable;
  * `*P`: the element type of the pointers P, perhaps with alternatives before it;
  * `~T`: a type as wide as T.

Classes are `any`, `number` (not the floats of 8 bits, which are kept in memory and computed in float32), `integer`,
`integer32` (of 32 and 64 bits), `float8` and `pointer`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from ninetoothed.dtypes import ALL, BY_NAME, DType, PointerType

ElementType = DType | PointerType

CLASSES: dict[str, Callable[[ElementType], bool]] = {
    "any": lambda dtype: True,
    "number": lambda dtype: isinstance(dtype, DType) and not dtype.is_float8,
    "float8": lambda dtype: isinstance(dtype, DType) and dtype.is_float8,
    "integer": lambda dtype: dtype.is_integer,
    "integer32": lambda dtype: dtype.is_integer and dtype.bits >= 32,
    "pointer": lambda dtype: isinstance(dtype, PointerType),
    **{name: partial(operator.eq, dtype) for name, dtype in BY_NAME.items()},
}


@dataclass(frozen=True)
class TypePattern:
    """The element types that a place takes: of some `classes`, or in a `relation` to the type of a `variable`."""

    classes: tuple[str, ...]
    variable: str
    relation: str = ""

    @classmethod
    def parse(cls, text: str) -> TypePattern:
        """Read a type; ValueError where it has no meaning."""
        *words, last = text.split()
        variable = last.lstrip("*~")
        if not variable.isupper():
            words, last, variable = [*words, last], "", ""
        classes, relation = tuple("|".join(words).split("|")) if words else (), last.removesuffix(variable)
        if len(words) > 1 or not set(classes) <= CLASSES.keys():
            raise ValueError(f"{text!r} is no type; classes are {', '.join(sorted(CLASSES))}")
        return cls(classes, variable, relation)

    @cached_property
    def types(self) -> frozenset[ElementType]:
        """The element types of its classes."""
        return frozenset(dtype for dtype in ALL if any(CLASSES[name](dtype) for name in self.classes))

    def matches(self, dtype: ElementType, found: dict[str, ElementType]) -> bool:
        """Tell whether a type fits, where variables stand for those `found` so far; adds its own."""
        if self.classes and not self._is_of_classes(dtype):
            return False
        if self.classes and not self.relation:
            if self.variable:
                found[self.variable] = dtype
            return True
        known = found.get(self.variable)
        if self.relation == "*":
            return isinstance(known, PointerType) and known.element == dtype
        return known is not None and (known.bits == dtype.bits if self.relation else known == dtype)

    def _is_of_classes(self, dtype: ElementType) -> bool:
        is_plain = isinstance(dtype, DType)
        return dtype in self.types if is_plain else any(CLASSES[name](dtype) for name in self.classes)

    def given(self, found: Mapping[str, ElementType]) -> ElementType | None:
        """Return the only type that fits, where variables stand for those `found`; None where several do."""
        known = found.get(self.variable)
        if self.relation:
            return known.element if isinstance(known, PointerType) else None
        return BY_NAME.get("".join(self.classes)) if self.classes else known


@dataclass(frozen=True)
class Place:
    """An operand or a result in a signature; `is_scalar`: it has no lanes, whatever the others have."""

    name: str
    type: TypePattern
    is_scalar: bool = False
    is_optional: bool = False
    is_repeated: bool = False

    @classmethod
    def parse(cls, text: str) -> Place:
        name, _, type = text.rpartition(":")
        type = type.strip()
        is_optional, is_repeated = type.endswith("?"), type.endswith("...")
        type = type.removesuffix("?").removesuffix("...")
        is_scalar = type.startswith("scalar ")
        pattern = TypePattern.parse(type.removeprefix("scalar "))
        return cls(name.strip(), pattern, is_scalar, is_optional, is_repeated)


@dataclass(frozen=True)
class Signature:
    """The operands and the results of a primitive.

    >>> Signature.parse("x: integer T, y: T -> T").takes((BY_NAME["int8"],) * 2, (BY_NAME["int8"],))
    True
    """

    text: str
    operands: tuple[Place, ...]
    results: tuple[Place, ...]

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a signature; ValueError where it has no meaning, or uses a variable that nothing stands for."""
        sides = [[part.strip() for part in side.split(",") if part.strip()] for side in text.split("->")]
        if len(sides) != 2:
            raise ValueError(f"a signature is `operands -> results`, not {text!r}")
        operands, results = (tuple(map(Place.parse, side)) for side in sides)
        known: set[str] = set()
        for place in (*operands, *results):
            if place.type.classes and not place.type.relation:
                known.add(place.type.variable)
            elif place.type.variable not in known:
                raise ValueError(f"nothing stands for {place.type.variable} in {text!r}")
        return cls(text, operands, results)

    def operand(self, position: int) -> Place | None:
        """Return the place of an operand; None if there is none so far behind. The last one may be repeated."""
        is_repeated = bool(self.operands) and self.operands[-1].is_repeated
        position = min(position, len(self.operands) - 1) if is_repeated else position
        return self.operands[position] if position < len(self.operands) else None

    def takes(self, operands: Sequence[ElementType], results: Sequence[ElementType]) -> bool:
        """Tell whether operands and results of these types are as many and of the types that they should be."""
        found: dict[str, ElementType] = {}
        return _match(self.operands, operands, found) and _match(self.results, results, found)

    def gives(self, operands: Sequence[ElementType]) -> list[ElementType] | None:
        """Return the types of results: what is left open is the first operand's. None if it takes no such operands."""
        found: dict[str, ElementType] = {}
        fits = _match(self.operands, operands, found)
        return [place.type.given(found) or operands[0] for place in self.results] if fits else None


def _match(places: tuple[Place, ...], types: Sequence[ElementType], found: dict[str, ElementType]) -> bool:
    if places and places[-1].is_repeated:
        places = (*places[:-1], *places[-1:] * (len(types) - len(places) + 1))
    needed = sum(not place.is_optional for place in places)
    if not needed <= len(types) <= len(places):
        return False
    return all(place.type.matches(type, found) for place, type in zip(places, types))


@dataclass(frozen=True)
class AttributeNames:
    """The attributes that an application must have, and those that it may have."""

    needed: frozenset[str]
    known: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> AttributeNames:
        """Read names, those that may be left out with `?`: `axis keep_dims?`."""
        names = text.split()
        return cls(
            frozenset(name for name in names if not name.endswith("?")),
            frozenset(name.removesuffix("?") for name in names),
        )

    def take(self, attributes: Mapping[str, object]) -> bool:
        """Tell whether nothing is missing, and nothing unknown."""
        return self.needed <= attributes.keys() <= self.known
