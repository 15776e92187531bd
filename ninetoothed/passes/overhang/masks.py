"""Build the operations that the pass adds: masks, and choices by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, Facts, const
from ninetoothed.ir import TileType, Value
from ninetoothed.ir.lanes import with_lanes
from ninetoothed.ir.values import Element
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge


@dataclass
class MaskBuilder:
    """Appends operations to the innermost open block. A mask that is there already is not made again."""

    facts: Facts
    index_type: DType
    location: ir.SourceLocation | None = None
    _blocks: list[list[ir.Operation]] = field(default_factory=lambda: [[]])
    _masks: list[dict[Any, Value]] = field(default_factory=lambda: [{}])

    @contextmanager
    def block(self) -> Iterator[list[ir.Operation]]:
        """Open a block, to which operations go until it is closed."""
        operations: list[ir.Operation] = []
        self._blocks.append(operations)
        self._masks.append({})
        yield operations
        self._blocks.pop()
        self._masks.pop()

    @property
    def top(self) -> ir.Block:
        """The operations of the outermost block."""
        return tuple(self._blocks[0])

    def emit(self, operation: ir.Operation) -> None:
        """Append an operation to the innermost block."""
        self._blocks[-1].append(operation)

    # -- values --

    def apply(self, function: str, operands: tuple[Value, ...], *elements: Element, **attributes: Any) -> Value:
        """Append an application with one result, and return that."""
        self.emit(operation := ir.Apply.of(function, operands, *elements, location=self.location, **attributes))
        return operation.result

    def reshaped(self, function: str, value: Value, type: TileType, attributes: tuple[Any, ...] = ()) -> Value:
        """Append an application whose result has a shape that its row leaves open."""
        self.emit(ir.Apply((result := Value(type),), function, (value,), attributes, location=self.location))
        return result

    def number(self, number: int | float | bool, type: TileType) -> Value:
        """Emit a number in every lane of a type."""
        scalar = Value(TileType(type.dtype))
        number = float(number) if type.dtype.is_floating else bool(number) if type.dtype == dtypes.int1 else int(number)
        self.emit(ir.Constant(scalar, number, location=self.location))
        return self.stretched(scalar, type)

    def index(self, e: Expr, lanes: Iterable[ir.Lane], bindings: ir.Bindings, type: TileType) -> Value:
        """Emit an expression over the lanes of a tile of `type`, with one lane along axes that it does not mention."""
        own = tuple(lane for lane in lanes if lane.name in e.variables)
        # It depends on those of tiles that are bound, too: a scatter's indices.
        bound = (value.type.lanes for name, value in bindings if name in e.variables)
        axes = {lane.axis for lane in own} | {axis for counts in bound for axis, n in enumerate(counts) if n != 1}
        if axes:
            shape = tuple(size if axis in axes else const(1) for axis, size in enumerate(type.shape))
            counts = tuple(count if axis in axes else 1 for axis, count in enumerate(type.lanes))
            self.facts = with_lanes(self.facts, type.axes)
            result = Value(TileType(self.index_type, shape, counts))
        else:
            result = Value(TileType(self.index_type))
        bindings = tuple((name, value) for name, value in bindings if name in e.variables)
        self.emit(ir.Index(result, e, own, bindings, location=self.location))
        return result

    def stretched(self, value: Value, type: TileType) -> Value:
        """Broadcast a value to all lanes of a type."""
        target = type.with_dtype(value.type.dtype)
        if value.type.lanes == target.lanes:
            return value
        return self.reshaped("full" if value.type.is_scalar else "broadcast", value, target)

    def together(self, function: str, a: Value, b: Value) -> Value:
        """Emit a condition on two values, which are broadcast to their common lanes."""
        rank = max(len(a.type.lanes), len(b.type.lanes))
        if rank == 0:
            return self.apply(function, (a, b))
        sides = [(value.type.shape, value.type.lanes) for value in (a, b) if value.type.lanes]
        lanes = tuple(map(max, *(lanes for _, lanes in sides))) if len(sides) > 1 else sides[0][1]
        shape = tuple(next(s[axis] for s, counts in sides if counts[axis] == count) for axis, count in enumerate(lanes))
        type = TileType(dtypes.int1, shape, lanes)
        return self.apply(function, (self.stretched(a, type), self.stretched(b, type)))

    # -- masks --

    def mask(self, edges: Iterable[OverhangEdge], type: TileType) -> Value | None:
        """Emit `lane_0 < m & lane_1 < n`: a comparison for each edge past which there are lanes; None without any."""
        result = None
        for edge in edges:
            if edge.fails:
                one = self._mask_of(edge, type)
                result = one if result is None else self.together("and", result, one)
        return result

    def whole_mask(self, edges: Iterable[OverhangEdge], type: TileType) -> Value:
        """Emit the mask with all lanes of a type."""
        mask = self.mask(edges, type)
        return self.number(True, type.with_dtype(dtypes.int1)) if mask is None else self.stretched(mask, type)

    def mask_of_some(self, edges: Iterable[OverhangEdge], type: TileType) -> Value:
        """Emit the mask of edges, past one of which there are lanes."""
        mask = self.mask(edges, type)
        assert mask is not None, "one of the edges fails"
        return mask

    def _mask_of(self, edge: OverhangEdge, type: TileType) -> Value:
        if isinstance(edge, MaskEdge):
            return edge.value
        key = edge, type.lanes
        for known in self._masks:
            if key in known:
                return known[key]
        if edge.remaining.is_constant and not edge.reached:
            inside = self.number(edge.remaining.constant > 0, TileType(dtypes.int1))
        else:
            inside = self.compared("lt", edge.index, edge.size, edge, type)
        for guard in edge.reached:
            outside = [("ge", guard.index, guard.size)] if guard.upper else []
            outside += [("lt", guard.index, const(0))] if guard.lower else []
            for function, index, size in outside:
                other = self.compared(function, index, size, edge, type)
                inside = self.together("or", inside, other)
        self._masks[-1][key] = inside
        return inside

    def compared(self, function: str, a: Expr, b: Expr, edge: BoundEdge, type: TileType) -> Value:
        """Compare two expressions over the lanes of an edge."""
        left, right = (self.index(e, edge.lanes, edge.bindings, type) for e in (a, b))
        return self.together(function, left, right)

    def choice(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Emit `then` in the lanes where the condition holds, and `otherwise` elsewhere."""
        return self.apply("where", (self.stretched(condition, then.type), then, otherwise))
