"""Control flow that differs between programs, against the same computation in a Python loop over programs."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ninetoothed import dtypes, ir
from ninetoothed.expr import const, var
from tests.ninetoothed.backends.torch_programs import access, close, execute, rows, value

F32, I32, I1 = dtypes.float32, dtypes.int32, dtypes.int1


def load_scalars(name, tensor, axis=0):
    loaded = value(dtypes.from_torch(tensor.dtype))
    return loaded, ir.Load(loaded, access(name, loaded.type.dtype, (), [var(f"program_{axis}")]))


def counted_sum(x, stop, bindings=(), lanes=()):
    """`for k in range(stop): total = total + x[k]`, over rows of x."""
    zero, start = value(F32), value(F32, *lanes)
    argument, loaded, total, result = (value(F32, *lanes) for _ in range(4))
    indices = [var("k"), *(var(f"lane_{d}") for d in range(len(lanes)))]
    body = (
        ir.Load(loaded, access("x", F32, lanes, indices)),
        ir.Apply((total,), "add", (argument, loaded)),
    )
    loop = ir.For((ir.Carried(start, argument, total, result),), body, "k", const(0), stop, const(1), bindings)
    return [ir.Constant(zero, 0.0), ir.Apply((start,), "full", (zero,)), loop], result


class Additions(TorchDispatchMode):
    """Counts the additions of floats that PyTorch does."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.add.Tensor and args[0].is_floating_point()
        return func(*args, **kwargs or {})


def test_a_uniform_loop_runs_once_for_all_programs():
    x, out = torch.randn(5, 8), torch.zeros(7, 8)
    operations, result = counted_sum(x, const(5), lanes=(8,))
    with Additions() as additions:
        execute([*operations, ir.Store(rows("out", out), result)], {"x": x, "out": out}, (7,))
    close(out, x.sum(0).expand(7, 8))
    assert additions.count == 5


def test_a_causal_loop_splits_only_the_axis_that_decides():
    """out[h, i] = sum of x[k] over k <= i, for 6 heads at once."""
    x, out = torch.randn(4, 8), torch.zeros(6, 4, 8)
    operations, result = counted_sum(x, var("program_1") + 1, lanes=(8,))
    target = access("out", F32, (8,), [var("program_0"), var("program_1"), var("lane_0")])
    with Additions() as additions:
        execute([*operations, ir.Store(target, result)], {"x": x, "out": out}, (6, 4))
    close(out, x.cumsum(0).expand(6, 4, 8))
    assert additions.count == 1 + 2 + 3 + 4


def test_a_bound_read_from_memory_differs_along_two_axes():
    x, lengths, out = torch.randn(6, 8), torch.randint(0, 7, (3, 5), dtype=torch.int32), torch.zeros(3, 5, 8)
    length = value(I32)
    place = [var("program_0"), var("program_1")]
    operations, result = counted_sum(x, var("n"), (("n", length),), (8,))
    execute(
        [
            ir.Load(length, access("lengths", I32, (), place)),
            *operations,
            ir.Store(access("out", F32, (8,), [*place, var("lane_0")]), result),
        ],
        {"x": x, "lengths": lengths, "out": out},
        (3, 5),
    )
    sums = torch.cat((torch.zeros(1, 8), x.cumsum(0)))
    close(out, sums[lengths.long()])


def collatz(n):
    steps = 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def test_while_and_if_for_each_program_on_its_own():
    """The steps of the Collatz sequence: a `while` with an `if` in it, both different for each program."""
    numbers = torch.tensor([1, 6, 6, 7, 27, 2, 19], dtype=torch.int32)
    out = torch.zeros(7, dtype=torch.int32)
    first, load = load_scalars("numbers", numbers)
    one, two, three, zero = (value(I32) for _ in range(4))
    constants = [ir.Constant(v, n) for v, n in ((one, 1), (two, 2), (three, 3), (zero, 0))]
    n, steps, entry, going, again = value(I32), value(I32), value(I1), value(I1), value(I1)
    remainder, even, half, tripled, odd, following, counted = (value(I32) for _ in range(7))
    even = value(I1)
    body = (
        ir.Apply((remainder,), "mod", (n, two)),
        ir.Apply((even,), "eq", (remainder, zero)),
        ir.If(
            even,
            (ir.Apply((half,), "floordiv", (n, two)),),
            (ir.Apply((tripled,), "mul", (n, three)), ir.Apply((odd,), "add", (tripled, one))),
            (ir.Outcome(half, odd, following),),
        ),
        ir.Apply((counted,), "add", (steps, one)),
        ir.Apply((again,), "ne", (following, one)),
    )
    results = value(I1), value(I32), value(I32)
    entered = ir.Apply((entry,), "ne", (first, one))
    carried = ir.Carried.of((entry, first, zero), (going, n, steps), (again, following, counted), results)
    loop = ir.While(carried, body)
    target = access("out", I32, (), [var("program_0")])
    execute([load, *constants, entered, loop, ir.Store(target, results[2])], {"numbers": numbers, "out": out}, (7,))
    assert out.tolist() == [collatz(n) for n in numbers.tolist()]


def test_side_effects_before_a_split_happen_once():
    """`if p % 2: x[p] = x[p] + 1`, after a store that must not be repeated."""
    x, flags = torch.zeros(8, 4), torch.tensor([0, 1, 1, 0, 1, 0, 0, 1], dtype=torch.int32).bool()
    flag, load = load_scalars("flags", flags)
    one, wide = value(F32), value(F32, 4)

    def increment():
        before, after = value(F32, 4), value(F32, 4)
        return (
            ir.Load(before, rows("x", x)),
            ir.Apply((after,), "add", (before, wide)),
            ir.Store(rows("x", x), after),
        )

    branch = ir.If(flag, increment())
    constants = [ir.Constant(one, 1.0), ir.Apply((wide,), "full", (one,))]
    execute([*constants, *increment(), load, branch, *increment()], {"x": x, "flags": flags}, (8,))
    assert torch.equal(x, (2 + flags.float())[:, None].expand(8, 4))


def test_a_branch_yields_numbers_and_tiles():
    flags, out = torch.tensor([True, False, True]), torch.zeros(3, 4)
    x = torch.randn(3, 4)
    flag, load = load_scalars("flags", flags)
    loaded, number, full, result = value(F32, 4), value(F32), value(F32, 4), value(F32, 4)
    branch = ir.If(
        flag,
        (ir.Load(loaded, rows("x", x)),),
        (ir.Constant(number, 5.0), ir.Apply((full,), "full", (number,))),
        (ir.Outcome(loaded, full, result),),
    )
    execute([load, branch, ir.Store(rows("out", out), result)], {"flags": flags, "x": x, "out": out}, (3,))
    assert torch.equal(out, torch.where(flags[:, None], x, 5.0))


@pytest.mark.parametrize("start, stop, step", ((0, 5, 2), (5, 0, -2), (3, 3, 1), (4, 2, 1)))
def test_ranges_are_those_of_python(start, stop, step):
    x, out = torch.randn(8), torch.zeros(2)
    operations, result = counted_sum(x, const(stop))
    loop = replace(operations[-1], start=const(start), stop=const(stop), step=const(step))
    execute(
        [*operations[:-1], loop, ir.Store(access("out", F32, (), [var("program_0")]), result)],
        {"x": x, "out": out},
        (2,),
    )
    close(out, sum((x[k] for k in range(start, stop, step)), start=torch.tensor(0.0)).expand(2))


def test_carried_values_are_exchanged_at_once():
    """`a, b = b, a` three times."""
    x, out = torch.randn(2, 4), torch.zeros(2, 4)
    a, b = value(F32), value(F32)
    first, second, left, right = (value(F32) for _ in range(4))
    loads = [ir.Load(v, access("x", F32, (), [const(i), var("program_0")])) for i, v in enumerate((a, b))]
    carried = ir.Carried(a, first, second, left), ir.Carried(b, second, first, right)
    swap = ir.For(carried, (), "k", const(0), const(3), const(1))
    stores = [ir.Store(access("out", F32, (), [const(i), var("program_0")]), v) for i, v in enumerate((left, right))]
    execute([*loads, swap, *stores], {"x": x, "out": out}, (4,))
    assert torch.equal(out, x.flip(0))


def test_many_programs_may_leave_a_loop_one_after_the_other():
    """`while i < p: i = i + 1`: every round one program of thousands is done, and no stack is deep enough for that."""
    out = torch.zeros(3000, dtype=torch.int32)
    program, zero, one, i, following, result = (value(I32) for _ in range(6))
    entered, going, again, left = (value(I1) for _ in range(4))
    loop = ir.While(
        (ir.Carried(entered, going, again, left), ir.Carried(zero, i, following, result)),
        (ir.Apply((following,), "add", (i, one)), ir.Apply((again,), "lt", (following, program))),
    )
    body = [
        ir.Index(program, var("program_0")),
        ir.Constant(zero, 0),
        ir.Constant(one, 1),
        ir.Apply((entered,), "lt", (zero, program)),
        loop,
        ir.Store(access("out", I32, (), [var("program_0")]), result),
    ]
    execute(body, {"out": out}, (3000,))
    assert torch.equal(out, torch.arange(3000, dtype=torch.int32))
