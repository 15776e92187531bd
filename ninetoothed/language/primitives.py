"""The primitives: functions of `ir.Apply` to which the frontend reduces `FUNCTIONS`, one row each.

All that is true of a primitive stands in its row: `verify`, the frontend, the passes and the backends ask it, and keep
no tables of names. Primitives are strictly typed: their operands have been cast and broadcast.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ninetoothed.dtypes import int64
from ninetoothed.language import lane_rules
from ninetoothed.language.lane_rules import LaneRule, Lanes
from ninetoothed.language.signature import AttributeNames, ElementType, Place, Signature

BACKENDS = frozenset({"triton", "torch"})
TRITON_ONLY = frozenset({"triton"})


class Form(enum.Enum):
    """How the lanes of results come from those of operands."""

    ELEMENTWISE = "each from the same lane of every operand"
    BROADCAST = "an operand's, in their order, repeated along other axes"
    VIEW = "an operand's, each once, in an order that strides can express"
    SHUFFLE = "the operands', at other places"
    REDUCTION = "one from all lanes along an axis, or from all"
    SCAN = "each from the lanes up to it along an axis"
    SORT = "an operand's, in the order of their values along the last axis"
    HISTOGRAM = "one a number, which counts the lanes that hold it"
    PRODUCT = "one from a row of the left operand and a column of the right"


class Effect(enum.Enum):
    """What an application does beside giving results."""

    NONE = "nothing: it may be left out, moved and repeated"
    READS = "reads memory"
    WRITES = "writes memory"
    UPDATES = "reads and writes memory in one step"
    CHECKS = "may stop the program"
    ORDERS = "lets threads wait for each other"
    DECLARED = "what its attribute `is_pure` says"

    @property
    def writes(self) -> bool:
        """Whether it changes what memory holds."""
        return self in (Effect.WRITES, Effect.UPDATES)

    @property
    def must_run(self) -> bool:
        """Whether it matters that an application runs, whoever reads its results."""
        return self.writes or self in (Effect.CHECKS, Effect.ORDERS)


class Sign(enum.Enum):
    """When a result is not negative, given that no operand is."""

    UNKNOWN = "nothing is known"
    KEPT = "always"
    GROWING = "unless it overflows, which types of indices are taken not to"
    CONVERTED = "where the result's type holds the greatest number of the operand's"


# The number that, taken in, changes nothing: the least or the greatest of a type, or the same for every type.
Identity = int | bool | Literal["least", "greatest"]


class Typed(Protocol):
    """The type of an operand or of a result, such as `ir.TileType`."""

    @property
    def dtype(self) -> ElementType: ...

    @property
    def lanes(self) -> Lanes: ...


@dataclass(frozen=True)
class Primitive:
    """A function of `ir.Apply`; ValueError, when it is made, where its facts are missing or contradict each other.

    signatures: alternatives for operands and results.
    lanes: whether the lanes of operands and results fit together.
    identity: of a reduction or scan, and of a right operand; a bool is one for int1 alone.
    backends: those that have a lowering. `assign` has none: the pass `overhang` takes it away.
    """

    name: str
    form: Form
    effect: Effect
    signatures: tuple[Signature, ...]
    lanes: LaneRule
    attributes: AttributeNames
    doc: str
    identity: Identity | None = None
    is_commutative: bool = False
    sign: Sign = Sign.UNKNOWN
    backends: frozenset[str] = BACKENDS

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise ValueError(f"primitive {self.name!r} {fault}")

    def _faults(self) -> Iterator[str]:
        """Say what is missing, or contradicts something else."""
        has_effect, folds = self.effect is not Effect.NONE, self.form in (Form.REDUCTION, Form.SCAN)
        places = [place for each in self.signatures for place in (*each.operands, *each.results)]
        if not (self.name and self.signatures and self.doc):
            yield "needs a name, signatures and a docstring"
        if not self.backends <= BACKENDS:
            yield f"names backends that do not exist: {sorted(self.backends - BACKENDS)}"
        if self.is_elementwise and self.lanes not in (lane_rules.same, lane_rules.assign):
            yield f"has the form {self.form.name}, and lanes by the rule {self.lanes.__name__!r}"
        if has_effect and not self.is_elementwise:
            yield "has an effect, but not lane by lane"
        if not has_effect and not self.results:
            yield "gives no results, and has no effect"
        if not has_effect and any(place.type.relation == "*" for place in places):
            yield "reads or writes where pointers point, and has no effect"
        if (self.effect is Effect.DECLARED) != ("is_pure" in self.attributes.needed):
            yield "must have the attribute `is_pure` if its effect is declared, and only then"
        if folds and (self.identity is None) != self.has_combine:
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
        """All signatures as text."""
        return " or ".join(each.text for each in self.signatures)

    def refusal(self, operands: Sequence[Typed], results: Sequence[Typed], attributes: Mapping[str, Any]) -> str | None:
        """Say why no application may have operands, results and attributes of these types; None if one may."""
        if not self.attributes.take(attributes):
            known, needed = sorted(self.attributes.known), sorted(self.attributes.needed)
            return f"`{self.name}` has the attributes {sorted(attributes)}; it takes {known}, and needs {needed}"
        types = [[each.dtype for each in side] for side in (operands, results)]
        if not self.takes(*types):
            return f"`{self.name}` takes {self.signature}, and is given {_shown(*types)}"
        sources, targets = _tiles(self.operands, operands), _tiles(self.results, results)
        if sources is None or targets is None:
            return f"`{self.name}` takes {self.signature}, and is given a tile for a scalar"
        if not self.lanes(sources, targets, attributes):
            return (
                f"`{self.name}` has lanes that do not fit together: {_shown(sources, targets)} with {dict(attributes)}"
            )
        return None

    def takes(self, operands: Sequence[ElementType], results: Sequence[ElementType]) -> bool:
        """Whether an application may have operands and results of these types, by one of the signatures."""
        return any(each.takes(operands, results) for each in self.signatures)

    @property
    def is_elementwise(self) -> bool:
        """Whether each lane of the results comes from the same lane of every operand."""
        return self.form is Form.ELEMENTWISE

    @property
    def is_map(self) -> bool:
        """Whether it makes lanes of lanes and does nothing else, so that any part of a tile can be computed alone."""
        is_of_tiles = bool(self.operands) and not any(place.is_scalar for place in self.operands)
        return self.is_elementwise and self.effect is Effect.NONE and is_of_tiles

    @property
    def is_comparison(self) -> bool:
        """Whether it tells of each pair of numbers whether something holds."""
        return self.is_map and [place.type.classes for place in self.results] == [("int1",)]

    @property
    def computes_indices(self) -> bool:
        """Whether it makes an integer of integers, lane by lane."""
        return self.is_map and self.takes((int64,) * len(self.operands), (int64,))

    @property
    def is_view(self) -> bool:
        """Whether its result could be its operand in memory, with other strides."""
        return self.form in (Form.BROADCAST, Form.VIEW)

    @property
    def moves_lanes(self) -> bool:
        """Whether it puts the lanes of one tile to other places, and does nothing else."""
        return self.is_view or (self.form is Form.SHUFFLE and len(self.operands) == len(self.results) == 1)

    @property
    def has_combine(self) -> bool:
        """Whether it combines lanes by a function of the user's, its attribute `combine`."""
        return "combine" in self.attributes.needed

    @property
    def is_masked(self) -> bool:
        """Whether a last operand may leave out lanes."""
        return bool(self.operands) and self.operands[-1].name == "mask"


def _tiles(places: tuple[Place, ...], types: Sequence[Typed]) -> list[Lanes] | None:
    """The lanes of operands or results, without those that are to be scalars; None where one of these has lanes."""
    are_scalars = [place.is_scalar for place in places[: len(types)]] + [False] * (len(types) - len(places))
    if any(type.lanes for type, is_scalar in zip(types, are_scalars) if is_scalar):
        return None
    return [type.lanes for type, is_scalar in zip(types, are_scalars) if not is_scalar]


def _shown(operands: Iterable[object], results: Iterable[object]) -> str:
    return f"{', '.join(map(str, operands))} -> {', '.join(map(str, results))}"


def _rows(
    names: str,
    form: Form,
    signature: str,
    doc: str,
    attributes: str = "",
    *,
    lanes: LaneRule = lane_rules.same,
    effect: Effect = Effect.NONE,
    identity: Identity | None = None,
    is_commutative: bool = False,
    sign: Sign = Sign.UNKNOWN,
    backends: frozenset[str] = BACKENDS,
) -> dict[str, Primitive]:
    """The rows of primitives of which all but the name and the meaning of `{name}` is the same."""
    signatures = tuple(Signature.parse(each.strip()) for each in signature.split(" or "))
    return {
        name: Primitive(
            name=name, form=form, effect=effect, signatures=signatures, lanes=lanes,
            attributes=AttributeNames.parse(attributes), doc=doc.replace("{name}", name), identity=identity,
            is_commutative=is_commutative, sign=sign, backends=backends,
        )
        for name in names.split()
    }  # fmt: skip


_MAP, _REDUCTION, _SCAN = Form.ELEMENTWISE, Form.REDUCTION, Form.SCAN
_FLOAT = "x: float32|float64 T -> T"
_FLOATS = "x: float32|float64 T, y: T -> T"
_NUMBERS = "x: number T, y: T -> T"
_BITS = "x: integer|int1 T, y: T -> T"
_POINTERS = "pointers: pointer P"

_ELEMENTWISE: dict[str, Primitive] = {
    **_rows("exp exp2 log log2 sqrt rsqrt sin cos tanh erf sigmoid", _MAP, _FLOAT, "Compute `{name}` of each element."),
    **_rows("sqrt_rn", _MAP, _FLOAT, "Compute the square root, rounded to the nearest float."),
    **_rows("floor ceil", _MAP, _FLOAT, "Round to a whole number: `{name}`."),
    **_rows("neg abs", _MAP, "x: number T -> T", "Compute `{name}` of each element; integers wrap."),
    **_rows("invert", _MAP, "x: integer|int1 T -> T", "Turn every bit."),
    **_rows("add", _MAP, f"{_NUMBERS} or x: pointer P, y: integer -> P", "Add; move a pointer by elements.",
            identity=0, is_commutative=True, sign=Sign.GROWING),
    **_rows("sub", _MAP, _NUMBERS, "Subtract.", identity=0),
    **_rows("mul", _MAP, _NUMBERS, "Multiply.", identity=1, is_commutative=True, sign=Sign.GROWING),
    **_rows("truediv", _MAP, _FLOATS, "Divide.", identity=1),
    **_rows("div_rn", _MAP, _FLOATS, "Divide, and round to the nearest float."),
    **_rows("pow", _MAP, _FLOATS, "Raise x to the power of y."),
    **_rows("floordiv", _MAP, _NUMBERS, "Divide and round down, as Python does; `nonnegative`: no operand is negative.",
            "nonnegative?", sign=Sign.KEPT),
    **_rows("mod", _MAP, _NUMBERS, "Give what `floordiv` leaves, of the sign of y.", "nonnegative?", sign=Sign.KEPT),
    **_rows("maximum", _MAP, _NUMBERS, "Take the greater; the number where one is NaN, unless `propagate_nan`.",
            "propagate_nan?", identity="least", is_commutative=True, sign=Sign.KEPT),
    **_rows("minimum", _MAP, _NUMBERS, "Take the smaller; the number where one is NaN, unless `propagate_nan`.",
            "propagate_nan?", identity="greatest", is_commutative=True, sign=Sign.KEPT),
    **_rows("and", _MAP, _BITS, "Combine bits: both are set.", identity=True, is_commutative=True),
    **_rows("or", _MAP, _BITS, "Combine bits: one is set.", identity=0, is_commutative=True),
    **_rows("xor", _MAP, _BITS, "Combine bits: just one is set.", identity=0, is_commutative=True),
    **_rows("lshift rshift", _MAP, "x: integer T, y: T -> T", "Shift the bits of x by y; `rshift` keeps a sign."),
    **_rows("umulhi", _MAP, "x: int32|int64|uint32|uint64 T, y: T -> T",
            "Multiply without sign; keep the upper half of the bits."),
    **_rows("eq ne", _MAP, "x: number T, y: T -> int1", "Compare: `{name}`.", is_commutative=True),
    **_rows("lt le gt ge", _MAP, "x: number T, y: T -> int1", "Compare: `{name}`."),
    **_rows("where", _MAP, "condition: int1, then: any T, otherwise: T -> T", "Choose lane by lane."),
    **_rows("fma", _MAP, "x: float32|float64 T, y: T, z: T -> T", "Compute x * y + z."),
    **_rows("cast", _MAP, "x: any -> any", "Convert; floats to integers truncate, to int1: whether not 0.",
            sign=Sign.CONVERTED),
    **_rows("bitcast", _MAP, "x: any T -> ~T", "Take the bits of each element for another type."),
    **_rows("libdevice", _MAP, "x: float32|float64 T, more: T... -> any", "Compute a function of CUDA's library.",
            "name"),
    **_rows("assign", _MAP, "old: any, value: any T -> T", "Give `value` to a variable that held `old`.",
            lanes=lane_rules.assign, sign=Sign.KEPT, backends=frozenset()),
    **_rows("rand randn", _MAP, "seed: scalar integer, offset: integer -> float32",
            "Draw a number by counters: uniform in [0, 1), or normal (`randn`).", "n_rounds?"),
    **_rows("randint", _MAP, "seed: scalar integer, offset: integer -> int32", "Draw 32 bits by counters.",
            "n_rounds?"),
    **_rows("randint4x", _MAP, "seed: scalar integer, offset: integer -> int32, int32, int32, int32",
            "Draw four times 32 bits by counters.", "n_rounds?"),
    **_rows("inline_asm_elementwise", _MAP, "inputs: any... -> any...", "Run instructions given as text.",
            "asm constraints is_pure pack", effect=Effect.DECLARED, backends=TRITON_ONLY),
}  # fmt: skip

_SHAPES: dict[str, Primitive] = {
    **_rows("full", Form.BROADCAST, "x: scalar any T -> T", "Make a tile of one number.", lanes=lane_rules.free,
            sign=Sign.KEPT),
    **_rows("broadcast", Form.BROADCAST, "x: any T -> T", "Repeat along axes of one element; the rank stays.",
            lanes=lane_rules.broadcast, sign=Sign.KEPT),
    **_rows("expand_dims", Form.BROADCAST, "x: any T -> T", "Insert an axis of one element.", "axis",
            lanes=lane_rules.expand_dims, sign=Sign.KEPT),
    **_rows("reshape", Form.VIEW, "x: any T -> T", "Take the lanes, row-major, for another shape.",
            lanes=lane_rules.reshape, sign=Sign.KEPT),
    **_rows("permute", Form.VIEW, "x: any T -> T", "Reorder the axes.", "dims", lanes=lane_rules.permute,
            sign=Sign.KEPT),
    **_rows("flip", Form.SHUFFLE, "x: any T -> T", "Reverse an axis.", "axis", lanes=lane_rules.flip),
    **_rows("join", Form.SHUFFLE, "x: any T, y: T -> T", "Put two tiles side by side, along a new last axis of two.",
            lanes=lane_rules.join),
    **_rows("split", Form.SHUFFLE, "x: any T -> T, T", "Take apart a last axis of two.", lanes=lane_rules.split),
    **_rows("cat", Form.SHUFFLE, "x: any T, y: T -> T", "Put one tile behind another.", lanes=lane_rules.cat),
    **_rows("gather", Form.SHUFFLE, "source: any T, index: integer -> T", "Take elements of a tile along an axis.",
            "axis", lanes=lane_rules.gather),
}  # fmt: skip

# Along `axis`, or all axes without one; `keep_dims` keeps axes of one element.
_ALONG = "axis? keep_dims?"
_REDUCTIONS: dict[str, Primitive] = {
    **_rows("sum", _REDUCTION, "x: number T -> T", "Add up.", _ALONG, lanes=lane_rules.reduction,
            identity=0, sign=Sign.GROWING),
    **_rows("xor_sum", _REDUCTION, "x: integer T -> T", "Combine by `xor`.", _ALONG,
            lanes=lane_rules.reduction, identity=0),
    **_rows("max", _REDUCTION, "x: number T -> T", "Take the greatest; NaN if there is nothing else.",
            _ALONG, lanes=lane_rules.reduction, identity="least", sign=Sign.KEPT),
    **_rows("min", _REDUCTION, "x: number T -> T", "Take the smallest; NaN if there is nothing else.",
            _ALONG, lanes=lane_rules.reduction, identity="greatest", sign=Sign.KEPT),
    **_rows("argmax", _REDUCTION, "x: number -> int32", "Find the first of the greatest.", _ALONG,
            lanes=lane_rules.reduction, identity="least"),
    **_rows("argmin", _REDUCTION, "x: number -> int32", "Find the first of the smallest.", _ALONG,
            lanes=lane_rules.reduction, identity="greatest"),
    **_rows("reduce", _REDUCTION, "x: any... -> any...", "Combine tiles, element by element, by a function.",
            f"{_ALONG} combine", lanes=lane_rules.reduction),
    **_rows("cumsum", _SCAN, "x: number T -> T", "Add up what comes before, too.", "axis reverse?",
            lanes=lane_rules.scan, identity=0),
    **_rows("cumprod", _SCAN, "x: number T -> T", "Multiply by what comes before.", "axis reverse?",
            lanes=lane_rules.scan, identity=1),
    **_rows("associative_scan", _SCAN, "x: any... -> any...", "Combine with what comes before, by a function.",
            "axis reverse? combine", lanes=lane_rules.scan),
    **_rows("sort", Form.SORT, "x: number T -> T", "Sort along the last axis.", "descending?"),
    **_rows("histogram", Form.HISTOGRAM, "x: integer|int1 -> int32", "Count 0, 1, ... below `num_bins`.", "num_bins",
            lanes=lane_rules.histogram),
}  # fmt: skip

_PRODUCTS: dict[str, Primitive] = {
    **_rows("dot", Form.PRODUCT, "x: number T, y: T -> number or x: number T, y: T, accumulator: number A -> A",
            "Multiply matrices, and add an accumulator.", "input_precision?", lanes=lane_rules.dot),
    **_rows("dot_scaled", Form.PRODUCT,
            "x: number, x_scale: number, y: number, y_scale: number, accumulator: number? -> number",
            "Multiply matrices whose elements share scales in blocks.", "formats", lanes=lane_rules.dot_scaled,
            backends=TRITON_ONLY),
}  # fmt: skip

_ATOMIC = "sem? scope?"
_MEMORY: dict[str, Primitive] = {
    **_rows("data_ptr", _MAP, "-> scalar pointer", "Give the address of a parameter's first element.", "parameter"),
    **_rows("load_pointer", _MAP, f"{_POINTERS}, mask: int1?, other: *P? -> *P",
            "Read where pointers point; `other` where the mask is not set.", effect=Effect.READS),
    **_rows("store_pointer", _MAP, f"{_POINTERS}, value: *P, mask: int1? ->", "Write where pointers point.",
            effect=Effect.WRITES),
    **_rows("atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg", _MAP,
            f"{_POINTERS}, value: *P, mask: int1? -> *P", "Update where pointers point, and give what was there.",
            _ATOMIC, effect=Effect.UPDATES),
    **_rows("atomic_cas", _MAP, f"{_POINTERS}, expected: *P, value: *P -> *P",
            "Write where the expected value is found, and give what was there.", _ATOMIC, effect=Effect.UPDATES),
    **_rows("device_assert", _MAP, "condition: int1 ->", "Stop where the condition does not hold.", "message?",
            effect=Effect.CHECKS),
    **_rows("debug_barrier", _MAP, "->", "Let the threads of a program wait for each other.", effect=Effect.ORDERS),
}  # fmt: skip

PRIMITIVES: dict[str, Primitive] = {**_ELEMENTWISE, **_SHAPES, **_REDUCTIONS, **_PRODUCTS, **_MEMORY}
