"""Pass: dimensions without a gap in memory between them become one where an index was taken apart for them.

    x[index // n, index % n] of m by n elements, with strides n and 1
->  x[index] of m * n elements, with a stride of 1

Flattening takes indices apart. Joined again they need no division, elements that lie side by side are seen to, and a
tile of flattened rows is a box for the copy engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.expr import Expr, FloorDiv, Mod


def collapse(program: ir.Program) -> ir.Program:
    """The program with such dimensions of its tensors as one."""
    accesses: dict[str, list[ir.Access]] = {}
    for operation in ir.walk(program.body):
        if isinstance(operation, ir.Load | ir.Store):
            accesses.setdefault(operation.access.parameter, []).append(operation.access)
    joins: dict[str, tuple[_Join, ...]] = {}
    parameters = []
    for parameter in program.parameters:
        found = tuple(_joins(parameter, accesses.get(parameter.name, ())))
        for join in found:
            parameter = join.parameter(parameter)
        joins[parameter.name] = found
        parameters.append(parameter)
    if not any(joins.values()):
        return program
    return replace(program, parameters=tuple(parameters), body=_block(program.body, joins))


@dataclass(frozen=True)
class _Join:
    """Dimension `outer` continues `inner`, which has `size` elements: from the last of these to the next of it."""

    outer: int
    inner: int
    size: Expr

    def parameter(self, parameter: ir.Parameter) -> ir.Parameter:
        sizes, strides = list(parameter.sizes), list(parameter.strides)
        sizes[self.inner] = sizes[self.outer] * sizes[self.inner]
        del sizes[self.outer], strides[self.outer]
        return replace(parameter, sizes=tuple(sizes), strides=tuple(strides))

    def access(self, access: ir.Access) -> ir.Access:
        indices = list(access.indices)
        indices[self.inner] = indices[self.outer] * self.size + indices[self.inner]
        del indices[self.outer]
        return replace(access, indices=tuple(indices))


def _joins(parameter: ir.Parameter, accesses: Iterable[ir.Access]) -> Iterator[_Join]:
    """Joins of dimensions one after another, as long as each leaves fewer quotients, and none of an access more."""
    accesses = list(accesses)
    join = _next(parameter, accesses)
    while join is not None:
        yield join
        parameter, accesses = join.parameter(parameter), [join.access(access) for access in accesses]
        join = _next(parameter, accesses)


def _next(parameter: ir.Parameter, accesses: list[ir.Access]) -> _Join | None:
    for outer, inner in itertools.permutations(range(len(parameter.strides)), 2):
        size, stride = parameter.sizes[inner], parameter.strides[inner]
        if stride != 0 and parameter.strides[outer] == size * stride:
            join = _Join(outer, inner, size)
            before, after = map(_quotients, accesses), map(_quotients, map(join.access, accesses))
            spared = [b - a for b, a in zip(before, after, strict=True)]
            if spared and min(spared) >= 0 and max(spared) > 0:
                return join
    return None


def _quotients(access: ir.Access) -> int:
    return sum(isinstance(atom, FloorDiv | Mod) for index in access.indices for atom in index.atoms)


def _block(block: ir.Block, joins: dict[str, tuple[_Join, ...]]) -> ir.Block:
    def operation(operation: ir.Operation) -> ir.Operation:
        match operation:
            case ir.Load(access=access) | ir.Store(access=access):
                for join in joins[access.parameter]:
                    access = join.access(access)
                return replace(operation, access=access)
        return ir.with_blocks(operation, lambda nested: _block(nested, joins))

    return tuple(map(operation, block))
