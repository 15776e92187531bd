"""The nodes of a program: frozen dataclasses. `ninetoothed.ir` tells what their expressions may mention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import Expr, Facts
from ninetoothed.language.primitives import PRIMITIVES, Primitive
from ninetoothed.lowering import CutEdge, Guard


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
class TileType:
    """Type of a value. `shape` is the logical shape that users see (may be symbolic); `lanes` the physical one.

    Both backends hold `lanes` elements, each count a power of two at least as large as the logical extent. A scalar has
    the shape ().
    """

    dtype: DType | PointerType
    shape: tuple[Expr, ...] = ()
    lanes: tuple[int, ...] = ()

    @property
    def is_scalar(self) -> bool:
        return not self.lanes

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Value:
    """The result of an operation. Identity is the value's own; `hint` is the user's name for it, if any."""

    type: TileType
    hint: str | None = None


@dataclass(frozen=True)
class Lane:
    """A variable that runs over one axis of a tile: 0 .. count - 1, `count` the physical extent."""

    name: str
    axis: int
    count: int

    @classmethod
    def of(cls, axis: int, count: int) -> Lane:
        """The variable of an axis; its name tells its range, so that equal tiles share it."""
        return cls(f"lane_{axis}_{count}", axis, count)


Bindings = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Access:
    """Where a tile of a tensor parameter lies in memory.

    Element (lane_0, lane_1, ...) of the tile is at source indices `indices` (offset = sum of index * stride), in bounds
    only if all `guards` hold; out of bounds a load gives `other` and a store writes nothing. `edges` tell which of the
    lanes out of bounds are overhang; the pass `overhang` takes them away.
    """

    parameter: str
    type: TileType
    indices: tuple[Expr, ...]
    guards: tuple[Guard, ...] = ()
    other: float | int = 0
    lanes: tuple[Lane, ...] = ()
    bindings: Bindings = ()
    edges: tuple[CutEdge, ...] = ()


@dataclass(frozen=True, eq=False)
class Operation:
    """Base of all operations; `location` is where the user wrote it."""

    location: SourceLocation | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        from ninetoothed.ir.printer import print_operation

        return print_operation(self)


@dataclass(frozen=True, eq=False)
class Constant(Operation):
    """A scalar number known when compiling, of the type of `result`."""

    result: Value
    value: int | float | bool


@dataclass(frozen=True, eq=False)
class ScalarArgument(Operation):
    """The value of a run-time scalar parameter (`Parameter.role == "scalar"`)."""

    result: Value
    parameter: str


@dataclass(frozen=True, eq=False)
class Index(Operation):
    """An integer expression as a scalar, or as a tile where it has lanes. `arange` is an Index too."""

    result: Value
    expr: Expr
    lanes: tuple[Lane, ...] = ()
    bindings: Bindings = ()


@dataclass(frozen=True, eq=False)
class Apply(Operation):
    """A primitive applied to values; its row in `language.primitives` says what `attributes` there are."""

    results: tuple[Value, ...]
    function: str
    operands: tuple[Value, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    @property
    def primitive(self) -> Primitive:
        """The row of `function`."""
        return PRIMITIVES[self.function]

    @property
    def result(self) -> Value:
        (result,) = self.results
        return result

    def attribute(self, name: str, default: Any = None) -> Any:
        return dict(self.attributes).get(name, default)


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


@dataclass(frozen=True, eq=False)
class For(Operation):
    """`for variable in range(start, stop, step)`, carrying values.

    `arguments` are the carried values as the body sees them (first `initial`, then the last iteration's `yields`);
    `results` are they after the loop. `variable` occurs in expressions only. `step` is a constant that is not
    zero, or proved to be positive. `hints` are keywords for the backend (`num_stages`, `flatten`, ...).
    """

    variable: str
    start: Expr
    stop: Expr
    step: Expr
    bindings: Bindings
    initial: tuple[Value, ...]
    arguments: tuple[Value, ...]
    body: Block
    yields: tuple[Value, ...]
    results: tuple[Value, ...]
    hints: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class While(Operation):
    """`while condition: body`, carrying values; `before` computes `condition` from `arguments` in each round."""

    initial: tuple[Value, ...]
    arguments: tuple[Value, ...]
    before: Block
    condition: Value
    body: Block
    yields: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class If(Operation):
    """A branch on a run-time scalar of type int1; `results` take the yields of the branch taken."""

    condition: Value
    then_body: Block
    then_yields: tuple[Value, ...]
    else_body: Block
    else_yields: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Print(Operation):
    """`print` in an application: text pieces and values in the order in which they were given."""

    pieces: tuple[str | Value, ...]
    end: str = "\n"


@dataclass(frozen=True, eq=False)
class Breakpoint(Operation):
    """`breakpoint()` in an application, with what the user's names stand for there."""

    variables: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Lambda:
    """A combining function of `reduce` and `associative_scan`: scalars in, scalars out, and no branches between."""

    name: str
    arguments: tuple[Value, ...]
    body: Block
    yields: tuple[Value, ...]


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter that the program uses.

    role "tensor": memory with `sizes` and `strides` (numbers where the specialisation knows them, else the variable of
    the run-time argument); "scalar": a number given at each call. `wide` tensors need 64-bit offsets.
    """

    name: str
    role: str
    dtype: DType
    sizes: tuple[Expr, ...] = ()
    strides: tuple[Expr, ...] = ()
    wide: bool = False


@dataclass(frozen=True)
class Requirement:
    """Two expressions to which a call must give equal numbers; no later stage looks at what it rules out.

    Their variables are sizes of parameters. `message` says what has to fit, of which parameters, and the remedy;
    `location` is where the user's source needs it. `is_race`: `left` is how many programs would race (see
    `frontend.races`).
    """

    left: Expr
    right: Expr
    message: str
    location: SourceLocation | None = None
    is_race: bool = False


@dataclass(frozen=True)
class Program:
    """One program instance. `grid` is the outermost shape, `axes` the program index of each dimension.

    requirements: what the program takes for granted of a call's sizes, to be checked before it is launched.
    """

    name: str
    parameters: tuple[Parameter, ...]
    grid: tuple[Expr, ...]
    axes: tuple[str, ...]
    body: Block
    facts: Facts
    requirements: tuple[Requirement, ...] = ()

    def __str__(self) -> str:
        from ninetoothed.ir.printer import print_program

        return print_program(self)

    def parameter(self, name: str) -> Parameter:
        return next(parameter for parameter in self.parameters if parameter.name == name)
