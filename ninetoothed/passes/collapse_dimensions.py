"""Pass: collapse dimensions without a gap in memory between them where an index was taken apart for them.

    x[index // n, index % n] of m by n elements, with strides n and 1
->  x[index] of m * n elements, with a stride of 1

Flattening takes indices apart. Put together again they need no division, neighbours in memory are seen to be such, and
the copy engine can move a tile of flattened rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.expr import Expr, Facts, FloorDiv, Mod, simplify


def collapse(program: ir.Program) -> ir.Program:
    """Make one dimension of such dimensions of a program's tensors."""
    accesses: dict[str, list[ir.Access]] = {}
    for operation in ir.walk(program.body):
        if isinstance(operation, ir.Load | ir.Store):
            accesses.setdefault(operation.access.parameter, []).append(operation.access)
    collapses: dict[str, tuple[_Collapse, ...]] = {}
    parameters = []
    for parameter in program.parameters:
        found = tuple(_collapses(parameter, accesses.get(parameter.name, ()), program.facts))
        for each in found:
            parameter = each.parameter(parameter)
        collapses[parameter.name] = found
        parameters.append(parameter)
    return replace(program, parameters=tuple(parameters), body=_Collapser(collapses=collapses).block(program.body))


@dataclass(frozen=True)
class _Collapse:
    """Two dimensions as one: a step along `outer` is as long as the `size` elements of `inner`."""

    outer: int
    inner: int
    size: Expr
    facts: Facts

    def parameter(self, parameter: ir.Parameter) -> ir.Parameter:
        sizes, strides = list(parameter.sizes), list(parameter.strides)
        sizes[self.inner] = sizes[self.outer] * sizes[self.inner]
        del sizes[self.outer], strides[self.outer]
        return replace(parameter, sizes=tuple(sizes), strides=tuple(strides))

    def access(self, access: ir.Access) -> ir.Access:
        indices = list(access.indices)
        indices[self.inner] = simplify(indices[self.outer] * self.size + indices[self.inner], self.facts)
        del indices[self.outer]
        return replace(access, indices=tuple(indices))


def _collapses(parameter: ir.Parameter, accesses: Iterable[ir.Access], facts: Facts) -> Iterator[_Collapse]:
    """Collapse two dimensions after another, as long as each leaves fewer quotients, and none of an access more."""
    accesses = list(accesses)
    found = _next(parameter, accesses, facts)
    while found is not None:
        yield found
        parameter, accesses = found.parameter(parameter), [found.access(access) for access in accesses]
        found = _next(parameter, accesses, facts)


def _next(parameter: ir.Parameter, accesses: list[ir.Access], facts: Facts) -> _Collapse | None:
    for outer, inner in itertools.permutations(range(len(parameter.strides)), 2):
        size, stride = parameter.sizes[inner], parameter.strides[inner]
        if stride != 0 and parameter.strides[outer] == size * stride:
            found = _Collapse(outer, inner, size, facts)
            before, after = map(_quotients, accesses), map(_quotients, map(found.access, accesses))
            spared = [b - a for b, a in zip(before, after, strict=True)]
            if spared and min(spared) >= 0 and max(spared) > 0:
                return found
    return None


def _quotients(access: ir.Access) -> int:
    return sum(isinstance(atom, FloorDiv | Mod) for index in access.indices for atom in index.atoms)


@dataclass(kw_only=True)
class _Collapser(ir.Rewriter):
    """Rewrites accesses for parameters of fewer dimensions."""

    collapses: dict[str, tuple[_Collapse, ...]]

    def access(self, operation: ir.Load | ir.Store) -> ir.Access:
        access = operation.access
        for each in self.collapses[access.parameter]:
            access = each.access(access)
        return access
