"""Poison overhang: fill it with numbers that show in results, and check that none is stored."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import dtypes, ir
from ninetoothed.arrangement.guards import Edge
from ninetoothed.expr import const
from ninetoothed.ir import Value
from ninetoothed.passes.overhang.edges import BoundEdge
from ninetoothed.passes.overhang.tiles import TrackedTile

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def fill(rewriter: OverhangRewriter, raw: Value) -> None:
    """Fill the overhang of a value with a number that shows wherever it is used."""
    tile, type = rewriter.tile(raw), raw.type
    mask = rewriter.builder.mask(tile.ends(rewriter.facts), type)
    if mask is not None and not isinstance(type.dtype, dtypes.PointerType):
        bad = math.nan if type.dtype.is_floating else type.dtype.range[1]
        value = rewriter.builder.choice(mask, tile.value, rewriter.builder.number(bad, type))
        rewriter.add(raw, replace(tile, value=value))


def check_store(rewriter: OverhangRewriter, access: ir.Access, tile: TrackedTile) -> None:
    """Assert that no overhang is stored."""
    mask = rewriter.builder.mask(tile.edges, access.type)
    if mask is None:
        return
    bindings = rewriter.current.bindings(access.bindings)
    nowhere = Edge(const(0), const(0), reached=access.guards)
    unwritten = BoundEdge.of(nowhere, access.type.axes, rewriter.facts, bindings=bindings)
    mask = rewriter.builder.together("or", mask, rewriter.builder.mask_of_some((unwritten,), access.type))
    message = f"overhang is stored to {access.parameter!r}"
    told = (("message", message), ("indices", (access.parameter, access.indices)))
    rewriter.builder.emit(ir.Apply((), "device_assert", (mask,), told, location=rewriter.builder.location))
