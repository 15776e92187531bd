"""Loads and stores of the PyTorch backend against PyTorch's own indexing, for random arrangements."""

import math

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from benchmarks.trust.chains import apply, random_chain
from ninetoothed import Tensor, dtypes, ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.arrangement.lowering import lower
from ninetoothed.backends.torch import forms, plan
from ninetoothed.expr import Facts, const, var
from tests.ninetoothed.backends.torch_programs import access, execute, parameter, rows, tile, value

F32 = dtypes.float32


def chain(seed):
    """A tensor arranged at random, and the source index of each of its elements as PyTorch finds it."""
    shape, calls, dense = random_chain(seed)
    tensor = Tensor(shape=shape, name="x")
    for level, operation, arguments in calls:
        tensor = apply(tensor, level, operation, arguments)
    return shape, tensor, dense


def arranged_access(tensor, dense, other):
    """The access of all inner levels of an arranged tensor as one tile, its lanes rounded up."""
    grid, inner = dense.shape(0), dense.data.shape[len(dense.shape(0)) :]
    lanes = tuple(1 << max(size - 1, 0).bit_length() for size in inner)
    names = [[f"program_{d}" for d in range(len(grid))]]
    facts, axis = Facts(), 0
    for d, size in enumerate(grid):
        facts = facts.bind(f"program_{d}", 0, size - 1)
    for level in range(1, len(dense.ranks)):
        names.append([f"lane_{axis + d}" for d in range(dense.ranks[level])])
        axis += dense.ranks[level]
    for d, count in enumerate(lanes):
        facts = facts.bind(f"lane_{d}", 0, count - 1)
    location = lower(tensor.arrangement, [[var(name) for name in level] for level in names], facts)
    ran = tuple(ir.Lane(f"lane_{d}", d, count) for d, count in enumerate(lanes))
    return ir.Access("x", tile(F32, *lanes), location.indices, location.guards, other, ran), grid, inner, lanes


def strided(shape, seed):
    """A tensor of random values whose strides are not the usual ones."""
    base = torch.randn(*(size + 1 for size in reversed(shape)))
    tensor = base.permute(*reversed(range(len(shape))))[tuple(slice(1, None) for _ in shape)] if shape else base
    return tensor if seed % 2 else tensor.contiguous()


def usable(seed):
    shape, tensor, dense = chain(seed)
    grid = dense.shape(0)
    lanes = math.prod(1 << max(size - 1, 0).bit_length() for size in dense.data.shape[len(grid) :])
    return 0 not in grid and lanes * math.prod(grid) < 2**18 and (shape, tensor, dense)


SEEDS = [seed for seed in range(150) if usable(seed)]


@pytest.mark.parametrize("seed", SEEDS)
def test_loads_of_arranged_tensors(seed):
    torch.manual_seed(seed)
    shape, tensor, dense = usable(seed)
    x = strided(shape, seed)
    given, grid, inner, lanes = arranged_access(tensor, dense, other=-7)
    output = torch.full((*grid, *lanes), math.nan)
    loaded = value(F32, *lanes)
    target = access("out", F32, lanes, [var(f"program_{d}") for d in range(len(grid))] + lane_names(lanes))
    execute([ir.Load(loaded, given), ir.Store(target, loaded)], {"x": x, "out": output}, grid)
    flat = torch.cat((x.flatten(), torch.tensor([-7.0])))
    expected = flat[dense.data]
    found = output[tuple(slice(size) for size in (*grid, *inner))]
    assert torch.equal(found, expected)
    padded = output.clone()
    padded[tuple(slice(size) for size in (*grid, *inner))] = -7
    assert (padded == -7).all(), "lanes beyond a tile read `other`"


def lane_names(lanes):
    return [var(f"lane_{d}") for d in range(len(lanes))]


@pytest.mark.parametrize("seed", SEEDS)
def test_stores_to_arranged_tensors(seed):
    shape, tensor, dense = usable(seed)
    x = strided(shape, seed).fill_(-1)
    given, grid, inner, lanes = arranged_access(tensor, dense, other=0)
    values = torch.full((*grid, *lanes), math.nan)
    # Each element gets its own index, so that it does not matter which of several writers wins.
    values[tuple(slice(size) for size in (*grid, *inner))] = dense.data.float()
    source = access("values", F32, lanes, [var(f"program_{d}") for d in range(len(grid))] + lane_names(lanes))
    loaded = value(F32, *lanes)
    execute([ir.Load(loaded, source), ir.Store(given, loaded)], {"x": x, "values": values}, grid)
    expected = torch.full((x.numel(),), -1.0)
    covered = dense.data[dense.data >= 0]
    expected[covered] = covered.float()
    assert torch.equal(x.flatten(), expected)


def test_that_the_chains_are_worth_something():
    """Of the accesses above, many need boxes, gathers and negative strides."""
    boxes = irregular = backwards = 0
    for seed in SEEDS:
        shape, tensor, dense = usable(seed)
        given, grid, _, _ = arranged_access(tensor, dense, other=0)
        names = (*(f"program_{d}" for d in range(len(grid))), *(lane.name for lane in given.lanes))
        numbers = torch.empty(shape).stride()
        offset = sum((i * s for i, s in zip(given.indices, numbers)), start=const(0))
        form = forms.form_of(offset, names, {})
        boxes += bool(given.guards)
        irregular += form.rest is None
        backwards += any(c < 0 for c in form.coefficients)
    assert boxes > 50 and irregular > 10 and backwards > 5


def run_copy(x, y, body_access, grid, lanes):
    loaded = value(F32, *lanes)
    target = access("y", F32, lanes, [var("program_0"), *lane_names(lanes)])
    execute([ir.Load(loaded, body_access), ir.Store(target, loaded)], {"x": x, "y": y}, grid)


def test_symbolic_sizes_and_strides_are_bound_at_each_call():
    for size in (5, 8, 33):
        x, y = torch.randn(2 * size)[::2], torch.full((5, 8), math.nan)
        loaded, p, lane = value(F32, 8), var("program_0"), var("lane_0")
        source = ir.Parameter("x", "tensor", F32, (var("n"),), (var("s"),))
        index = p * 8 + lane
        program = ir.Program(
            "kernel",
            (source, parameter("y", y)),
            ((var("n") + 7) // 8,),
            ("program_0",),
            (
                ir.Load(loaded, access("x", F32, (8,), [index], [(index, var("n"))], other=3)),
                ir.Store(access("y", F32, (8,), [p, lane]), loaded),
            ),
            Facts(),
        )
        from ninetoothed.backends.torch import run

        run(program, {"x": x, "y": y}, {"n": size, "s": 2})
        whole = -(-size // 8)
        expected = torch.full((whole * 8,), 3.0)
        expected[:size] = x
        assert torch.equal(y[:whole].flatten(), expected) and y[whole:].isnan().all()


def test_an_expanded_tensor_is_read_without_a_copy_and_written_nowhere_twice():
    x, y = torch.randn(1, 8).expand(4, 8), torch.zeros(4, 8)
    run_copy(x, y, rows("x", x), (4,), (8,))
    assert torch.equal(y, x)


def test_the_last_of_several_programs_that_write_to_one_place_wins():
    x, y = torch.randn(4, 8), torch.zeros(8)
    loaded = value(F32, 8)
    execute(
        [ir.Load(loaded, rows("x", x)), ir.Store(access("y", F32, (8,), [var("lane_0")]), loaded)],
        {"x": x, "y": y},
        (4,),
    )
    assert torch.equal(y, x[3])


def test_what_was_loaded_does_not_change_when_memory_does():
    """y = x; x = x + x; out = y, where y was read before and x is written in between."""
    x = torch.randn(4, 8)
    before, out = x.clone(), torch.zeros(4, 8)
    loaded, doubled = value(F32, 8), value(F32, 8)
    execute(
        [
            ir.Load(loaded, rows("x", x)),
            ir.Apply((doubled,), "add", (loaded, loaded)),
            ir.Store(rows("x", x), doubled),
            ir.Store(rows("out", out), loaded),
        ],
        {"x": x, "out": out},
        (4,),
    )
    assert torch.equal(x, 2 * before) and torch.equal(out, before)


def test_two_parameters_of_one_memory():
    memory = torch.randn(4, 8)
    before, out = memory.clone(), torch.zeros(4, 8)
    loaded, zero = value(F32, 8), value(F32)
    execute(
        [
            ir.Load(loaded, rows("x", memory)),
            ir.Constant(zero, 0.0),
            ir.Apply((full := value(F32, 8),), "full", (zero,)),
            ir.Store(rows("y", memory), full),
            ir.Store(rows("out", out), loaded),
        ],
        {"x": memory, "y": memory[:, :], "out": out},
        (4,),
    )
    assert (memory == 0).all() and torch.equal(out, before)


def test_bound_indices_gather_and_scatter():
    """out[p, i] = x[index[p, i]] where that is in bounds, then y[index[p, i]] = out[p, i]."""
    x, y = torch.randn(40), torch.zeros(40)
    index = torch.stack([torch.randperm(64)[:8] for _ in range(5)]).int() - 10
    out = torch.zeros(5, 8)
    loaded, picked = value(dtypes.int32, 8), value(F32, 8)
    bound = (("i", loaded),)
    guards = [(var("i"), const(40))]
    execute(
        [
            ir.Load(loaded, rows("index", index)),
            ir.Load(picked, access("x", F32, (8,), [var("i")], guards, other=9, bindings=bound)),
            ir.Store(rows("out", out), picked),
            ir.Store(access("y", F32, (8,), [var("i")], guards, bindings=bound), picked),
        ],
        {"x": x, "y": y, "index": index, "out": out},
        (5,),
    )
    inside = (index >= 0) & (index < 40)
    expected = torch.where(inside, x[index.clamp(0, 39).long()], 9.0)
    assert torch.equal(out, expected)
    written = torch.zeros(40)
    written[index[inside].long()] = x[index[inside].long()]
    assert torch.equal(y, written)


def test_a_page_chosen_by_each_program_is_read_as_a_block():
    """out[p] = pages[table[p]]: the blocks are strided, their places are not."""
    pages, table = torch.randn(10, 4, 8), torch.tensor([7, 7, 0, 3], dtype=torch.int32)
    out = torch.zeros(4, 4, 8)
    page, loaded = value(dtypes.int32), value(F32, 4, 8)
    indices = [var("page"), var("lane_0"), var("lane_1")]
    execute(
        [
            ir.Load(page, access("table", dtypes.int32, (), [var("program_0")])),
            ir.Load(loaded, access("pages", F32, (4, 8), indices, bindings=(("page", page),))),
            ir.Store(rows("out", out), loaded),
        ],
        {"pages": pages, "table": table, "out": out},
        (4,),
    )
    assert torch.equal(out, pages[table.long()])


def test_an_element_chosen_within_a_tile():
    """out[p] = x[p * 3 + choice[p]], row by row: the program enters twice."""
    x, choice = torch.randn(12, 8), torch.tensor([2, 0, 0, 1], dtype=torch.int32)
    out = torch.zeros(4, 8)
    chosen, loaded = value(dtypes.int32), value(F32, 8)
    indices = [var("program_0") * 3 + var("choice"), var("lane_0")]
    execute(
        [
            ir.Load(chosen, access("choice", dtypes.int32, (), [var("program_0")])),
            ir.Load(loaded, access("x", F32, (8,), indices, bindings=(("choice", chosen),))),
            ir.Store(rows("out", out), loaded),
        ],
        {"x": x, "choice": choice, "out": out},
        (4,),
    )
    assert torch.equal(out, x[torch.arange(0, 12, 3) + choice])


def test_grouped_heads_are_read_by_index():
    """out[h] = x[h // 3], cut off at the last rows."""
    x, out = torch.randn(2, 5, 8), torch.full((6, 8, 8), math.nan)
    loaded = value(F32, 8, 8)
    guards = [(var("lane_0"), const(5))]
    indices = [var("program_0") // 3, var("lane_0"), var("lane_1")]
    execute(
        [
            ir.Load(loaded, access("x", F32, (8, 8), indices, guards, other=1)),
            ir.Store(rows("out", out), loaded),
        ],
        {"x": x, "out": out},
        (6,),
    )
    assert torch.equal(out[:, :5], x.repeat_interleave(3, 0)) and (out[:, 5:] == 1).all()


@pytest.mark.parametrize("dtype", ("uint16", "uint32", "uint64", "bool", "bfloat16", "float8_e5m2"))
def test_types_that_are_only_moved(dtype):
    x = torch.randint(0, 2, (3, 16), dtype=torch.int8).to(getattr(torch, dtype))
    y = torch.zeros_like(x)
    type = dtypes.from_torch(x.dtype)
    loaded = value(type, 16)
    execute([ir.Load(loaded, rows("x", x)), ir.Store(rows("y", y), loaded)], {"x": x, "y": y}, (3,))
    assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))


@pytest.mark.parametrize("dtype", ("int32", "uint8"))
def test_integers_out_of_bounds_are_the_least_where_floats_would_be_infinite(dtype):
    x, out = torch.arange(5).to(getattr(torch, dtype)), torch.zeros(1, 8, dtype=getattr(torch, dtype))
    type = dtypes.BY_NAME[dtype]
    loaded, lane = value(type, 8), var("lane_0")
    given = access("x", type, (8,), [lane], [(lane, const(5))], other=-math.inf)
    execute([ir.Load(loaded, given), ir.Store(rows("out", out), loaded)], {"x": x, "out": out}, (1,))
    assert out[0, :5].tolist() == [0, 1, 2, 3, 4]
    assert (out[0, 5:] == torch.iinfo(x.dtype).min).all()


def test_no_programs_and_no_elements():
    x, y = torch.randn(0, 8), torch.full((3, 8), math.nan)
    run_copy(x, y, rows("x", x), (0,), (8,))
    assert y.isnan().all()
    guarded = access("x", F32, (8,), [var("program_0"), var("lane_0")], [(var("program_0"), const(0))], other=2)
    run_copy(x, y, guarded, (3,), (8,))
    assert (y == 2).all()


def test_slices_cover_the_grid_once(monkeypatch):
    monkeypatch.setattr(plan, "SLICE", 64)
    for grid in ((7,), (3, 5), (2, 3, 4), (1, 9, 1)):
        out = torch.zeros(*grid, 16)
        one, before, after = value(F32), value(F32, 16), value(F32, 16)
        axes = [var(f"program_{d}") for d in range(len(grid))]
        place = access("out", F32, (16,), [*axes, var("lane_0")])
        execute(
            [
                ir.Constant(one, 1.0),
                ir.Load(before, place),
                ir.Apply((wide := value(F32, 16),), "full", (one,)),
                ir.Apply((after,), "add", (before, wide)),
                ir.Store(place, after),
            ],
            {"out": out},
            grid,
        )
        assert (out == 1).all()


def test_a_bound_that_no_box_describes_is_masked():
    """A guard on x // 3 % 2: every third of lanes is out."""
    x, out = torch.randn(4, 16), torch.zeros(4, 16)
    loaded, lane = value(F32, 16), var("lane_0")
    given = access("x", F32, (16,), [var("program_0"), lane], other=5)
    given = ir.Access("x", given.type, given.indices, (Guard(lane // 3 % 2, const(1)),), 5, given.lanes)
    execute([ir.Load(loaded, given), ir.Store(rows("out", out), loaded)], {"x": x, "out": out}, (4,))
    inside = torch.arange(16) // 3 % 2 < 1
    assert torch.equal(out, torch.where(inside, x, 5.0))


@pytest.mark.parametrize("shape", ((2, 3), (0, 3), (2, 0), (0, 0)))
def test_flattened_and_empty(shape):
    def total(x, y):
        found = 0.0
        for i in range(x.shape[0]):
            found += ntl.sum(x[i])
        y = found

    kernel = ninetoothed.make(
        lambda x, y: (x.flatten().tile((4,)).tile((-1,)), y.tile((1,))), total, (Tensor(2), Tensor(1))
    )
    y = torch.full((1,), float("nan"))
    kernel(torch.ones(shape), y)
    assert y.item() == shape[0] * shape[1]


@pytest.mark.parametrize("dtype", (torch.uint8, torch.uint16, torch.uint32, torch.uint64), ids=str)
def test_unsigned_numbers_out_of_bounds(dtype):
    """Most unsigned types lie in memory as signed ones, of which `other` may be none."""

    def padded(x, y):
        y = x

    greatest = torch.iinfo(dtype).max - 2
    kernel = ninetoothed.make(
        lambda x, y: (x.pad(((1, 2),)).tile((8,)), y.tile((8,))), padded, (Tensor(1, other=greatest), Tensor(1))
    )
    y = torch.zeros(8, dtype=dtype)
    kernel(torch.tensor([1, 2, 3, 4, 5], dtype=dtype), y)
    assert y.tolist() == [greatest, 1, 2, 3, 4, 5, greatest, greatest]

    def ordered(x, y):
        y = ntl.sort(x)

    kernel = ninetoothed.make(lambda x, y: (x.tile((8,)), y.tile((8,))), ordered, (Tensor(1), Tensor(1)))
    kernel(torch.tensor([5, 1, 4], dtype=dtype), y := torch.zeros(3, dtype=dtype))
    assert y.tolist() == [1, 4, 5]


@pytest.mark.parametrize("dtype", (torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn), ids=str)
def test_lanes_are_moved_in_types_that_pytorch_hardly_knows(dtype):
    def moved(x, y):
        y = ntl.sort(ntl.gather(ntl.flip(x), 7 - x.offsets(0), 0))

    kernel = ninetoothed.make(lambda x, y: (x.tile((8,)), y.tile((8,))), moved, (Tensor(1), Tensor(1)))
    y = torch.zeros(8)
    kernel(torch.tensor([6, 2, 3, 1, 5, 4, 8, 7]).to(dtype), y)
    assert y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
