"""The class of the rows in `primitives.py`: the facts of a primitive, and the answers that follow from them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from ninetoothed.dtypes import (
    ALL,
    DType,
    described,
    float8e4nv,
    float16,
    float32,
    float64,
    int1,
    int64,
    nearest,
)
from ninetoothed.language import axis_rules
from ninetoothed.language.axes import Axes, Lanes, fit
from ninetoothed.language.axis_rules import AxisRule, Moves
from ninetoothed.language.signature import AttributeNames, ElementType, Place, Signature

BACKENDS = frozenset({"triton", "torch"})


class Effect(enum.Enum):
    """The effect of an application, besides its results."""

    NONE = "nothing: it may be left out, moved and repeated"
    READS = "reads memory"
    WRITES = "writes memory"
    UPDATES = "reads and writes memory in one step"
    CHECKS = "may stop the program"
    ORDERS = "lets threads wait for each other"
    DECLARED = "what its attribute `is_pure` says"

    @property
    def writes(self) -> bool:
        """Tell whether it changes what memory holds."""
        return self in (Effect.WRITES, Effect.UPDATES)

    @property
    def must_run(self) -> bool:
        """Tell whether an application must run even if nothing reads its results."""
        return self.writes or self in (Effect.CHECKS, Effect.ORDERS)


class Sign(enum.Enum):
    """The condition under which a result is not negative, given that no operand is."""

    UNKNOWN = "nothing is known"
    KEPT = "always"
    GROWING = "unless it overflows, which types of indices are taken not to"
    CONVERTED = "where the result's type holds the greatest number of the operand's"


# The number that, taken in, changes nothing: the least or the greatest of a type, or the same for every type.
Identity = int | bool | Literal["least", "greatest"]
Number = int | float | bool
Fold = Callable[..., Number]


class Typed(Protocol):
    """The type of an operand or of a result, such as `ir.TileType`."""

    @property
    def dtype(self) -> ElementType: ...

    @property
    def lanes(self) -> Lanes: ...


@dataclass(frozen=True)
class Gap:
    """Element types that GPUs of some architectures lack, of NVIDIA's; `remedy` says what to do instead."""

    types: tuple[DType, ...]
    architectures: range
    remedy: str


# Those of all that has a value of such a type, be it only loaded and stored.
GAPS = (Gap((float8e4nv,), range(89), "use float8_e5m2 or float16 there"),)


def lacking(
    gaps: tuple[Gap, ...], types: Iterable[ElementType], backend: str, architecture: int | str, what: str = ""
) -> str | None:
    """Say which type a backend lacks by some gaps, and what to do instead; None if it has all."""
    for gap in gaps if backend == "triton" and architecture else ():
        for dtype in types:
            if architecture in gap.architectures and dtype in gap.types:
                return f"{what}{dtype} is not there on GPUs of sm_{architecture}; {gap.remedy}"
    return None


@dataclass(frozen=True)
class Primitive:
    """A function of `ir.Apply`; ValueError, when it is made, where its facts are missing or contradict each other.

    signatures: alternatives for operands and results.
    axes: the signature of axes, or what gives it. moves: the lanes that it does not tell.
    identity: of a reduction or scan, and of a right operand; a bool is one for int1 alone.
    fold: makes the result of numbers that are known when compiling (bools of int1); None if nobody needs it.
    backends: those that have a lowering. `assign`, `count` and `passed` have none: the pass `overhang` takes them away.
    gaps: the types of its first operand that some GPUs lack.
    """

    name: str
    signatures: tuple[Signature, ...]
    attributes: AttributeNames
    doc: str
    effect: Effect = Effect.NONE
    axes: str | AxisRule = "... -> ..."
    moves: Moves | None = None
    identity: Identity | None = None
    is_commutative: bool = False
    sign: Sign = Sign.UNKNOWN
    fold: Fold | None = None
    backends: frozenset[str] = BACKENDS
    gaps: tuple[Gap, ...] = ()

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise ValueError(f"primitive {self.name!r} {fault}")

    def _faults(self) -> Iterator[str]:
        """Say what is missing, or contradicts something else."""
        has_effect = self.effect is not Effect.NONE
        places = [place for each in self.signatures for place in (*each.operands, *each.results)]
        if not (self.name and self.signatures and self.doc):
            yield "needs a name, signatures and a docstring"
        if not self.backends <= BACKENDS:
            yield f"names backends that do not exist: {sorted(self.backends - BACKENDS)}"
        if has_effect and not self.is_elementwise:
            yield "has an effect, but not lane by lane"
        if not has_effect and not self.results:
            yield "gives no results, and has no effect"
        if not has_effect and any(place.type.relation == "*" for place in places):
            yield "reads or writes where pointers point, and has no effect"
        if (self.effect is Effect.DECLARED) != ("is_pure" in self.attributes.needed):
            yield "must have the attribute `is_pure` if its effect is declared, and only then"
        if self.folds and (self.identity is None) != self.has_combine:
            yield "folds lanes: it needs an identity, or a combining function of the user's"
        if self.is_commutative and any(len(each.operands) != 2 for each in self.signatures):
            yield "is commutative, and has not two operands"

    @property
    def operands(self) -> tuple[Place, ...]:
        """The operands by the first signature."""
        return self.signatures[0].operands

    @property
    def results(self) -> tuple[Place, ...]:
        """The results by the first signature."""
        return self.signatures[0].results

    @property
    def signature(self) -> str:
        """Return all signatures as text."""
        return " or ".join(each.text for each in self.signatures)

    def refusal(self, operands: Sequence[Typed], results: Sequence[Typed], attributes: Mapping[str, Any]) -> str | None:
        """Say why no application may have operands, results and attributes of these types; None if one may."""
        if not self.attributes.take(attributes):
            known, needed = sorted(self.attributes.known), sorted(self.attributes.needed)
            return f"`{self.name}` has the attributes {sorted(attributes)}; it takes {known}, and needs {needed}"
        types = [[each.dtype for each in side] for side in (operands, results)]
        if not self.takes(*types):
            return f"`{self.name}` takes {self.signature}, and is given {_shown(*types)}"
        sources, targets = ([each.lanes for each in side] for side in (operands, results))
        if _has_tiled_scalar(self.operands, sources) or _has_tiled_scalar(self.results, targets):
            return f"`{self.name}` takes {self.signature}, and is given a tile for a scalar"
        if self.axes_of(sources, targets, attributes) is None:
            return (
                f"`{self.name}` has lanes that do not fit together: {_shown(sources, targets)} with {dict(attributes)}"
            )
        return None

    def axes_of(
        self, operands: Sequence[Lanes], results: Sequence[Lanes | None], attributes: Mapping[str, Any]
    ) -> Axes | None:
        """Name the axes of operands and results that have these lanes; None where these do not fit together.

        Lanes of a result that are None follow from those of the operands.
        """
        text = self.axes if isinstance(self.axes, str) else self.axes(operands, results, attributes)
        return None if text is None else fit(text, tuple(operands), tuple(results))

    def unfit(self, operands: Sequence[ElementType]) -> str | None:
        """Say which operand has a type that no signature takes in its place, and how to mend it; None if none has."""
        for position, dtype in enumerate(operands):
            taken = self._taken(position)
            if isinstance(dtype, DType) and taken and dtype not in taken:
                place = self.signatures[0].operand(position)
                is_element = place is not None and place.type.relation == "*"
                to = f"convert it with `.to(ntl.{nearest(dtype, taken)})`"
                remedy = "give it a tensor of such a type" if is_element else to
                return f"`{self.name}` takes {described(taken)}, not {dtype}; {remedy}"
        return None

    def _taken(self, position: int) -> tuple[DType, ...]:
        """List the types that an operand may have; none where pointers or the other operands decide."""
        places = [place for each in self.signatures if (place := each.operand(position)) is not None]
        if not all(place.type.classes for place in places):
            return ()
        taken = frozenset[DType]().union(*(place.type.types for place in places))
        return tuple(dtype for dtype in ALL if dtype in taken)

    @property
    def limits(self) -> str:
        """Say in a sentence which types it takes, and which some GPUs lack; "" if it takes all everywhere.

        Conditions may be of any type: the language converts them.
        """
        operands = [self._taken(position) for position in range(len(self.operands))]
        taken = next((each for each in operands if each not in ((), (int1,))), ALL)
        is_limited = not set(ALL) <= {each for each in ALL if each in taken or self._through_float32(each, taken)}
        said = [f"Takes {described(taken)}."] if is_limited and not self.is_of_floats else []
        for gap in self.gaps:
            first, last = gap.architectures[0], gap.architectures[-1]
            said.append(f"Not of {described(gap.types)} on GPUs of sm_{first} to sm_{last}.")
        return " ".join(said)

    def computed_in(self, dtype: DType) -> DType | None:
        """Return the type in which operands of a type are computed: their own, or float32 where only that is taken.

        None where the row takes neither: then the type is refused.
        """
        taken = self._taken(0)
        return dtype if dtype in taken else float32 if self._through_float32(dtype, taken) else None

    @staticmethod
    def _through_float32(dtype: DType, taken: Collection[DType]) -> bool:
        return dtype.is_half and float32 in taken

    def takes(self, operands: Sequence[ElementType], results: Sequence[ElementType]) -> bool:
        """Tell whether an application may have operands and results of these types, by one of the signatures."""
        return any(each.takes(operands, results) for each in self.signatures)

    def gives(self, operands: list[ElementType]) -> list[ElementType]:
        """Return the types of the results that follow from those of operands; the first's where it takes no such."""
        found = (each.gives(operands) for each in self.signatures)
        return next((each for each in found if each is not None), operands[:1] * len(self.results))

    def lacking(self, types: Iterable[ElementType], backend: str, architecture: int | str) -> str | None:
        """Say why a backend has no such function of a first operand of these types; None if it has.

        architecture: of the GPU, 90 for compute capability 9.0.
        """
        if backend not in self.backends:
            return f"`{self.name}` works on GPUs only, not on the CPU; call the kernel with CUDA tensors"
        return lacking(self.gaps, types, backend, architecture, f"`{self.name}` of ")

    @cached_property
    def is_elementwise(self) -> bool:
        """Tell whether each lane of the results comes from the same lane of every operand."""
        return isinstance(self.axes, str) and self.axes.endswith("... -> ...")

    @cached_property
    def is_map(self) -> bool:
        """Tell whether it only maps lanes to lanes, so that any part of a tile can be computed alone."""
        is_of_tiles = bool(self.operands) and not any(place.is_scalar for place in self.operands)
        return self.is_elementwise and self.effect is Effect.NONE and is_of_tiles

    @cached_property
    def is_comparison(self) -> bool:
        """Tell whether it compares pairs of numbers."""
        return self.is_map and [place.type.classes for place in self.results] == [("int1",)]

    @property
    def is_of_floats(self) -> bool:
        """Tell whether it maps float32 to float32 and float64 to float64, and takes nothing else."""
        types = [(dtype,) * len(self.operands) for dtype in (float32, float64, float16, int64)]
        return self.is_map and [self.takes(each, each[:1]) for each in types] == [True, True, False, False]

    @cached_property
    def computes_indices(self) -> bool:
        """Tell whether it computes an integer from integers, lane by lane."""
        return self.is_map and self.takes((int64,) * len(self.operands), (int64,))

    @cached_property
    def moves_lanes(self) -> bool:
        """Tell whether it only moves the lanes of one tile: with elements of any type there is no more to do."""
        is_one = len(self.operands) == len(self.results) == 1 and self.operands[0].type.classes == ("any",)
        return is_one and not self.is_elementwise

    @property
    def is_view(self) -> bool:
        """Tell whether its result could be a view of its operand."""
        return self.moves_lanes and self.moves in (None, axis_rules.reshaped)

    @property
    def folds(self) -> bool:
        """Tell whether it combines the lanes along an axis: all of them, or those up to each."""
        return self.axes is axis_rules.reduction or self.is_scan

    @property
    def is_scan(self) -> bool:
        """Tell whether it combines each lane with those before it along an axis."""
        return self.axes is axis_rules.along and self.moves is None

    @property
    def has_combine(self) -> bool:
        """Tell whether it combines lanes by a function of the user's, its attribute `combine`."""
        return "combine" in self.attributes.needed

    @property
    def is_masked(self) -> bool:
        """Tell whether a last operand may leave out lanes."""
        return bool(self.operands) and self.operands[-1].name == "mask"


def _has_tiled_scalar(places: tuple[Place, ...], lanes: Sequence[Lanes]) -> bool:
    """Tell whether what is to be a scalar has lanes."""
    return any(own and place.is_scalar for place, own in zip(places, lanes, strict=False))


def _shown(operands: Iterable[object], results: Iterable[object]) -> str:
    return f"{', '.join(map(str, operands))} -> {', '.join(map(str, results))}"
