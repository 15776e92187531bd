"""Print integer expressions over lanes as tiles: each part is computed only on the axes on which it depends.

`p * 128 + lane_0` along axis 0 becomes a vector with a name, `p * 128 + tl.arange(0, 128)`, which all accesses share.
It is assigned in the outermost block that knows its variables, and enters a tile as `vector[:, None]`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.backends.triton import index_width, syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.integers import ExprPrinter, terms
from ninetoothed.dtypes import int32
from ninetoothed.expr import Expr, Facts, const, var
from ninetoothed.ir.lanes import with_lanes

NONE: frozenset[int] = frozenset()


def scalar(context: EmitContext, e: Expr) -> ast.expr:
    """Print an expression without lanes."""
    return TilePrinter.of(context, (), ir.TileType(int32), ()).scalar(e)


def _as_number(text: ValueText) -> ValueText:
    """Take the only element out of a block, such as a scan gives: where there is no axis, indices are scalars."""
    is_block = bool(text.shape) and all(count == 1 for count in text.shape)
    return ValueText(syntax.call("tl.sum", text.node)) if is_block else text


@dataclass(frozen=True)
class Summand:
    """A summand: a scalar (no axes), a vector along one axis, or (`lifted`) a tile over `axes`."""

    node: ast.expr
    axes: frozenset[int]
    lifted: bool = False


@dataclass(frozen=True)
class TilePrinter:
    """Prints the expressions over the lanes of one tile. wide: in 64 bits (see there)."""

    context: EmitContext
    lanes: tuple[ir.Lane, ...]
    shape: tuple[int, ...]
    bindings: dict[str, ValueText]
    facts: Facts
    wide: bool = False

    @classmethod
    def of(
        cls, context: EmitContext, lanes, type: ir.TileType, bindings: ir.Bindings, wide: bool = False
    ) -> TilePrinter:
        facts = with_lanes(context.facts, lanes)
        texts = {name: _as_number(index_width.bound(context, value, wide)) for name, value in bindings}
        return cls(context, tuple(lanes), type.lanes, texts, facts, wide)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def lane_names(self) -> frozenset[str]:
        """The names of the lanes that vary."""
        return frozenset(lane.name for lane in self.lanes if lane.count != 1)

    def assuming(self, guards) -> TilePrinter:
        """Return a printer that assumes guards: elements out of bounds may be anything."""
        facts = self.facts
        for guard in guards:
            facts = facts.assume(*guard.range)
        return replace(self, facts=facts)

    def settle(self, e: Expr) -> Expr:
        """Replace by 0 lanes that are alone on their axis, and indices along axes of one program."""
        return e.subs({lane.name: 0 for lane in self.lanes if lane.count == 1} | self.context.zeros)

    def parts(self, e: Expr, wanted: str) -> list[Summand]:
        """Return the summands of an expression, one for each set of axes; a single vector takes the scalars in."""
        by_axes: dict[frozenset[int], Expr] = {}
        for term in terms(self.settle(e)):
            axes = self._axes_of(term)
            by_axes[axes] = by_axes.get(axes, const(0)) + term
        tiled = [axes for axes in by_axes if axes]
        if len(tiled) == 1 and NONE in by_axes:
            by_axes[tiled[0]] += by_axes.pop(NONE)
        return [
            self._part(axes, term, wanted) for axes, term in sorted(by_axes.items(), key=lambda item: sorted(item[0]))
        ]

    def _part(self, axes: frozenset[int], e: Expr, wanted: str) -> Summand:
        if not axes:
            return Summand(self.scalar(e), axes, lifted=True)
        if len(axes) == 1 and not self._is_tiled(e):
            return Summand(self.vector(e, min(axes), wanted), axes)
        return Summand(self._print(e, self._lifted), axes, lifted=True)

    def scalar(self, e: Expr) -> ast.expr:
        return self._print(self.settle(e), {})

    def vector(self, e: Expr, axis: int, wanted: str) -> ast.expr:
        """Return an expression along one axis as a vector, which is shared and named unless it is a bare `arange`."""
        lane = next(lane for lane in self.lanes if lane.axis == axis)
        arange = syntax.call("tl.arange", 0, lane.count)
        if e == var(lane.name):
            return arange
        if e.variables & self.bindings.keys():
            return self._print(e, {lane.name: arange})
        return self.context.common(wanted, self._print(e, {lane.name: arange}, wanted), self.context.depth_of(e))

    def tile(self, parts: list[Summand]) -> ValueText:
        """Return the sum of parts as a tile."""
        if not parts:
            return ValueText(syntax.number(0), (), 0)
        axes = frozenset().union(*(part.axes for part in parts))
        shape = tuple(n if i in axes else 1 for i, n in enumerate(self.shape)) if axes else ()
        scalars = [part for part in parts if not part.axes]
        tiled = [part for part in parts if part.axes]
        return ValueText(syntax.chain("+", [self.lift(part) for part in scalars + tiled]), shape)

    def lift(self, part: Summand) -> ast.expr:
        return part.node if part.lifted else syntax.along(part.node, min(part.axes), self.rank)

    def text(self, e: Expr, wanted: str) -> ValueText:
        e = self.settle(e)
        if e.is_constant:
            return ValueText(syntax.number(e.constant), (), e.constant)
        return self.tile(self.parts(e, wanted))

    def _is_tiled(self, e: Expr) -> bool:
        """Tell whether a bound value that is a tile occurs."""
        return any(self.bindings[name].shape for name in e.variables & self.bindings.keys())

    def _axes_of(self, e: Expr) -> frozenset[int]:
        axes = {lane.axis for lane in self.lanes if lane.count != 1 and lane.name in e.variables}
        for name in e.variables & self.bindings.keys():
            axes.update(axis for axis, n in enumerate(self.bindings[name].shape) if n != 1)
        return frozenset(axes)

    @property
    def _lifted(self) -> dict[str, ast.expr]:
        aranges = {lane: syntax.call("tl.arange", 0, lane.count) for lane in self.lanes}
        return {lane.name: syntax.along(node, lane.axis, self.rank) for lane, node in aranges.items()}

    def _print(self, e: Expr, lanes: dict[str, ast.expr], wanted: str = "numerator") -> ast.expr:
        """Print an expression; `lanes` has the texts of the tile's own variables."""

        def variable(name: str) -> ast.expr:
            if name in lanes:
                return lanes[name]
            if name in self.bindings:
                return self.bindings[name].node
            return index_width.widened(self.context, name) if self.wide else self.context.variable(name)

        def keep(part: Expr, node: ast.expr) -> ast.expr:
            is_simple = isinstance(node, ast.Name) or part.variables & self.bindings.keys()
            # Assigned as far out as its own variables allow; the whole may be known only further in.
            return node if is_simple else self.context.common(wanted, node, self.context.depth_of(part))

        return ExprPrinter(variable, self.facts, keep, self.lane_names)(e)
