"""Tell whether accesses of one tile each may touch the same memory."""

from __future__ import annotations

from ninetoothed import ir


def are_apart(first: ir.Access, second: ir.Access) -> bool:
    """Tell whether two accesses with the same lanes lie side by side, such as two subtiles of one tile."""
    counts = {lane.name: lane.count for lane in first.lanes}
    for one, other in zip(first.indices, second.indices, strict=True):
        lanes = one.variables & counts.keys()
        difference = one - other
        if difference.is_constant and abs(difference.constant) >= max((counts[name] for name in lanes), default=1):
            return True
    return False
