"""Rules for the lanes of operands and results of primitives: one function a family.

Each tells whether the lanes of operands and results (without those that are scalars by the signature) agree, and fit
the attributes. How many there are, the signature has checked before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Lanes = tuple[int, ...]
LaneRule = Callable[[Sequence[Lanes], Sequence[Lanes], Mapping[str, Any]], bool]


def same(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """Tell whether operands and results have one shape."""
    return len({*operands, *results}) <= 1


def assign(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8), (4, 1) -> (4, 1): a new value may have another shape than the old one."""
    return operands[1] == results[0]


def free(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """Accept any lanes: the result's type says which."""
    return True


def broadcast(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(1, 8) -> (4, 8)"""
    (source,), (target,) = operands, results
    return _stretches(source, target)


def expand_dims(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8) -> (4, 1, 8), for axis=1"""
    (source,), (target,) = operands, results
    axis = _axis(attributes["axis"], target)
    return axis is not None and target[axis] == 1 and (*target[:axis], *target[axis + 1 :]) == source


def reshape(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8) -> (2, 16)"""
    (source,), (target,) = operands, results
    return math.prod(source) == math.prod(target)


def permute(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8) -> (8, 4), for dims=(1, 0)"""
    (source,), (target,) = operands, results
    dims = attributes["dims"]
    return sorted(dims) == list(range(len(source))) and tuple(source[dim] for dim in dims) == target


def flip(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8) -> (4, 8), along an axis"""
    return same(operands, results, attributes) and _axis(attributes["axis"], operands[0]) is not None


def join(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8), (4, 8) -> (4, 8, 2)"""
    lhs, rhs = operands
    return lhs == rhs and results[0] == (*lhs, 2)


def split(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8, 2) -> (4, 8), (4, 8)"""
    return join(results, operands, attributes)


def cat(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(8,), (8,) -> (16,)"""
    lhs, rhs = operands
    return len(lhs) == 1 and lhs == rhs and results[0] == (2 * lhs[0],)


def gather(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(64, 8), (4, 8) -> (4, 8), along axis=0"""
    source, index = operands
    axis = _axis(attributes["axis"], source)
    return axis is not None and len(source) == len(index) and results[0] == index


def reduction(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8) -> (4,), or (4, 1) with keep_dims, for axis=1; () or (1, 1) without an axis; of no number"""
    source, chosen = operands[0], attributes.get("axis")
    axis = None if chosen is None else _axis(chosen, source)
    if not source or (chosen is not None and axis is None):
        return False
    kept = tuple(1 if axis in (None, a) else count for a, count in enumerate(source))
    if not attributes.get("keep_dims"):
        kept = tuple(count for a, count in enumerate(source) if axis not in (None, a))
    return len(operands) == len(results) and {*operands} == {source} and {*results} == {kept}


def sort(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8) -> (4, 8), along the last axis: a number has none"""
    return same(operands, results, attributes) and operands[0] != ()


def scan(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(4, 8) -> (4, 8), along an axis"""
    is_along = _axis(attributes["axis"], operands[0]) is not None
    return is_along and len(operands) == len(results) and same(operands, results, attributes)


def histogram(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(64,), perhaps a mask (64,) -> (16,), for num_bins=16"""
    return len(operands[0]) == 1 and {*operands} == {operands[0]} and results[0] == (attributes["num_bins"],)


def dot(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(..., M, K), (..., K, N), perhaps an accumulator (..., M, N) -> (..., M, N)"""
    lhs, rhs, *accumulators = operands
    (result,) = results
    if not len(lhs) == len(rhs) == len(result) >= 2 or lhs[-1] != rhs[-2]:
        return False
    is_batched = _stretches(lhs[:-2], result[:-2]) and _stretches(rhs[:-2], result[:-2])
    return is_batched and result[-2:] == (lhs[-2], rhs[-1]) and {*accumulators} <= {result}


def dot_scaled(operands: Sequence[Lanes], results: Sequence[Lanes], attributes: Mapping[str, Any]) -> bool:
    """(M, K), (M, K / 32), (K, N), (N, K / 32) -> (M, N); elements of four bits come two in one along K"""
    lhs, _, rhs, _, *accumulators = operands
    return results[0] == (lhs[-2], rhs[-1]) and {*accumulators} <= {results[0]}


def _axis(axis: Any, lanes: Lanes) -> int | None:
    """Return the number of an axis, from 0; None where there is no such axis."""
    return axis % len(lanes) if isinstance(axis, int) and -len(lanes) <= axis < len(lanes) else None


def _stretches(source: Lanes, target: Lanes) -> bool:
    """Tell whether a shape broadcasts to another of the same rank."""
    return len(source) == len(target) and all(a in (1, b) for a, b in zip(source, target))
