"""Spell out a jagged parameter: its values, and beside it the parameters that say where the entries of a batch are.

    x: Tensor(3, jagged_dim=1), of sizes (b, j, d)
->  x           the values, of sizes (1, sum of all j, d): element (b, j, d) is x[b, offsets[b] + j, d] where
                0 <= j < lengths[b]. All entries lie in one memory, so that the stride of the batch is 0
    x_offsets   where each entry begins, and the end of the last one: b + 1 numbers
    x_lengths   the length of each entry, where there are holes between them; else `x_offsets` again
    x_entries   no numbers: of sizes (b, the longest j), by which grids are computed and sizes compared
    x_sharing   a constant: whether there are holes, and which parameter's offsets these are, too

The last four are never seen by an application; `runtime.jagged` finds them in a nested tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ninetoothed.arrangement import metaops
from ninetoothed.arrangement.sources import strides
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Arrangement, Shape, SourceTensor
from ninetoothed.definition import Jagged, KernelParameter
from ninetoothed.errors import ArrangementError


def spelled_out(name: str, parameters: Sequence[KernelParameter]) -> tuple[KernelParameter, ...]:
    """Return the parameters of the kernel `name` with those behind its jagged ones, which come last.

    Raises `ArrangementError` for a jagged dimension that is the batch, or whose size is a number.
    """
    taken = {parameter.name for parameter in parameters}
    taken.update(leaf for parameter in parameters for leaf in parameter.arrangement.symbols)
    spelled: list[KernelParameter] = []
    beside: list[KernelParameter] = []
    for parameter in parameters:
        if parameter.source.jagged_dim is None:
            spelled.append(parameter)
            continue
        _check(name, parameter)
        names = _fresh(parameter.name, taken)
        spelled.append(_of_values(parameter, names))
        beside += _beside(parameter, names)
    return (*spelled, *beside)


def _check(name: str, parameter: KernelParameter) -> None:
    dim, sizes = parameter.source.jagged_dim, parameter.source.sizes
    what = f"kernel {name!r}: parameter {parameter.name!r} has jagged_dim={dim}"
    if dim == 0:
        raise ArrangementError(f"{what}, and dimension 0 is the batch; give the dimension whose size differs, from 1")
    size = sizes[dim or 0]
    if not isinstance(size, Symbol) or size.name is None:
        raise ArrangementError(f"{what}, of size {size}; leave that size to the call: None in `shape`")


def _fresh(parameter: str, taken: set[str]) -> Jagged:
    """Name the parameters beside a jagged one."""
    names = []
    for what in ("offsets", "lengths", "entries", "sharing"):
        name = f"{parameter}_{what}"
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return Jagged(0, (), *names)


def _of_values(parameter: KernelParameter, names: Jagged) -> KernelParameter:
    """Return a jagged parameter whose source is the memory of the values."""
    source, dim = parameter.source, parameter.source.jagged_dim
    assert dim is not None
    total = Symbol(f"{source.sizes[dim]}_in_all")
    memory = tuple(1 if d == 0 else total if d == dim else size for d, size in enumerate(source.sizes))
    arrangement = replace(parameter.arrangement, source=replace(source, sizes=memory))
    return replace(parameter, arrangement=arrangement, jagged=replace(names, dim=dim, sizes=source.sizes))


def _beside(parameter: KernelParameter, names: Jagged) -> Iterator[KernelParameter]:
    """Yield the parameters that say where the entries of a jagged one are."""
    sizes, dim = parameter.source.sizes, parameter.source.jagged_dim
    assert dim is not None

    def hidden(name: str, source: SourceTensor) -> KernelParameter:
        # One for all programs: it has no part in the grid.
        arrangement = Arrangement.of(source)
        arrangement = metaops.index(arrangement, 0, (0,) * source.ndim) if source.ndim else arrangement
        return KernelParameter(name, arrangement, parameter.touched, False, part_of=parameter.name)

    for name in (names.offsets, names.lengths):
        yield hidden(name, SourceTensor(name, (Symbol(f"{name}_size_0"),), strides(name, 1)))
    entries: Shape = (sizes[0], sizes[dim])
    yield hidden(names.entries, SourceTensor(names.entries, entries, strides(names.entries, 2)))
    yield hidden(names.sharing, SourceTensor(names.sharing, constexpr=True))
