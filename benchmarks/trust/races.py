"""Random stores of programs that may meet: what must be refused, against every element that each program touches.

The oracle lists, program by program, the elements that are read and stored, and the numbers that are stored. Programs
race where two store different numbers to one element, or where one reads what another stores; so do the lanes of one
store that store different numbers.
"""

import linecache
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.errors import ExecutionError, RaceError

from .chains import apply, random_chain
from .parts import Case

LANES = 400
PROGRAMS = 16
CALLS = 2


@dataclass
class Events:
    """What programs do with the elements of one tensor, in their order: arrays over programs, then lanes.

    Each is where (-1 is out of bounds), the numbers that are stored, and whether what was read last is added to them;
    a load stores nothing.
    """

    steps: list[tuple[np.ndarray, np.ndarray | None, bool]] = field(default_factory=list)

    def load(self, places: np.ndarray):
        self.steps.append((places, None, False))

    def store(self, places: np.ndarray, values: np.ndarray, adds: bool = False):
        self.steps.append((places, values, adds))

    def race(self) -> str:
        """Tell which element programs race for; "" where none is."""
        last: list[dict[int, float]] = []
        read_by: list[set[int]] = []
        for program in range(len(self.steps[0][0])):
            own: dict[int, float] = {}
            reached: set[int] = set()
            read = np.zeros(1)
            for places, values, adds in self.steps:
                row = places[program].tolist()
                if values is None:
                    reached |= {*row} - {-1}
                    read = np.array([own.get(place, place * 7 + 0.25) if place >= 0 else 0.0 for place in row])
                    continue
                once: dict[int, float] = {}
                numbers = values[program] + (read if adds else 0)
                for place, value in zip(row, np.broadcast_to(numbers, len(row)).tolist(), strict=True):
                    if place >= 0 and once.setdefault(place, value) != value:
                        return f"lanes of program {program} store {once[place]} and {value} to {place}"
                own |= once
            last.append(own)
            read_by.append(reached)
        stored: dict[int, tuple[int, float]] = {}
        for program, own in enumerate(last):
            for place, value in own.items():
                other, first = stored.setdefault(place, (program, value))
                if value != first:
                    return f"programs {other} and {program} store {first} and {value} to {place}"
        for program, reached in enumerate(read_by):
            for place in sorted(reached):
                if any(place in own for i, own in enumerate(last) if i != program):
                    return f"program {program} reads {place}, which another stores"
        return ""


@dataclass(frozen=True)
class Kernel:
    """A kernel of `y`, and of tensors that give each lane, each program, each lane of all programs, and each element of
    `y` a number of its own.

    body: its statements. rank: of `y`. calls: how `y` is arranged. grid, cell: how many dimensions a program's place
    and its tile have.
    """

    body: tuple[str, ...]
    rank: int
    calls: tuple
    grid: int
    cell: int


VALUES = (
    "3.0",
    "own",
    "row",
    "row + 1",
    "column",
    "z",
    "z * 2 + 1",
    "z + column",
    "z - row",
    "program",
    "total",
    "lane",
)


def arrangements(rng: random.Random):
    """Draw `(shape, calls, ranks)`: any chain, or one of the forms in which elements are in common."""
    if rng.random() < 0.5:
        shape, calls, dense = random_chain(rng.randrange(10**9) * 5 + 1, rng.randint(1, 4), LANES)
        return shape, tuple(calls), dense
    shape = tuple(rng.randint(1, 7) for _ in range(rng.randint(1, 2)))
    steps: list = []
    if len(shape) == 2 and rng.random() < 0.6:
        steps.append((0, "flatten", (None, None)))
    rank = 1 if steps else len(shape)
    if rng.random() < 0.4:
        steps.append((0, "pad", (tuple((rng.randint(0, 2), rng.randint(0, 2)) for _ in range(rank)),)))
    for _ in range(rng.choice((1, 1, 2))):
        tiles = tuple(rng.choice((1, 2, 3, 4, -1)) for _ in range(rank))
        strides = tuple(rng.choice((-1, 1, 2, 3)) for _ in range(rank))
        dilation = tuple(rng.choice((1, 1, 2)) for _ in range(rank))
        steps.append((0, "tile", (tiles, strides, dilation, rng.random() < 0.3)))
    dense = arranged(shape, steps)
    level, ones = rng.choice((0, 0, len(dense.ranks) - 1)), rng.random() < 0.3
    if ones and any(size == 1 for size in dense.shape(level)):
        steps.append((level, "expand", (tuple(3 if size == 1 else -1 for size in dense.shape(level)),)))
    return shape, tuple(steps), arranged(shape, steps)


def arranged(shape, calls):
    from .chains import Dense

    dense = Dense.of(shape)
    for level, operation, arguments in calls:
        dense = getattr(dense, operation)(level, *arguments)
    return dense


def loop(rng: random.Random, start, stop, step: int, lines: list[str]) -> list[str]:
    """Write a loop over the numbers i of a range, by `for` or by `while`."""
    if rng.random() < 0.5:
        return [f"for i in range({start}, {stop}, {step}):", *(f"    {line}" for line in lines)]
    return [f"i = {start}", f"while i < {stop}:", *(f"    {line}" for line in [*lines, f"i += {step}"])]


def draw(seed: int):
    """Draw an arrangement of two or three levels that is small enough, and what it makes of its shape."""
    rng = random.Random(seed)
    while True:
        try:
            shape, calls, dense = arrangements(rng)
        except (RuntimeError, IndexError, ValueError):
            continue
        if (
            len(dense.ranks) in (2, 3)
            and all(dense.ranks[1:])
            and dense.ranks[0]
            and 0 < dense.data.numel() <= LANES
            and torch.Size(dense.shape(0)).numel() <= PROGRAMS
        ):
            return rng, shape, calls, dense


def write(seed: int):
    """Write a kernel, and list what its programs do: `(Kernel, shape, dense, Events, values)`."""
    rng, shape, calls, dense = draw(seed)
    grid, cell = dense.shape(0), dense.shape(len(dense.ranks) - 1)
    programs, lanes = torch.Size(grid).numel(), torch.Size(cell).numel()
    places = dense.data.numpy().reshape(programs, -1, lanes)
    steps = tuple(np.ndindex(*dense.shape(1))) if len(dense.ranks) == 3 else ()
    events, body = Events(), []
    number = np.arange(programs)[:, None]
    given = {
        "own": number * lanes + np.arange(lanes) + 0.5,
        "row": number * 2.0 + np.zeros(lanes),
        "column": np.arange(lanes) * 2.0 + np.zeros((programs, 1)),
    }
    given["total"] = given["own"].sum(1, keepdims=True) + np.zeros(lanes)

    def value(text: str, of: np.ndarray, step: int = 0):
        """The numbers of an expression, for these places of `y`."""
        z = np.where(of >= 0, of * 2.0 + 1, 0.0)
        lane = np.arange(lanes) + np.zeros((programs, 1))
        names = {**given, "z": z, "program": number + np.zeros(lanes), "lane": lane, "i": step}
        return np.asarray(eval(text, {}, names), float) + np.zeros((programs, lanes))

    def text(expression: str, z: str):
        into = {
            "program": "ntl.cast(ntl.program_id(0), ntl.float32)",
            "total": "ntl.sum(own)",
            "lane": "column * 0.5",
        }
        return " ".join(into.get(word, z if word == "z" else word) for word in expression.split())

    expression = rng.choice(VALUES)
    kind = rng.random()
    condition, chosen = "", np.ones((programs, 1), bool)
    if rng.random() < 0.15:
        k = rng.randrange(programs)
        form, test = rng.choice(
            (
                ("{} == " + str(k), number == k),
                ("{} < " + str(k), number < k),
                ("{} % 2 == 0", number % 2 == 0),
                ("{} != " + str(k), number != k),
            )
        )
        condition, chosen = f"if {form.format('ntl.program_id(0)')}:", test

    def store(line: str, of: np.ndarray, values: np.ndarray, adds: bool = False):
        body.append(line)
        events.store(np.where(chosen, of, -1), values, adds)

    if steps and kind < 0.5 and len(dense.shape(1)) == 1:
        # A loop over all tiles, or over some of them.
        start = rng.choice((0, 0, 0, 1)) if len(steps) > 1 else 0
        expression = rng.choice((expression, f"{expression} + i * 0.125", "i * 0.125"))
        step = rng.choice((1, 1, 2, 3))
        body += loop(rng, start, "y.shape[0]", step, [f"y[i] = {text(expression, 'z[i]')}"])
        for i in range(start, len(steps), step):
            events.store(np.where(chosen, places[:, i], -1), value(expression, places[:, i], i))
    elif steps:
        for i in rng.sample(range(len(steps)), min(len(steps), rng.choice((1, 1, 2)))):
            at = ", ".join(map(str, steps[i]))
            if rng.random() < 0.4:
                j = rng.randrange(len(steps))
                body.append(f"read = y[{', '.join(map(str, steps[j]))}]")
                events.load(np.where(chosen, places[:, j], -1))
                with_read = f"{text(expression, f'z[{at}]')} + read"
                store(f"y[{at}] = {with_read}", places[:, i], value(expression, places[:, i]), True)
            else:
                store(f"y[{at}] = {text(expression, f'z[{at}]')}", places[:, i], value(expression, places[:, i]))
    elif kind < 0.2 and len(cell) == 1 and lanes > 1:
        # One lane, from others.
        a, b = rng.randrange(lanes), rng.randrange(lanes)
        events.load(np.where(chosen, places[:, 0, b : b + 1], -1))
        more, numbers = rng.choice((("3.0", number * 0 + 3.0), ("row_", number * 2.0)))
        store(f"y[{a}] = y[{b}] + {more}", places[:, 0, a : a + 1], numbers, True)
    elif kind < 0.35:
        events.load(np.where(chosen, places[:, 0], -1))
        store(f"y = y + {text(expression, 'z')}", places[:, 0], value(expression, places[:, 0]), True)
    elif kind < 0.45 and len(shape) == 1:
        # Elements that each program steps through.
        scale, step, size = rng.randint(0, 3), rng.randint(1, 6), shape[0]
        first, scaled = number * scale + rng.randint(0, 1), rng.choice(("3.0", "program", "total", "i * 0.125"))
        offset = int(first[0, 0])
        lines = [f"y.source[i] = {text(scaled, 'z')}"]
        if reads := rng.random() < 0.3:
            lines = ["read = y.source[i]", f"{lines[0]} + read"]
        body += loop(rng, f"ntl.program_id(0) * {scale} + {offset}", size, step, lines)
        for k in range(-(-size // step)):
            of = first + k * step
            of = np.where(chosen & (of < size), of, -1)
            if reads:
                events.load(of)
            # Each program counts by its own numbers.
            numbers = (
                np.where(of >= 0, of * 0.125, 0.0) if scaled == "i * 0.125" else value(scaled, places[:, 0])[:, :1]
            )
            events.store(of, numbers, reads)
    elif kind < 0.65 and len(shape) == 1:
        size, k, m = shape[0], rng.randint(1, 3), rng.randrange(shape[0])
        one = number + np.zeros((1, 1), int)
        forms = (
            (f"ntl.program_id(0) // {k}", one // k, False),
            (f"ntl.program_id(0) * {k}", one * k, False),
            (f"ntl.program_id(0) % {k + 1}", one % (k + 1), False),
            (f"{m}", one * 0 + m, False),
            (f"y.source.shape[0] - 1 - ntl.program_id(0) * {k}", size - 1 - one * k, False),
        )
        index, of, is_tile = rng.choice(forms)
        if len(calls) == 1 and calls[0][1] == "tile" and calls[0][2][0] != (-1,) and rng.random() < 0.6:
            (tile,), (stride,), (dilation,), _ = calls[0][2]
            stride = tile if stride == -1 else stride
            offsets = number * stride + np.arange(lanes) * dilation
            index, of = rng.choice(
                (
                    (f"y.offsets(0) // {k}", offsets // k),
                    (f"y.offsets(0) * {k}", offsets * k),
                    (f"y.source.shape[0] - 1 - y.offsets(0) * {k}", size - 1 - offsets * k),
                    (f"y.offsets(0) + ntl.program_id(0) * {k}", offsets + number * k),
                    (f"y.offsets(0) % {k + 1}", offsets % (k + 1)),
                )
            )
            is_tile = True
        of = np.where((of >= 0) & (of < size), of, -1)
        wanted = expression if "z" not in expression else "own"
        if not is_tile:
            wanted = rng.choice(("3.0", "program", "total"))
        values = value(wanted, places[:, 0])[:, : of.shape[1]]
        if rng.random() < 0.3 and is_tile:
            events.load(np.where(chosen, of, -1))
            store(f"y = y.source[{index}] + own", places[:, 0], given["own"], True)
        else:
            store(f"y.source[{index}] = {text(wanted, 'z')}", of, values)
    else:
        store(f"y = {text(expression, 'z')}", places[:, 0], value(expression, places[:, 0]))
    if condition:
        body = [condition, *(f"    {line}" for line in body)]
    kernel = Kernel(tuple(body), len(shape), calls, len(grid), len(cell))
    return kernel, shape, dense, events


def make(kernel: Kernel, shape, dense, seed: int, rng: random.Random):
    """The kernel and its arguments."""
    parameters = ["y", "own", "row", "row_", "column", "z"]
    lines = [f"def application({', '.join(parameters)}):", *(f"    {line}" for line in kernel.body)]
    text, file = "".join(f"{line}\n" for line in lines), f"<random stores {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"ntl": ntl}
    exec(compile(text, file, "exec"), namespace)
    grid, cell = kernel.grid, kernel.cell
    shapes = [rng.random() < 0.3 for _ in range(1)]

    def cells(tensor, of_cell):
        tiled = tensor.tile((1,) * grid + (-1,) * of_cell).squeeze(tuple(range(grid, grid + of_cell)))
        tiled.dtype = tiled.dtype.squeeze(tuple(range(grid)))
        return tiled

    def arrangement(y, own, row, row_, column, z):
        for call in kernel.calls:
            y, z = apply(y, *call), apply(z, *call)
        column = column.tile((-1,) * cell)
        own, row = cells(own, cell), cells(row, cell)
        row_ = row_.tile((1,) * grid)
        row_.dtype = row_.dtype.squeeze(tuple(range(grid)))
        return (
            y,
            own,
            row,
            row_,
            column.squeeze(tuple(range(cell))).expand(own.shape) if cell == 0 else _whole(column, own, cell, grid),
            z,
        )

    fixed = shape if shapes[0] else None
    tensors = (
        Tensor(kernel.rank, shape=fixed), Tensor(grid + cell), Tensor(grid + cell), Tensor(grid), Tensor(cell),
        Tensor(kernel.rank),
    )  # fmt: skip
    of_grid, of_cell = dense.shape(0), dense.shape(len(dense.ranks) - 1)
    programs, lanes = torch.Size(of_grid).numel(), torch.Size(of_cell).numel()
    numbers = torch.arange(programs).double()[:, None]
    values = (
        torch.zeros(shape),
        (numbers * lanes + torch.arange(lanes) + 0.5).reshape(*of_grid, *of_cell).float(),
        (numbers * 2).reshape(*of_grid, *(1 for _ in of_cell)).float(),
        (numbers[:, 0] * 2).reshape(of_grid).float(),
        (torch.arange(lanes) * 2.0).reshape(of_cell).float(),
        torch.arange(torch.Size(shape).numel()).reshape(shape).float() * 2 + 1,
    )
    return ninetoothed.make(arrangement, namespace["application"], tensors), values


def _whole(column, own, cell, grid):
    """The same tile for each program."""
    column = column.squeeze(tuple(range(1, cell))) if cell > 1 else column
    for _ in range(grid - 1):
        column = column.unsqueeze(0)
    return column.expand(own.shape)


def outcome(kernel, values) -> tuple[str, str]:
    """Call a kernel: "refused", "warned" or "silent", and the message."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kernel(*values)
        except RaceError as error:
            return "refused", str(error)
        except ExecutionError as error:  # Some store overhang to places in bounds, which poison tells.
            if "overhang is stored" not in str(error):
                raise
    told = [str(each.message) for each in caught if each.category.__name__ == "RaceWarning"]
    return ("warned", told[0]) if told else ("silent", "")


def cases(seed: int) -> Iterator[Case]:
    """Check some kernels: each is refused exactly where its programs race."""
    for number in range(seed * CALLS, (seed + 1) * CALLS):
        kernel, shape, dense, events = write(number)
        made, values = make(kernel, shape, dense, number, random.Random(f"tensors {number}"))
        told, message = outcome(made, values)
        race = events.race()
        description = f"{shape} {kernel.calls}\n" + "\n".join(kernel.body)
        wrong = ""
        if race and told == "silent":
            wrong = f"a race that is not seen: {race}"
        elif race and told == "warned":
            wrong = f"a race that is not decided: {race}"
        elif not race and told == "refused":
            wrong = f"no race, and refused: {message}"
        elif not race and told == "warned":
            wrong = f"no race, and a warning: {message}"
        yield Case(description, wrong)
