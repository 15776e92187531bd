"""Random applications over random arrangements, on the CPU backend, against the oracle of `semantics`."""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.errors import NineToothedError

from .chains import Dense, apply, random_chain
from .parts import Case
from .semantics import LANGUAGE, Open, Tile, assigned, finish, loaded
from .writer import Application, Writer

CALLS = 6
LANES = 600
# A size is a symbol, a number of the arrangement, or known when the kernel is compiled.
SIZES = ("open", "fixed", "constexpr")
# Calls that are errors by the rules: none is counted.
REFUSED = ("end at different places", "is out of range for dimension")


@dataclass(frozen=True)
class Program:
    """A kernel of `x, y, n, out`: an arrangement of `x` by these calls; `y` has a tile of the same shape a program.

    sizes: of SIZES, one a dimension of `x`, and one for all of `y` and `out`. levels: how many dimensions each level of
    the arrangement of `x` has.
    """

    sizes: tuple[str, ...]
    size_of_y: str
    calls: tuple
    levels: tuple[int, ...]
    application: Application
    is_floating: bool
    other: float | None


def write(seed: int) -> tuple[Program, tuple[int, ...]]:
    """The program of a seed, and a shape that it fits."""
    rng = random.Random(seed)
    while True:
        if rng.random() < 0.5:
            shape, calls, dense = random_chain(rng.randrange(10**9), rng.randint(1, 4), LANES)
        else:
            shape, calls, dense = blocks(rng)
        grid = dense.shape(0)
        steps = dense.shape(1) if len(dense.ranks) == 3 else ()
        if (
            len(dense.ranks) in (2, 3)
            and all(dense.ranks[1:])  # a tile of tiles is indexed
            and dense.data.numel() <= LANES
            and torch.Size(grid).numel() <= 16
        ):
            break
    is_floating = rng.random() < 0.75
    application = Writer(rng, dense.ranks[-1], steps, is_floating).write()
    other = rng.choice((None, None, None, 2.0)) if is_floating else None
    sizes = tuple(rng.choice(SIZES) for _ in shape)
    size_of_y = rng.choice(SIZES if {*sizes} == {"fixed"} else ("open", "constexpr"))
    return Program(sizes, size_of_y, tuple(calls), tuple(dense.ranks), application, is_floating, other), shape


def blocks(rng: random.Random):
    """Plain tiles or windows, or for each program a sequence of them: next to each other, or parts of its tile."""
    shape = tuple(length(rng) for _ in range(rng.randint(1, 2)))
    calls = [(0, "tile", cut(rng, shape, (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, -1)))]
    kind = rng.random()
    if kind < 0.25:
        calls.append((1, "tile", cut(rng, arranged(shape, calls).shape(1), (1, 2, 3, 5, 6, -1))))
    elif kind < 0.5:
        along = rng.randrange(len(shape))
        tiles = tuple(-1 if d == along else 1 for d in range(len(shape)))
        calls.append((0, "tile", (tiles, (-1,) * len(shape), (1,) * len(shape), False)))
        if len(shape) > 1:
            calls.append((1, "squeeze", ((1 - along,),)))
    return shape, calls, arranged(shape, calls)


def length(rng: random.Random) -> int:
    """A length of a dimension, at times 0."""
    return 0 if rng.random() < 0.06 else rng.randint(1, 20)


def cut(rng: random.Random, shape, tiles):
    """The arguments of a `tile`: as often as not tiles of all the dimension, which then end where it does."""
    tiles = tuple(size if size and rng.random() < 0.4 else rng.choice(tiles) for size in shape)
    is_window = rng.random() < 0.25
    strides, dilation = ((-1, 1, 2, 3), (1, 1, 2)) if is_window else ((-1,), (1,))
    return tiles, tuple(rng.choice(strides) for _ in shape), tuple(rng.choice(dilation) for _ in shape), False


def arranged(shape, calls) -> Dense:
    dense = Dense.of(shape, past=-2)
    for level, operation, arguments in calls:
        dense = getattr(dense, operation)(level, *arguments)
    return dense


def function(text: str, name: str, seed: int):
    """A function of this text, whose lines the compiler finds."""
    file = f"<random application {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"ntl": ntl}
    exec(compile(text, file, "exec"), namespace)
    return namespace[name]


def tensor(shape, sizes, **options) -> Tensor:
    """A tensor of these `SIZES`."""
    numbers = tuple(number if size == "fixed" else None for number, size in zip(shape, sizes, strict=True))
    return Tensor(shape=numbers, shape_options=[{"constexpr": size == "constexpr"} for size in sizes], **options)


def make(program: Program, seed: int, shape):
    """The kernel of a program, on an `x` of a shape where its sizes are numbers."""
    grid, rank = program.levels[0], program.levels[-1]

    def cells(tensor):
        tiled = tensor.tile((1,) * grid + (-1,) * rank)
        tiled = tiled.squeeze(tuple(range(grid, grid + rank)))
        tiled.dtype = tiled.dtype.squeeze(tuple(range(grid)))
        return tiled

    def arrangement(x, y, n, out):
        for call in program.calls:
            x = apply(x, *call)
        return x, cells(y), n, cells(out)

    dense = arranged(shape, program.calls)
    cell = tuple(dense.data.shape[dense.data.ndim - rank :])
    kept = tuple(size if d in program.application.kept else 1 for d, size in enumerate(cell))
    y, out = (tensor((*dense.shape(0), *own), (program.size_of_y,) * (grid + rank)) for own in (cell, kept))
    tensors = (tensor(shape, program.sizes, other=program.other), y, Tensor(0), out)
    return ninetoothed.make(arrangement, function(program.application.text, "application", seed), tensors)


def data(rng: random.Random, shape, dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers, quarters, normal numbers, or those with NaN and infinities among them; any strides."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    size = torch.Size(shape)
    if not dtype.is_floating_point:
        return strided(rng, torch.randint(-9, 10, size, generator=generator).to(dtype))
    kind = rng.random()
    if kind < 0.5:
        values = torch.randint(-12, 13, size, generator=generator).double() / rng.choice((1, 4))
    else:
        values = torch.randn(size, generator=generator, dtype=torch.float64)
    if kind > 0.85 and values.numel():
        for value in (float("nan"), float("inf"), float("-inf"))[: rng.randint(1, 3)]:
            values.view(-1)[rng.randrange(values.numel())] = value
    return strided(rng, values.to(dtype))


def strided(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers: contiguous, transposed, with steps and an offset."""
    kind = rng.random()
    if kind < 0.4 or not tensor.ndim:
        return tensor
    if kind < 0.7:
        order = rng.sample(range(tensor.ndim), tensor.ndim)
        inverse = [order.index(d) for d in range(tensor.ndim)]
        return tensor.permute(order).contiguous().permute(inverse)
    larger = torch.full([2 * size + 1 for size in tensor.shape], 77, dtype=tensor.dtype)
    view = larger[tuple(slice(1, None, 2) for _ in tensor.shape)]
    return view.copy_(tensor)


FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class Call:
    """Arguments for a program, and what they are."""

    description: str
    dense: Dense
    x: torch.Tensor
    y: torch.Tensor
    n: int
    out: torch.Tensor


def call(program: Program, shape, rng: random.Random, device: str = "cpu", types=(FLOATS, INTEGERS)) -> Call:
    types = types[0] if program.is_floating else types[1]
    is_tiled = {operation for _, operation, _ in program.calls} <= {"tile", "squeeze"}
    if is_tiled and rng.random() < 0.6:
        shape = resized(program, shape, rng)
    dense = arranged(shape, program.calls)
    grid, rank = dense.shape(0), program.levels[-1]
    cell = tuple(dense.data.shape[dense.data.ndim - rank :])
    kept = tuple(size if d in program.application.kept else 1 for d, size in enumerate(cell))
    of_x, of_y = rng.choice(types), rng.choice(types)
    of_out = rng.choice((of_x, torch.float64 if program.is_floating else torch.int64))
    x, y, n = data(rng, shape, of_x), data(rng, (*grid, *cell), of_y), rng.randint(-1, 3)
    start = float("nan") if program.is_floating else 99
    out = strided(rng, torch.full((*grid, *kept), start, dtype=of_out))
    description = f"x {of_x} {shape} {x.stride()}, y {of_y} {y.stride()}, n {n}, out {of_out}"
    return Call(description, dense, x.to(device), y.to(device), n, out.to(device))


def resized(program: Program, shape, rng: random.Random):
    """Another shape for an arrangement of tiles, where it leaves as many levels and not too much."""
    other = tuple(n if size == "fixed" else length(rng) for n, size in zip(shape, program.sizes, strict=True))
    try:
        dense = arranged(other, program.calls)
    except (RuntimeError, IndexError):
        return shape
    small = torch.Size(dense.shape(0)).numel() <= 16 and dense.data.numel() <= LANES
    squeezes = any(operation == "squeeze" and level == 0 for level, operation, _ in program.calls)
    return other if small and not squeezes and tuple(dense.ranks) == program.levels else shape


class Sequence:
    """Tiles of one program that are read one by one."""

    def __init__(self, shape, tiles):
        self.shape, self.tiles = shape, tiles

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if any(not -size <= i < size for i, size in zip(index, self.shape, strict=True)):
            raise Open("a tile that is not there")
        return self.tiles[tuple(i % size for i, size in zip(index, self.shape, strict=True))]


def expected(program: Program, call: Call, oracle) -> Iterator[tuple[tuple[int, ...], Tile | None]]:
    """Each program's place in the grid, and the tile that it must store; None where that is open."""
    indices, grid = call.dense.data.numpy(), call.dense.shape(0)
    type_of = {tensor: str(getattr(call, tensor).dtype).removeprefix("torch.") for tensor in ("x", "y", "out")}
    as_numbers = torch.float64 if program.is_floating else call.x.dtype
    flat = call.x.to(as_numbers).contiguous().view(-1).cpu().numpy()
    flat = flat if flat.size else np.zeros(1, flat.dtype)  # of padding alone, which is not read
    y = (call.y.double() if program.is_floating else call.y).cpu().numpy()
    outside = program.other or 0

    def read(places):
        values = np.where(places >= 0, flat[np.maximum(places, 0)], np.asarray(outside, flat.dtype))
        over = (places == -2) if program.other is None else np.zeros(places.shape, bool)
        return loaded(values, type_of["x"], over)

    for place in itertools.product(*map(range, grid)):
        mine = indices[place]
        try:
            if len(program.levels) == 3:
                steps = mine.shape[: program.levels[1]]
                tiles = {i: read(mine[i]) for i in itertools.product(*map(range, steps))}
                x = Sequence(steps, tiles)
            else:
                x = read(mine)
            tile = oracle(LANGUAGE, x, loaded(y[place], type_of["y"], np.zeros(y[place].shape, bool)), call.n)
            tile = assigned(tile, False)
            if tile.type != type_of["out"]:
                tile = tile.to(type_of["out"])
            elif tile.type in ("float16", "bfloat16", "float32", "float64"):
                tile = finish(tile, tile.values, tile.error, tile.type)
            yield place, tile
        except Open:
            yield place, None


def difference(program: Program, call: Call, oracle) -> str:
    """Tell what differs between the kernel's output and the oracle; "" where nothing does."""
    out = (call.out.double() if program.is_floating else call.out).cpu().numpy()
    with np.errstate(all="ignore"):
        for place, tile in expected(program, call, oracle):
            if tile is None:
                continue
            found = out[place]
            # What is stored from overhang lanes is nobody's concern.
            error = np.where(tile.over, np.inf, tile.error)
            values, error = (np.broadcast_to(array, found.shape) for array in (tile.values, error))
            same = (found == values) | (np.isnan(found) & np.isnan(values)) if program.is_floating else found == values
            wrong = ~(same | (np.abs(found - values.astype("float64")) <= error) | np.isinf(error))
            if wrong.any():
                at = tuple(np.argwhere(wrong)[0])
                return (
                    f"program {place}, lane {tuple(map(int, at))}: {found[at]}, not {values[at]} within {error[at]}; "
                    f"{int(wrong.sum())} of {wrong.size}"
                )
    return ""


def cases(seed: int, run=None, types=(FLOATS, INTEGERS), device="cpu") -> Iterator[Case]:
    """Check some calls of one program; `run(kernel, arguments)` calls it in another way."""
    program, shape = write(seed)
    text = program.application.text
    oracle = function(program.application.oracle, "oracle", -1 - seed)
    kernel, rng = make(program, seed, shape), random.Random(f"calls {seed}")
    for _ in range(CALLS):
        given = call(program, shape, rng, device, types)
        arguments = (given.x, given.y, given.n, given.out)
        sizes = f"{program.sizes}, y {program.size_of_y}"
        description = f"{program.calls}, {sizes}, other={program.other}\n{text}{given.description}"
        try:
            run(kernel, arguments) if run else kernel(*arguments)
        except NineToothedError as error:
            if not any(reason in str(error) for reason in REFUSED):
                yield Case(description, f"{type(error).__name__}: {error}")
            continue
        yield Case(description, difference(program, given, oracle))
