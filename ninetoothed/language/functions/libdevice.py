"""The functions of `ntl.libdevice`, which both backends have, by CUDA's names: rows made of `libdevice_tables.py`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ninetoothed.dtypes import ALL, described, float32, float64, int1
from ninetoothed.language.functions.libdevice_tables import CONVERSIONS, MODES, ROUNDED, TABLES, TYPES
from ninetoothed.language.functions.row import NAMESPACE, Function
from ninetoothed.language.primitive import Primitive
from ninetoothed.language.signature import AttributeNames, Place, Signature

MODULE = f"{NAMESPACE}.libdevice"

# The names of CUDA's that are not offered, with what to do instead: data for errors and docs.
EXCLUSIONS: dict[str, str] = {
    "jn": "its loop is as long as the order; write the recurrence of `j0` and `j1`: `2 * k / x * j_k - j_(k - 1)`",
    "yn": "its loop is as long as the order; write the recurrence of `y0` and `y1`: `2 * k / x * y_k - y_(k - 1)`",
    "rcp64h": "what it approximates is that of one generation of GPUs; write `1 / x`",
}


class LibdeviceFunction(Function):
    """A row of libdevice. primitive: its types, which both backends have under the row's name."""

    def __init__(self, definition: Callable[..., Any], primitive: Primitive) -> None:
        super().__init__(definition, MODULE)
        self.primitive = primitive

    @property
    def is_of_floats(self) -> bool:
        """Tell whether it maps floats to floats of their type, or to int1, as functions of `ntl` do."""
        taken, given = self.primitive.operands, self.primitive.results[0].type
        return float32 in taken[0].type.types and not given.classes and not any(p.type.classes for p in taken[1:])

    @property
    def is_predicate(self) -> bool:
        """Tell whether it gives int1."""
        return int1 in self.primitive.results[0].type.types


def rows() -> dict[str, LibdeviceFunction]:
    """Make the rows, by name."""
    tables = [
        *TABLES.items(),
        *((signature, _in_each_mode(table, "number")) for signature, table in ROUNDED.items()),
        *map(_conversion, CONVERSIONS),
    ]
    return {row.name: row for signature, table in tables for row in _of_table(signature, table)}


def _conversion(name: str) -> tuple[str, str]:
    """Return the signature of conversions such as `float2int`, and a line for each mode."""
    source, target = map(TYPES.__getitem__, name.split("2"))
    if target.startswith("float"):
        return f"x: {source} -> {target}", _in_each_mode(f"{name}_ | x | 3 | 3.", "number")
    beyond = "; what is beyond the type is its greatest, or its least, number"
    return f"x: {source} -> {target}", _in_each_mode(f"{name}_ | x | 3.0 | 3", "integer", beyond)


def _in_each_mode(table: str, kind: str, more: str = "") -> str:
    """Repeat lines whose name ends in `_` for each mode of rounding; those that name some have just these."""
    lines = []
    for name, result, operands, value in _cells(table):
        stem, _, only = name.partition("_")
        for mode in only.split("/") if only else MODES:
            lines.append(f"{stem}_{mode} | {result}, {MODES[mode].format(kind)}{more} | {operands} | {value}")
    return "\n".join(lines)


def _cells(table: str) -> Iterator[list[str]]:
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


def _of_table(signature: str, table: str) -> Iterator[LibdeviceFunction]:
    """Make the rows of the lines of a table."""
    parsed = Signature.parse(signature)
    for name, result, operands, value in _cells(table):
        primitive = Primitive(f"libdevice.{name}", (parsed,), AttributeNames.parse(""), f"Return {result}.")
        yield _row(name, primitive, operands.split(", "), value)


def _row(name: str, primitive: Primitive, operands: list[str], value: str) -> LibdeviceFunction:
    """Make the row of a function from its types, and from an example."""

    def definition() -> None: ...

    by_position = inspect.Parameter.POSITIONAL_ONLY
    parameters = [place.name for place in primitive.operands]
    first, *_ = primitive.operands
    types = [_dtype(place if place.type.classes else first) for place in (*primitive.operands, *primitive.results)]
    given = [f"torch.tensor({text}{dtype})" for text, dtype in zip(operands, types, strict=False)]
    definition.__name__ = name
    definition.__doc__ = f"""{primitive.doc.removesuffix(".")}, element by element.

    {types_of(primitive)} Operands are given by position, and broadcast.

    >>> def application({", ".join(parameters)}, output):
    ...     output = ntl.libdevice.{name}({", ".join(parameters)})
    >>> run(application, {", ".join(given)}, torch.empty(1{types[-1]}))
    tensor([{value}]{types[-1].replace(", dtype=torch.int64", "")})
    """
    definition.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(each, by_position, annotation="TileLike") for each in parameters], return_annotation="Tile"
    )
    return LibdeviceFunction(definition, primitive)


def _dtype(place: Place) -> str:
    """Write the type of an example's tensor: the first of a place's; nothing where PyTorch chooses float32 itself."""
    name = place.type.classes[0].replace("integer32", "int32")
    return "" if name in ("float32", "int1") else f", dtype=torch.{name}"


def types_of(primitive: Primitive) -> str:
    """Say in sentences which types a function takes, and which it gives."""
    taken, given = primitive.operands[0].type, primitive.results[0].type
    if float32 in taken.types and given.types in (frozenset(), frozenset({float32})):
        others = "integers give float32" if float64 in taken.types else "integers give float32, float64 is refused"
        return f"Halves keep their type and are computed in float32; {others}."
    more = ", and halves and integers as float32" if float32 in taken.types else ""
    what = f"Takes {described([each for each in ALL if each in taken.types])}{more}"
    return f"{what}; the type is that of x." if not given.types else f"{what}; gives `ntl.{given.classes[0]}`."
