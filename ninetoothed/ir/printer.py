"""Print a program for people: one operation a line, with the user's lines as comments above.

    program double(
        x: f16[x_size_0] strides (1,),
        y: f16[x_size_0] strides (1,),
    )
    grid program_0 < (x_size_0 + 63) // 64
    multiples of 16: x_size_0

        # y = x * 2
        x_1: f16[64] = load x[lane_0 + 64 * program_0] where lane_0 + 64 * program_0 < x_size_0 else 0.0
        v: f16[64] = full(f16(2.0))
        y_1: f16[64] = mul(x_1, v)
        store y[lane_0 + 64 * program_0] = y_1 where lane_0 + 64 * program_0 < x_size_0

A value is named by the user's variable, with a number where several have one name, and `v` where the user named
nothing. A type is `f16[rows of 128, 64]`: 64 columns, and as many rows as `rows` says, held in 128 lanes. `lane_0`
counts along the first axis of the tile. Equal programs give equal text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ninetoothed.arrangement.guards import Edge, Guard
from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import Expr, const, var
from ninetoothed.ir.nodes import (
    Access,
    Apply,
    Block,
    Breakpoint,
    Constant,
    For,
    If,
    Index,
    Lambda,
    Load,
    Loop,
    Operation,
    Print,
    ScalarArgument,
    Store,
    While,
)
from ninetoothed.ir.program import Parameter, Program
from ninetoothed.ir.traversal import operands, results, walk
from ninetoothed.ir.values import Bindings, Lane, TileType, Value

_INDENT = "    "
# Longer lines go on below.
_WIDTH = 120
_ABBREVIATED = (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"))


def print_program(program: Program, names: dict[Value, str] | None = None) -> str:
    """Return the text of a program: parameters, grid, what is known and required of sizes, and operations.

    names: what earlier texts call values, which this one calls so, too; it adds its own.
    """
    names = {} if names is None else names
    taken = {parameter.name for parameter in program.parameters} | set(program.axes) | program.facts.ranges.keys()
    printer = _Printer({*taken, *names.values()}, _read(program.body), names=names)
    printer.block(program.body, 1)
    header = [f"program {program.name}(", *(f"{_INDENT}{_parameter(p)}," for p in program.parameters), ")"]
    axes = zip(program.axes, program.grid, strict=True)
    header.append("grid " + (", ".join(f"{axis} < {extent}" for axis, extent in axes) or "of one program"))
    header.extend(_known(program))
    header.extend(f"require {each.left} == {each.right}" for each in program.requirements)
    return "\n".join([*header, "", *printer.lines]) + "\n"


def print_operation(operation: Operation) -> str:
    """Return the text of one operation, with the blocks inside it."""
    accesses = [each.access for each in walk((operation,)) if isinstance(each, Load | Store)]
    printer = _Printer({access.parameter for access in accesses}, _read((operation,)))
    printer.block((operation,), 0)
    return "\n".join(printer.lines)


def print_type(type: TileType) -> str:
    """Return a type as `f16[128, 64]`, `i1`, or `f32[x_size_0 of 1024]`."""
    extents = (
        str(lanes) if size == const(lanes) else f"{size} of {lanes}"
        for size, lanes in zip(type.shape, type.lanes, strict=True)
    )
    return _dtype(type.dtype) + (f"[{', '.join(extents)}]" if type.lanes else "")


def _dtype(dtype: DType | PointerType) -> str:
    if isinstance(dtype, PointerType):
        return f"pointer({_dtype(dtype.element)}, {dtype.parameter})"
    for name, short in _ABBREVIATED:
        if dtype.name.startswith(name):
            return short + dtype.name.removeprefix(name)
    return dtype.name


def _parameter(parameter: Parameter) -> str:
    dtype = _dtype(parameter.dtype)
    if parameter.role != "tensor":
        return f"{parameter.name}: {dtype}"
    strides = ", ".join(map(str, parameter.strides)) + ("," if len(parameter.strides) == 1 else "")
    wide = ", 64-bit offsets" if parameter.wide else ""
    return f"{parameter.name}: {dtype}[{', '.join(map(str, parameter.sizes))}] strides ({strides}){wide}"


def _known(program: Program) -> Iterator[str]:
    """Yield lines that tell the facts about a program's sizes and strides, apart from their not being negative."""
    sizes = [e for parameter in program.parameters for e in (*parameter.sizes, *parameter.strides)]
    mentioned = frozenset[str]().union(*(e.variables for e in (*sizes, *program.grid)))
    ranges = {name: known for name, known in program.facts.ranges.items() if name in mentioned}
    for multiple in sorted({known.multiple_of for known in ranges.values()} - {1}, reverse=True):
        yield f"multiples of {multiple}: {', '.join(n for n, known in ranges.items() if known.multiple_of == multiple)}"
    yield from (f"known {name} <= {known.hi}" for name, known in ranges.items() if known.hi is not None)
    for e, low, high in program.facts.assumptions:
        if e not in program.grid:
            bounds = (f"{low} <= " if low is not None else "", f" <= {high}" if high is not None else "")
            yield f"known {bounds[0]}{e}{bounds[1]}"


def _read(block: Block) -> frozenset[Value]:
    """Return all values that operations of a block read, wherever they are."""
    found: set[Value] = set()
    for operation in walk(block):
        found.update(operands(operation))
        for combine in _lambdas(operation):
            found |= _read(combine.body) | set(combine.yields)
    return frozenset(found)


def _lambdas(operation: Operation) -> list[Lambda]:
    attributes = operation.attributes if isinstance(operation, Apply) else ()
    return [value for _, value in attributes if isinstance(value, Lambda)]


def _listed(names: Iterable[str]) -> str:
    return f"({', '.join(names)})"


@dataclass
class _Printer:
    """The lines so far, the names that are given, and the constants that are written where they are read."""

    taken: set[str]
    read: frozenset[Value]
    lines: list[str] = field(default_factory=list)
    names: dict[Value, str] = field(default_factory=dict)
    commented: str = ""

    # -- names --

    def name(self, value: Value) -> str:
        if value not in self.names:
            wanted = re.sub(r"\W", "_", value.hint or "v")
            count, free = 0, wanted
            while free in self.taken:
                count += 1
                free = f"{wanted}_{count}"
            self.taken.add(free)
            self.names[value] = free
        return self.names[value]

    def list_of(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self.name, values))

    def typed(self, values: Iterable[Value]) -> str:
        return ", ".join(f"{self.name(value)}: {print_type(value.type)}" for value in values)

    # -- lines --

    def line(self, depth: int, text: str) -> None:
        """Write a line; one that is too long goes on below with its condition."""
        head, where, rest = text.partition(" where ")
        if where and len(_INDENT * depth + text) > _WIDTH:
            self.lines.append(_INDENT * depth + head)
            depth, text = depth + 2, f"where {rest}"
        self.lines.append(_INDENT * depth + text)

    def comment(self, depth: int, operation: Operation) -> None:
        """Write the user's line, unless the operation before came of the same one."""
        text = operation.location.text.strip() if operation.location else ""
        if text and text != self.commented:
            self.line(depth, f"# {text}")
            self.commented = text

    def block(self, block: Block, depth: int) -> None:
        for operation in block:
            if isinstance(operation, Constant) and operation.result in self.read:
                dtype = print_type(operation.result.type)
                self.names[operation.result] = f"{dtype}({operation.value!r})"
            else:
                self.comment(depth, operation)
                self.operation(operation, depth)

    def operation(self, operation: Operation, depth: int) -> None:
        """Print an operation as a line."""
        match operation:
            case Loop() | If():
                self.branch(operation, depth)
            case Store(access=access, value=value):
                place = self.place(access)
                self.line(depth, f"store {place} = {self.name(value)}{self.bounds(access)}")
            case Print(pieces=pieces, end=end):
                shown = [self.name(piece) if isinstance(piece, Value) else repr(piece) for piece in pieces]
                self.line(depth, f"print({', '.join([*shown, f'end={end!r}'])})")
            case Breakpoint(variables=variables):
                named = (f"{name}={self.shown(value)}" for name, value in variables)
                self.line(depth, f"breakpoint({', '.join(named)})")
            case _:
                for combine in _lambdas(operation):
                    self.function(combine, depth)
                right, defined = self.right_side(operation), results(operation)
                self.line(depth, f"{self.typed(defined)} = {right}" if defined else right)

    def right_side(self, operation: Operation) -> str:
        """Print what computes a result."""
        match operation:
            case Constant(value=value):
                return repr(value)
            case ScalarArgument(parameter=parameter):
                return f"argument {parameter}"
            case Index(expr=expr, lanes=lanes, bindings=bindings):
                return f"index {expr.subs(self.variables(lanes, bindings))}"
            case Load(access=access):
                other = f" else {access.other}" if access.guards or access.other else ""
                return f"load {self.place(access)}{self.bounds(access)}{other}"
            case Apply(function=function, operands=given, attributes=attributes):
                named = (f"{name}={self.shown(value)}" for name, value in attributes)
                return f"{function}{_listed((*map(self.name, given), *named))}"
        raise AssertionError(f"no way to print {type(operation).__name__}")

    def shown(self, value: object) -> str:
        if isinstance(value, Value):
            return self.name(value)
        return value.name if isinstance(value, Lambda) else str(value) if isinstance(value, Expr) else repr(value)

    # -- accesses --

    def variables(self, lanes: tuple[Lane, ...], bindings: Bindings) -> Mapping[str, Expr]:
        """Return the names under which the variables of an expression are shown."""
        axes = {lane.name: var(f"lane_{lane.axis}") for lane in lanes}
        return axes | {name: var(self.name(value)) for name, value in bindings}

    def place(self, access: Access) -> str:
        shown = self.variables(access.lanes, access.bindings)
        return f"{access.parameter}[{', '.join(str(index.subs(shown)) for index in access.indices)}]"

    def bounds(self, access: Access) -> str:
        shown = self.variables(access.lanes, access.bindings)
        edges = [edge for edge in access.edges if edge.fails]
        cut = {(edge.index, edge.size) for edge in edges if not edge.reached}
        guards = [
            f"{_guard(guard, shown)}{' (overhang past it)' if (guard.index, guard.size) in cut else ''}"
            for guard in access.guards
        ]
        guarded = {(guard.index, guard.size) for guard in access.guards}
        others = [_edge(edge, shown) for edge in edges if edge.reached or (edge.index, edge.size) not in guarded]
        where = f" where {' and '.join(guards)}" if guards else ""
        return where + (f" overhang {' or '.join(others)}" if others else "")

    # -- blocks --

    def branch(self, operation: Loop | If, depth: int) -> None:
        """Print a loop or a branch with its blocks."""
        match operation:
            case For(variable=variable, bindings=bindings):
                shown = self.variables((), bindings)
                bounds = [e.subs(shown) for e in (operation.start, operation.stop, operation.step)]
                stop = bounds[:2] if bounds[2] == const(1) else bounds
                written = ", ".join(map(str, stop[1:] if len(stop) == 2 and stop[0] == const(0) else stop))
                hints = "".join(f", {name}={value!r}" for name, value in operation.hints)
                hints += f", merge={operation.merge.name}" if operation.merge else ""
                hints += ", is_branch=True" if operation.is_branch else ""
                self.line(depth, f"for {variable} in range({written}{hints}){self.carried(operation)}:")
                for name, e in operation.counters:
                    self.line(depth + 1, f"{name} = {e.subs(shown)}")
                self.body(operation.body, operation.yields, depth)
            case While():
                self.line(depth, f"while {self.name(operation.condition)}{self.carried(operation)}:")
                self.body(operation.body, operation.yields, depth)
            case If(condition=condition, results=given):
                gives = f" -> ({self.typed(given)})" if given else ""
                self.line(depth, f"if {self.name(condition)}{gives}:")
                self.body(operation.then_body, operation.then_yields, depth)
                if operation.else_body or operation.outcomes:
                    self.line(depth, "else:")
                    self.body(operation.else_body, operation.else_yields, depth)

    def carried(self, operation: Loop) -> str:
        """Write the loop-carried variables as `carry (total: f32 = v) -> (total_1)`: inside, before and after."""
        if not operation.carried:
            return ""
        pairs = _listed(f"{self.typed((e.argument,))} = {self.name(e.initial)}" for e in operation.carried)
        return f" carry {pairs} -> ({self.list_of(operation.results)})"

    def body(self, block: Block, yields: tuple[Value, ...], depth: int) -> None:
        self.block(block, depth + 1)
        if yields or not block:
            self.line(depth + 1, f"yield {self.list_of(yields)}".rstrip() if yields else "pass")
        self.commented = ""

    def function(self, combine: Lambda, depth: int) -> None:
        self.line(depth, f"def {combine.name}({self.typed(combine.arguments)}):")
        self.body(combine.body, combine.yields, depth)


def _guard(guard: Guard, shown: Mapping[str, Expr]) -> str:
    low, high = "0 <= " if guard.lower else "", f" < {guard.size.subs(shown)}" if guard.upper else ""
    return f"{low}{guard.index.subs(shown)}{high}"


def _edge(edge: Edge, shown: Mapping[str, Expr]) -> str:
    past = f"{edge.index.subs(shown)} >= {edge.size.subs(shown)}"
    return f"({' and '.join((*(_guard(guard, shown) for guard in edge.reached), past))})" if edge.reached else past
