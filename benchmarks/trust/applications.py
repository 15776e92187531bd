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
# Programs that are errors by the rules: none is counted.
REFUSED = ("end at different places",)


@dataclass(frozen=True)
class Program:
    """A kernel of `x, y, n, out`: an arrangement of `x` by these calls; `y` has a tile of the same shape a program.

    rank: of the tensor `x`. levels: how many dimensions each level of its arrangement has.
    """

    rank: int
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
            shape, calls, dense = random_chain(rng.randrange(10**9) * 5 + 1, rng.randint(1, 4), LANES)
        else:
            shape, calls, dense = blocks(rng)
        grid = dense.shape(0)
        steps = dense.ranks[1] if len(dense.ranks) == 3 else 0
        if (
            len(dense.ranks) in (2, 3)
            and all(dense.ranks[1:])  # a tile of tiles is indexed
            and 0 < dense.data.numel() <= LANES
            and torch.Size(grid).numel() <= 16
        ):
            break
    is_floating = rng.random() < 0.75
    application = Writer(rng, dense.ranks[-1], steps, is_floating).write()
    other = rng.choice((None, None, None, 2.0)) if is_floating else None
    return Program(len(shape), tuple(calls), tuple(dense.ranks), application, is_floating, other), shape


def blocks(rng: random.Random):
    """Plain tiles, or for each program a sequence of them."""
    shape = tuple(rng.randint(1, 20) for _ in range(rng.randint(1, 2)))
    blocks = tuple(rng.choice((1, 2, 3, 4, 5, 7, 8, 16, -1)) for _ in shape)
    calls = [(0, "tile", (blocks, (-1,) * len(shape), (1,) * len(shape), False))]
    if rng.random() < 0.3:
        along = rng.randrange(len(shape))
        tiles = tuple(-1 if d == along else 1 for d in range(len(shape)))
        calls.append((0, "tile", (tiles, (-1,) * len(shape), (1,) * len(shape), False)))
        if len(shape) > 1:
            calls.append((1, "squeeze", ((1 - along,),)))
    return shape, calls, arranged(shape, calls)


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


def make(program: Program, seed: int):
    """The kernel of a program."""
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

    tensors = (Tensor(program.rank, other=program.other), Tensor(grid + rank), Tensor(0), Tensor(grid + rank))
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
    if program.calls[0][1] == "tile" and all(operation in ("tile", "squeeze") for _, operation, _ in program.calls):
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
    other = tuple(rng.randint(1, 20) for _ in shape)
    try:
        dense = arranged(other, program.calls)
    except (RuntimeError, IndexError):
        return shape
    small = torch.Size(dense.shape(0)).numel() <= 16 and 0 < dense.data.numel() <= LANES
    squeezes = any(operation == "squeeze" and level == 0 for level, operation, _ in program.calls)
    return other if small and not squeezes and tuple(dense.ranks) == program.levels else shape


class Sequence:
    """Tiles of one program that are read one by one."""

    def __init__(self, shape, tiles):
        self.shape, self.tiles = shape, tiles

    def __getitem__(self, index):
        return self.tiles[index if isinstance(index, tuple) else (index,)]


def expected(program: Program, call: Call, oracle) -> Iterator[tuple[tuple[int, ...], Tile | None]]:
    """Each program's place in the grid, and the tile that it must store; None where that is open."""
    indices, grid = call.dense.data.numpy(), call.dense.shape(0)
    type_of = {tensor: str(getattr(call, tensor).dtype).removeprefix("torch.") for tensor in ("x", "y", "out")}
    as_numbers = torch.float64 if program.is_floating else call.x.dtype
    flat = call.x.to(as_numbers).contiguous().view(-1).cpu().numpy()
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
    kernel, rng = make(program, seed), random.Random(f"calls {seed}")
    for _ in range(CALLS):
        given = call(program, shape, rng, device, types)
        arguments = (given.x, given.y, given.n, given.out)
        description = f"{program.calls}, other={program.other}\n{text}{given.description}"
        try:
            run(kernel, arguments) if run else kernel(*arguments)
        except NineToothedError as error:
            if any(reason in str(error) for reason in REFUSED):
                return
            yield Case(description, f"{type(error).__name__}: {error}")
            continue
        yield Case(description, difference(program, given, oracle))
