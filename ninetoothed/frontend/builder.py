"""Build typed operations. Conversions and broadcasts become explicit here, and nowhere else."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import Expr, Facts, as_expr, const, is_nonnegative, simplify, var
from ninetoothed.frontend import shapes
from ninetoothed.frontend.numbers import holds, is_lost, number_type, numeric, wrapped
from ninetoothed.frontend.signs import Signs
from ninetoothed.frontend.value_numbering import ValueNumbering
from ninetoothed.frontend.values import origin
from ninetoothed.ir import Apply, Constant, Index, Lane, SourceLocation, TileType, Value
from ninetoothed.language.primitives import PRIMITIVES

# What operations are built from: computed values, sizes, and Python numbers.
Operand = Value | Expr | float


def is_lost_in(operand: Operand, dtype: DType) -> bool:
    """Tell whether a half may not hold a number. Sizes and other single integers of run time may be any."""
    if isinstance(operand, Value):
        own = operand.type.dtype
        return dtype.is_half and operand.type.is_scalar and isinstance(own, DType) and own.is_integer and own.bits > 8
    if isinstance(operand, Expr):
        return is_lost(operand.constant, dtype) if operand.is_constant else dtype.is_half
    return is_lost(operand, dtype)


class EmissionForbidden(Exception):
    """An operation was emitted where only known numbers may be computed."""


class Builder:
    """Append operations to the innermost open block. `facts` grows as loops and lanes are entered.

    sizes: the names to which a call gives numbers.
    forbids_emission: whether to raise `EmissionForbidden` instead of appending.
    leaders: the sizes of jagged dimensions, each with the first parameter that has the same offsets.
    """

    def __init__(self, facts: Facts, index_type: DType, sizes: frozenset[str] = frozenset()) -> None:
        self.facts = facts
        self.sizes = sizes
        self.index_type = index_type
        self.location: SourceLocation | None = None
        self.forbids_emission = False
        self.leaders: Mapping[str, str] = {}
        self._requirements: dict[Expr, ir.Requirement] = {}
        self._blocks: list[list[ir.Operation]] = [[]]
        self._producers: dict[Value, ir.Operation] = {}
        self._homes: dict[Value, list[ir.Operation]] = {}
        self._names: dict[str, Value] = {}
        self._numbering = ValueNumbering(self._producers)
        self._signs = Signs(self._producers)
        self._count = 0

    # -- blocks ------------------------------------------------------------------------------------

    def emit(self, operation: ir.Operation) -> None:
        """Append an operation to the innermost open block."""
        if self.forbids_emission:
            raise EmissionForbidden
        self._blocks[-1].append(operation)
        for result in ir.results(operation):
            self._producers[result] = operation
            self._homes[result] = self._blocks[-1]

    @contextmanager
    def block(self, operations: list[ir.Operation] | None = None) -> Iterator[list[ir.Operation]]:
        """Collect what is emitted inside into a list of its own, or at the end of one that was collected before."""
        self._blocks.append([] if operations is None else operations)
        try:
            yield self._blocks[-1]
        finally:
            self._blocks.pop()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Append what is emitted inside to the outermost block, before the loops and branches that are open."""
        blocks = self._blocks
        self._blocks = blocks[:1]
        try:
            yield
        finally:
            self._blocks = blocks

    @property
    def is_nested(self) -> bool:
        """Tell whether operations go into a block of another: of a loop, say."""
        return len(self._blocks) > 1

    @property
    def top(self) -> ir.Block:
        """The operations of the outermost block."""
        return tuple(self._blocks[0])

    def producer(self, value: Value) -> ir.Operation | None:
        """Return the operation that computes a value; None for an argument of a loop or a branch's result."""
        return self._producers.get(value)

    def depends(self, value: Value, other: Value) -> bool:
        """Tell whether a value is computed from another by straight-line operations."""
        pending, seen = [value], set()
        while pending:
            last = pending.pop()
            if last is other:
                return True
            producer = self.producer(last)
            if last not in seen and isinstance(producer, Apply):
                pending += producer.operands
            seen.add(last)
        return False

    def fresh(self, stem: str) -> str:
        """Make a name that no other value has."""
        self._count += 1
        return f"{stem}_{self._count}"

    def named(self, value: Any, name: str) -> Any:
        """Name a computed value after the first variable that it is assigned to, which is known only afterwards."""
        if isinstance(value, Value) and value.hint is None:
            object.__setattr__(value, "hint", name)
        return value

    # -- scalars and integers ----------------------------------------------------------------------

    def constant(self, number: float, dtype: DType | PointerType | None = None) -> Value:
        """Emit a number as a constant of `dtype`, by default of the type that it has on its own."""
        if isinstance(number, str):
            raise shapes.Mismatch(f"{number!r} is text, where a tile or a number is wanted; write it without quotes")
        dtype = dtype or number_type(number)
        if not holds(numeric(dtype), number):
            raise shapes.Mismatch(
                f"{number} is out of range for {dtype}; convert what it meets to a wider type with `.to`"
            )
        number = float(number) if dtype.is_floating else bool(number) if dtype == dtypes.int1 else int(number)
        result = Value(TileType(dtype))
        self.emit(Constant(result, number, location=self.location))
        return result

    def index(self, expr: Expr, lanes: tuple[Lane, ...] = (), type: TileType | None = None) -> Value:
        """Emit an integer expression over sizes, counters and lanes."""
        expr = simplify(as_expr(expr), self.facts)
        result = Value(type or TileType(self.index_type))
        self.emit(Index(result, expr, lanes, self.bindings(expr), location=self.location))
        return result

    def bindings(self, *expressions: Expr) -> ir.Bindings:
        """Return the named values that occur in expressions, with their names."""
        names = sorted(set().union(*(e.variables for e in expressions)) & self._names.keys()) if expressions else ()
        return tuple((name, self._names[name]) for name in names)

    def expr_of(self, value: Value) -> Expr:
        """Convert a computed integer to an expression: the one that it was emitted from, else a name.

        Values that are computed alike share a name, so that `k[j]` and `v[j]` are seen to end at the same place.
        """
        match self.producer(value):
            case Constant(value=number):
                return const(int(number))
            case Index(expr=expr, lanes=()):
                return expr
        first = self._numbering.first(value)
        for name, bound in self._names.items():
            if bound is value or (self._numbering.first(bound) is first and self._is_visible(bound)):
                return var(name)
        name = self.fresh("value")
        self._names[name] = value
        if value.type.dtype != dtypes.uint64 and self.is_nonnegative(value):  # indices are computed in int64
            self.facts = self.facts.bind(name, 0)
        return var(name)

    def _is_visible(self, value: Value) -> bool:
        """Tell whether what is emitted now may read a computed value: its block is still open."""
        return any(self._homes.get(value) is block for block in self._blocks)

    # -- requirements ------------------------------------------------------------------------------

    @property
    def requirements(self) -> tuple[ir.Requirement, ...]:
        """The pairs of sizes that must be equal in a call."""
        return tuple(self._requirements.values())

    def require(
        self, left: Expr | int, right: Expr | int, message: str, asked: tuple[Expr, Expr] | None = None
    ) -> None:
        """Require two sizes to be equal, unless they are known to be. Raises ShapeMismatch where they cannot be.

        Sizes made of loop counters and computed numbers are taken to agree: no call could check them. `asked` are the
        sizes as the call knows them, where they have other names here.
        """
        asked = asked or (origin(as_expr(left)), origin(as_expr(right)))
        if len(found := {self.leaders[name] for side in asked for name in side.variables & self.leaders.keys()}) > 1:
            first, second = sorted(found)
            raise shapes.Mismatch(
                f"{message}; {first!r} and {second!r} are jagged, and their entries do not begin at the same offsets:"
                " make one with those of the other, by `torch.nested.nested_tensor_from_jagged(values, x.offsets())`"
            )
        left, right = simplify(as_expr(left), self.facts), simplify(as_expr(right), self.facts)
        difference = simplify(left - right, self.facts)
        if difference == 0:
            return
        if is_nonnegative(difference - 1, self.facts) or is_nonnegative(-difference - 1, self.facts):
            raise shapes.ShapeMismatch(message, *asked)
        if difference.variables <= self.sizes and -difference not in self._requirements:
            self._requirements.setdefault(difference, ir.Requirement(*asked, message, self.location))

    # -- conversions -------------------------------------------------------------------------------

    def value(self, operand: Operand, dtype: DType | PointerType | None = None) -> Value:
        """Convert a Python number, an expression or a value to a value, of `dtype` where given."""
        if isinstance(operand, Value):
            return operand if dtype is None else self.cast(operand, dtype)
        if isinstance(operand, Expr):
            if operand.is_constant:
                return self.constant(operand.constant, dtype)
            return self.value(self.index(operand), dtype)
        return self.constant(operand, dtype)

    def cast(self, value: Value, dtype: DType | PointerType) -> Value:
        """Convert to another type; a constant is converted when compiling."""
        if value.type.dtype == dtype:
            return value
        producer = self.producer(value)
        if isinstance(producer, Constant) and not (producer.result.type.dtype.is_floating and dtype.is_integer):
            return self.constant(wrapped(producer.value, numeric(dtype)), dtype)
        return self.apply("cast", (value,), dtype)

    def taken(self, function: str, value: Value) -> Value:
        """Convert a value to the type in which a primitive computes with its type."""
        return self.cast(value, PRIMITIVES[function].computed_in(numeric(value.type.dtype)) or value.type.dtype)

    def to_float(self, value: Value) -> Value:
        """Convert to float32 or float64, in which functions and divisions compute."""
        dtype = value.type.dtype
        return value if dtype in (dtypes.float32, dtypes.float64) else self.cast(value, dtypes.float32)

    def broadcast_to(self, value: Value, extents: tuple[shapes.Extent, ...], what: str = "") -> Value:
        """Broadcast a value to exactly this shape; `what` begins the message where it does not fit."""
        own = shapes.extents_of(value.type)
        message = f"{what}shape {shapes.text(own)} does not broadcast to {shapes.text(extents)}"
        shapes.check_broadcast_to(own, extents, message, self.require)
        is_emptied = any(a.is_one and a.is_full and not b.is_full for a, b in zip(own, extents, strict=False))
        if value.type.lanes == tuple(each.lanes for each in extents) and not is_emptied:
            return value
        if value.type.is_scalar:
            return self.apply("full", (value,), shape=extents)
        while len(value.type.lanes) < len(extents):
            value = self.apply("expand_dims", (value,), axis=0)
        return self.apply("broadcast", (value,), shape=extents)

    def broadcast(self, *values: Value) -> tuple[Value, ...]:
        """Broadcast all values to their common shape."""
        extents: tuple[shapes.Extent, ...] = ()
        for value in values:
            extents = shapes.broadcast(extents, shapes.extents_of(value.type), self.require)
        return tuple(self.broadcast_to(value, extents) for value in values)

    # -- operations --------------------------------------------------------------------------------

    def apply(
        self,
        function: str,
        operands: tuple[Value, ...],
        *given: DType | PointerType,
        shape: Sequence[shapes.Extent] | None = None,
        **attributes: Any,
    ) -> Any:
        """Emit a primitive. Returns its result, or a tuple where it does not have exactly one.

        The row tells the types of results: `given` are the element types, and `shape` the shape, that it leaves open.
        Raises `shapes.Mismatch` where the row does not take operands and attributes like these.
        """
        pairs = tuple((name, value) for name, value in attributes.items() if value is not None)
        row, own = PRIMITIVES[function], [value.type for value in operands]
        unfit = row.unfit([type.dtype for type in own])
        if unfit is not None:
            raise shapes.Mismatch(unfit)
        if shape is None:
            types = ir.result_types(row, own, given, dict(pairs))
        else:
            types = [shapes.tile_type(each, shape) for each in given or row.gives([type.dtype for type in own])]
        refusal = row.refusal(own, types, dict(pairs))
        if refusal is not None:
            raise shapes.Mismatch(f"{refusal}; convert or reshape what does not fit, say with `.to(dtype)`")
        results = tuple(map(Value, types))
        self.emit(Apply(results, function, operands, pairs, location=self.location))
        return results[0] if len(results) == 1 else results

    def common_type(self, *operands: Operand) -> DType:
        """Return the common type of operands. A Python number does not widen a tile of its own or a higher category."""
        typed = [
            numeric(v.type.dtype) if isinstance(v, Value) else self.index_type
            for v in operands
            if isinstance(v, Value | Expr)
        ]
        numbers = [v for v in operands if not isinstance(v, Value | Expr)]
        if not typed:
            typed, numbers = [number_type(number) for number in numbers], []
        result = functools.reduce(dtypes.promote, typed)
        for number in numbers:
            if dtypes.CATEGORY_ORDER[number_type(number).category] > dtypes.CATEGORY_ORDER[result.category]:
                result = number_type(number)
        return result

    def elementwise(
        self,
        function: str,
        *operands: Operand,
        dtype: DType | None = None,
        **attributes: Any,
    ) -> Value:
        """Convert to `dtype` (by default the common type), broadcast, and apply.

        Floats that the function does not take are computed in float32, and a result of that type is converted back.
        """
        dtype = dtype or self.common_type(*operands)
        computed = PRIMITIVES[function].computed_in(dtype) or dtype
        values = self.broadcast(*(self.value(operand, computed) for operand in operands))
        value = self.apply(function, values, **attributes)
        return self.cast(value, dtype) if value.type.dtype == computed else value

    def floating(self, function: str, *operands: Operand, **attributes: Any) -> Value:
        """Apply a function of floats in float32 or float64. Halves are rounded back, integers give float32."""
        common = self.common_type(*operands)
        dtype = common if common.is_floating else dtypes.float32
        return self.elementwise(function, *operands, dtype=dtype, **attributes)

    def binary(self, function: str, lhs: Operand, rhs: Operand) -> Value:
        """Apply an arithmetic, bitwise or comparison operator to values, expressions and numbers."""
        for pointer, offset in ((lhs, rhs), (rhs, lhs)):
            if isinstance(pointer, Value) and isinstance(pointer.type.dtype, PointerType):
                return self.move(pointer, offset if function == "add" else self.binary("mul", offset, -1))
        common = self.common_type(lhs, rhs)
        if PRIMITIVES[function].is_comparison:
            for number in (lhs, rhs):
                if isinstance(number, int) and not holds(common, number):
                    common = dtypes.promote(common, number_type(number))
            return self.elementwise(function, lhs, rhs, dtype=common)
        if function == "truediv":
            computed = common if common in (dtypes.float32, dtypes.float64) else dtypes.float32
            return self.elementwise(function, lhs, rhs, dtype=computed)
        if function in ("floordiv", "mod"):
            return self._divide(function, lhs, rhs, common)
        if function in ("add", "sub", "mul") and any(is_lost_in(operand, common) for operand in (lhs, rhs)):
            return self.cast(self.elementwise(function, lhs, rhs, dtype=dtypes.float32), common)
        if common == dtypes.int1 and function in ("add", "sub", "mul", "lshift", "rshift"):
            common = dtypes.int32
        return self.elementwise(function, lhs, rhs, dtype=common)

    def move(self, pointer: Value, offset: Operand) -> Value:
        """Move a pointer by `offset` elements."""
        offset = self.value(offset)
        if offset.type.dtype.is_floating:
            raise shapes.Mismatch(f"pointers are moved by whole numbers of elements, not by {offset.type.dtype}")
        pointer, offset = self.broadcast(pointer, offset)
        return self.apply("add", (pointer, offset))

    def _divide(self, function: str, lhs: Operand, rhs: Operand, common: DType) -> Value:
        if common == dtypes.int1:
            common = dtypes.int32
        if common.is_integer and isinstance(rhs, int) and rhs == 0:
            raise shapes.Mismatch("integers are divided by zero")
        nonnegative = common.category == "uint" or (self.is_nonnegative(lhs) and self.is_nonnegative(rhs))
        return self.elementwise(function, lhs, rhs, dtype=common, nonnegative=nonnegative or None)

    def is_nonnegative(self, operand: Operand) -> bool:
        """Tell whether an integer is known not to be negative (so that truncating and flooring division agree)."""
        return self._signs.is_nonnegative(operand, self.facts)
