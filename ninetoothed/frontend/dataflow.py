"""Compute facts about values from the same facts about the values that they are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ninetoothed.ir import Value


def bottom_up(
    value: Value, known: dict[Value, Any], inputs: Callable[[Value], Iterable[Value]], rule: Callable[[Value], Any]
) -> Any:
    """Apply `rule` to a value once it was applied to all of its `inputs`; `known` holds the results."""
    pending = [value]
    while pending:
        missing = [each for each in inputs(pending[-1]) if each not in known]
        if not missing:
            last = pending.pop()
            known[last] = known[last] if last in known else rule(last)
        pending += missing
    return known[value]
