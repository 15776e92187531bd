"""See a jagged tensor as its users do, entry by entry: then its entries' ends are bounds like others.

    x[program_0, start + 64 * program_1 + lane] where 64 * program_1 + lane < offsets[program_0 + 1] - start
->  x[program_0, 64 * program_1 + lane] where 64 * program_1 + lane < length,  of sizes (entries, length)

That each entry lies in the memory of the values, apart from all others, is what PyTorch's nested tensors promise. A
length is a number of run time, from 0 to that of the longest entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.expr import Expr, Range, var
from ninetoothed.races import Footprints
from ninetoothed.races.site import Site


def within_entries(definition: KernelDefinition, footprints: Footprints, number: Callable[[Any], Expr]) -> Footprints:
    """Return what a program touches with the indices of jagged tensors as users see them.

    number: a size as an expression. A tensor stays as it is where no access tells its entries' ends.
    """
    lengths: set[Expr] = set()
    for parameter in definition.given:
        found = None if parameter.jagged is None else next(_ends(parameter, footprints), None)
        if found is None:
            continue
        start, end = found
        if end not in lengths:
            name = f"loaded.{parameter.name}"
            named = _with_length(parameter, footprints, start, end, name, number)
            if named is None:
                continue
            footprints, end = named, var(name)
            lengths.add(end)
        footprints = _within(parameter, footprints, start, end, number)
    return footprints


def _within(
    parameter: KernelParameter, footprints: Footprints, start: Expr, length: Expr, number: Callable[[Any], Expr]
) -> Footprints:
    """Count the jagged index of a tensor from the begins of its entries."""
    jagged, name = parameter.jagged, parameter.name
    assert jagged is not None
    sizes = tuple(length if dim == jagged.dim else number(size) for dim, size in enumerate(jagged.sizes))
    memories = {**footprints.memories, name: replace(footprints.memories[name], sizes=sizes)}

    def moved(site: Site) -> Site:
        if site.parameter != name or site.is_pointed:
            return site
        return replace(site, place=tuple(e - start if dim == jagged.dim else e for dim, e in enumerate(site.place)))

    return replace(footprints, sites=tuple(map(moved, footprints.sites)), memories=memories)


def _ends(parameter: KernelParameter, footprints: Footprints) -> Iterator[tuple[Expr, Expr]]:
    """Find where entries begin, and how long they are, by the accesses that are guarded by their ends."""
    assert parameter.jagged is not None
    loaded = footprints.space.loaded.keys()
    for site in footprints.sites:
        if site.parameter != parameter.name or site.is_pointed:
            continue
        for guard in site.guards:
            start = site.place[parameter.jagged.dim] - guard.index
            if guard.upper and guard.size.variables & loaded and start.variables and start.variables <= loaded:
                yield start, guard.size


def _with_length(
    parameter: KernelParameter, footprints: Footprints, start: Expr, end: Expr, name: str, number: Callable[[Any], Expr]
) -> Footprints | None:
    """Give the length of an entry a name, in the place of the number that it was computed of; None where it has none.

    That number is offsets[b + 1], or with holes lengths[b]. What decides on it decides on the length.
    """
    assert parameter.jagged is not None
    space, longest = footprints.space, number(parameter.jagged.longest)
    last = next(iter(sorted(end.variables & space.loaded.keys() - start.variables)), "")
    linear = end.linear(frozenset({last}))
    if linear is None or linear[0].get(last) != 1:
        return None

    def at(e: Any) -> Any:
        return None if e is None else e.subs({last: var(name) - linear[1]})

    def named(site: Site) -> Site:
        return replace(site, place=tuple(map(at, site.place)), guards=tuple(guard.at(at) for guard in site.guards))

    ranges = {key: Range(at(known.lo), at(known.hi), known.multiple_of) for key, known in space.ranges.items()}
    decided = dict.fromkeys(key for each in sorted(end.variables & space.loaded.keys()) for key in space.loaded[each])
    # Before all others: rounds may end by it.
    space = replace(
        space, ranges={name: Range(0, longest), **ranges}, loaded={**space.loaded, name: tuple(decided)}
    )  # fmt: skip
    facts = footprints.facts.bind(name, 0, longest)
    return replace(footprints, sites=tuple(map(named, footprints.sites)), space=space, facts=facts)
