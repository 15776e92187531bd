"""The operations of a program: frozen dataclasses. `ninetoothed.ir` tells what their expressions may mention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from ninetoothed.arrangement.guards import Edge, Guard
from ninetoothed.expr import Expr, const
from ninetoothed.ir.values import Bindings, Element, Lane, TileType, Value
from ninetoothed.language.axes import Axes
from ninetoothed.language.primitive import Primitive
from ninetoothed.language.primitives import PRIMITIVES


@dataclass(frozen=True)
class SourceLocation:
    """A place in the user's own source: 1-based `line`, 0-based `column`, and the text of that line."""

    file: str
    line: int
    column: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Access:
    """The place of a tile in the memory of a tensor parameter.

    indices: the source indices of element (lane_0, lane_1, ...) of the tile; its offset is the sum of index * stride.
    guards: the element is in bounds where all hold; out of bounds a load gives `other` and a store writes nothing.
    lanes, bindings: the variables of `indices` and `guards`, beside those that the whole program knows.
    edges: the ends of cut dimensions, which tell which lanes are overhang; the pass `overhang` removes them.
    """

    parameter: str
    type: TileType
    indices: tuple[Expr, ...]
    guards: tuple[Guard, ...] = ()
    other: float | int = 0
    lanes: tuple[Lane, ...] = ()
    bindings: Bindings = ()
    edges: tuple[Edge, ...] = ()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions of its place and of its guards."""
        return (*self.indices, *(e for guard in self.guards for e in guard.parts))


@dataclass(frozen=True, eq=False)
class Operation:
    """The base of all operations; `location` is their place in the user's source."""

    location: SourceLocation | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class Constant(Operation):
    """Give a number that is known when compiling, as a scalar of the type of `result`."""

    result: Value
    value: int | float | bool


@dataclass(frozen=True, eq=False)
class ScalarArgument(Operation):
    """Read a run-time scalar parameter (`Parameter.role == "scalar"`)."""

    result: Value
    parameter: str


@dataclass(frozen=True, eq=False)
class Index(Operation):
    """Compute an integer expression: a scalar, or a tile where it has lanes, as `arange` does."""

    result: Value
    expr: Expr
    lanes: tuple[Lane, ...] = ()
    bindings: Bindings = ()


@dataclass(frozen=True, eq=False)
class Apply(Operation):
    """Apply a primitive to values; its row in `language.primitives` says what `attributes` there are."""

    results: tuple[Value, ...]
    function: str
    operands: tuple[Value, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(
        cls, function: str, operands: tuple[Value, ...], *elements: Element, hint: str | None = None,
        location: SourceLocation | None = None, **attributes: Any,
    ) -> Apply:  # fmt: skip
        """Apply a primitive, with new results of the types that its row tells; `elements` are those it leaves open."""
        types = result_types(PRIMITIVES[function], [value.type for value in operands], elements, attributes)
        results = tuple(Value(type, hint) for type in types)
        return cls(results, function, operands, tuple(attributes.items()), location=location)

    @property
    def primitive(self) -> Primitive:
        """The row of `function`."""
        return PRIMITIVES[self.function]

    @cached_property
    def axes(self) -> Axes:
        """The names of the axes of operands and results."""
        operands, results = ([value.type.lanes for value in side] for side in (self.operands, self.results))
        axes = self.primitive.axes_of(operands, results, dict(self.attributes))
        assert axes is not None, f"{self} has lanes that do not fit together"
        return axes

    @property
    def result(self) -> Value:
        """The only result."""
        (result,) = self.results
        return result

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default where it is not given."""
        return dict(self.attributes).get(name, default)


def result_types(
    row: Primitive, operands: Sequence[TileType], elements: Sequence[Element], attributes: Mapping[str, Any]
) -> list[TileType]:
    """Return the types of results. An axis has the extent of an operand's axis of its name: `m [k], [k] n -> m n`."""
    elements = elements or row.gives([type.dtype for type in operands])
    axes = row.axes_of([type.lanes for type in operands], [None] * len(elements), attributes)
    if axes is None:
        return list(map(operands[0].with_dtype, elements))
    extents = {
        name: extent
        for type, names in zip(reversed(operands), reversed(axes.operands), strict=True)
        for name, extent in zip(names, zip(type.shape, type.lanes, strict=True), strict=True)
    }

    def shaped(element: Element, names: Iterable[str]) -> TileType:
        own = [extents[name] if name in extents else (const(n := int(name.strip("[]"))), n) for name in names]
        return TileType(element, tuple(size for size, _ in own), tuple(lanes for _, lanes in own))

    return list(map(shaped, elements, axes.results))


@dataclass(frozen=True, eq=False)
class Load(Operation):
    """Read a tile; the result has the type of the access."""

    result: Value
    access: Access


@dataclass(frozen=True, eq=False)
class Store(Operation):
    """Write a value of exactly the access's type."""

    access: Access
    value: Value


Block = tuple[Operation, ...]


_RowType = TypeVar("_RowType", bound="_Row")


class _Row:
    """The base of rows of values, of which the tuples of a loop or a branch are the columns."""

    @classmethod
    def of(cls: type[_RowType], *columns: Iterable[Value]) -> tuple[_RowType, ...]:
        """Return the rows of columns: one for each field, of one length."""
        return tuple(cls(*row) for row in zip(*columns, strict=True))


@dataclass(frozen=True)
class Carried(_Row):
    """A loop-carried variable: before the loop, at the start and at the end of a round, and after the loop."""

    initial: Value
    argument: Value
    yielded: Value
    result: Value

    @property
    def flows(self) -> tuple[tuple[Value, Value], ...]:
        """The pairs of values of which the second takes over the first."""
        return (self.initial, self.argument), (self.yielded, self.argument), (self.argument, self.result)


@dataclass(frozen=True, eq=False)
class Loop(Operation):
    """The base of loops: repeat `body`, each round with what the one before it has left of the variables `carried`."""

    carried: tuple[Carried, ...]
    body: Block

    @cached_property
    def initial(self) -> tuple[Value, ...]:
        """The loop-carried variables before the loop."""
        return tuple(each.initial for each in self.carried)

    @cached_property
    def arguments(self) -> tuple[Value, ...]:
        """The loop-carried variables at the start of a round."""
        return tuple(each.argument for each in self.carried)

    @cached_property
    def yields(self) -> tuple[Value, ...]:
        """The loop-carried variables at the end of a round."""
        return tuple(each.yielded for each in self.carried)

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """The loop-carried variables after the loop."""
        return tuple(each.result for each in self.carried)


@dataclass(frozen=True, eq=False)
class For(Loop):
    """Repeat `body` as `for variable in range(start, stop, step)` does.

    variable: the counter; it occurs in expressions only.
    step: a constant other than zero, or proved to be positive.
    hints: keywords for the backend (`num_stages`, `flatten`, ...).
    merge: combines the results of two parts of the rounds, each of which started from `initial`; None where the rounds
        may not be shared out.
    is_branch: whether it has one round at most, and is to be no loop.
    counters: further counters, each with what it is in a round: `i` and `head`, with `step // 8` and `step % 8`.
    """

    variable: str
    start: Expr
    stop: Expr
    step: Expr
    bindings: Bindings = ()
    hints: tuple[tuple[str, Any], ...] = ()
    merge: Lambda | None = None
    is_branch: bool = False
    counters: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, eq=False)
class While(Loop):
    """Repeat `body` while a condition holds: the first loop-carried variable, an int1.

        while x > 1: x = x / 2
    ->  going = x > 1
        while going: x = x / 2; going = x > 1
    """

    @property
    def condition(self) -> Value:
        """The loop-carried variable that decides, at the start of a round, whether there is one."""
        return self.carried[0].argument


@dataclass(frozen=True)
class Outcome(_Row):
    """A result of a branch: at the end of either side, and after them."""

    then: Value
    otherwise: Value
    result: Value

    @property
    def flows(self) -> tuple[tuple[Value, Value], ...]:
        """The pairs of values of which the second takes over the first."""
        return (self.then, self.result), (self.otherwise, self.result)


@dataclass(frozen=True, eq=False)
class If(Operation):
    """Branch on a run-time scalar of type int1; the results are those of the branch taken."""

    condition: Value
    then_body: Block
    else_body: Block = ()
    outcomes: tuple[Outcome, ...] = ()

    @cached_property
    def then_yields(self) -> tuple[Value, ...]:
        """The results at the end of the first branch."""
        return tuple(each.then for each in self.outcomes)

    @cached_property
    def else_yields(self) -> tuple[Value, ...]:
        """The results at the end of the other branch."""
        return tuple(each.otherwise for each in self.outcomes)

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """The results after the branches."""
        return tuple(each.result for each in self.outcomes)


@dataclass(frozen=True, eq=False)
class Print(Operation):
    """Print texts and values in the order in which they were given: `print` in an application."""

    pieces: tuple[str | Value, ...]
    end: str = "\n"


@dataclass(frozen=True, eq=False)
class Breakpoint(Operation):
    """Stop in the debugger, with the values of the user's variables: `breakpoint()` in an application."""

    variables: tuple[tuple[str, Value | bool | int | float | str], ...]


@dataclass(frozen=True)
class Lambda:
    """A combining function, without branches: of `reduce`, of `associative_scan`, or the `merge` of a loop.

    is_commutative: whether it is proved to give the same with its two sides exchanged (see `commutativity`).
    """

    name: str
    arguments: tuple[Value, ...]
    body: Block
    yields: tuple[Value, ...]
    is_commutative: bool = False
