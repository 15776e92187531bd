"""Random chains of meta-operations, against real tensor operations; see `chains`."""

import random
from collections.abc import Iterator

import numpy

import ninetoothed
from ninetoothed import Tensor

from .chains import Dense, apply, random_chain, symbolic
from .parts import Case

CHAINS = 20


def cases(seed: int) -> Iterator[Case]:
    """Check some chains, each with numbers, and with symbols for whatever may be one."""
    for number in range(seed * CHAINS, (seed + 1) * CHAINS):
        shape, calls, dense = random_chain(number)
        yield Case(f"{shape} {calls}", with_numbers(shape, calls, dense))
        yield Case(f"{shape} {calls}, symbolic", with_symbols(shape, calls, dense, random.Random(number)))


def with_numbers(shape, calls, dense: Dense) -> str:
    """Compare levels, sizes and elements of the chain on a tensor of this shape; what differs, else ""."""
    x = Tensor(shape=shape, name="x")
    for call in calls:
        x = apply(x, *call)
    levels = x.arrangement.levels
    ranks, sizes = [len(level) for level in levels], tuple(size for level in levels for size in level)
    if ranks != dense.ranks or sizes != tuple(dense.data.shape):
        return f"levels {levels}, not {dense.ranks} of {tuple(dense.data.shape)}"
    return difference(ninetoothed.eval(x), dense)


def with_symbols(shape, calls, dense: Dense, rng: random.Random) -> str:
    """Compare the chain on a tensor of symbolic sizes, tile sizes and paddings; what differs, else ""."""
    values = {}
    x = source = Tensor(len(shape), name="x")
    for level, operation, arguments in calls:
        if operation in ("tile", "pad"):
            arguments = symbolic(rng, arguments, values)
        x = apply(x, level, operation, arguments)
    return difference(ninetoothed.eval(x, {source: {"shape": shape}, **values}), dense)


def difference(found: numpy.ndarray, dense: Dense) -> str:
    expected = dense.data.numpy()
    if found.shape != expected.shape:
        return f"shape {found.shape}, not {expected.shape}"
    differ = numpy.argwhere(found != expected)
    if not len(differ):
        return ""
    at = tuple(map(int, differ[0]))
    return f"{len(differ)} of {expected.size} elements; at {at} {found[at]}, not {expected[at]}"
