"""Pointers and atomics of the PyTorch backend, against one element after the other."""

import pytest
import torch

from ninetoothed import dtypes, ir
from ninetoothed.dtypes import PointerType
from ninetoothed.errors import ExecutionError
from ninetoothed.expr import const, var
from tests.ninetoothed.backends.torch_programs import LOCATION, access, execute, rows, value

F32, I32 = dtypes.float32, dtypes.int32


def pointers(name, dtype, offsets):
    """Operations that give a pointer to the elements of `name` at the offsets in a tile."""
    type = PointerType(dtype, name)
    base, wide, moved = (value(type, *lanes) for lanes in ((), offsets.type.lanes, offsets.type.lanes))
    operations = [
        ir.Apply((base,), "data_ptr", (), (("parameter", name),)),
        ir.Apply((wide,), "full", (base,)),
        ir.Apply((moved,), "add", (wide, offsets)),
    ]
    return operations, moved


def load_rows(name, tensor):
    loaded = value(dtypes.from_torch(tensor.dtype), *tensor.shape[1:])
    return loaded, ir.Load(loaded, rows(name, tensor))


def test_masked_gather_through_pointers():
    x, offsets = torch.randn(50)[10:], torch.randint(-20, 60, (4, 8), dtype=torch.int32)
    mask = (offsets >= 0) & (offsets < 40)
    out = torch.zeros(4, 8)
    (offset, load), (inside, load_mask) = load_rows("offsets", offsets), load_rows("mask", mask)
    prepare, pointer = pointers("x", F32, offset)
    other, wide, found = value(F32), value(F32, 8), value(F32, 8)
    body = [load, load_mask, *prepare, ir.Constant(other, 3.0), ir.Apply((wide,), "full", (other,))]
    body += [ir.Apply((found,), "load_pointer", (pointer, inside, wide)), ir.Store(rows("out", out), found)]
    execute(body, {"x": x, "offsets": offsets, "mask": mask, "out": out}, (4,))
    assert torch.equal(out, torch.where(mask, x[offsets.clamp(0, 39).long()], 3.0))


def test_masked_scatter_through_pointers():
    x, offsets, data = torch.zeros(40), torch.randperm(64).view(4, 16).int(), torch.randn(4, 16)
    mask = offsets < 40
    tensors = {"x": x, "offsets": offsets, "data": data, "mask": mask}
    loads = [load_rows(name, tensors[name]) for name in ("offsets", "data", "mask")]
    prepare, pointer = pointers("x", F32, loads[0][0])
    store = ir.Apply((), "store_pointer", (pointer, loads[1][0], loads[2][0]))
    execute([*(load for _, load in loads), *prepare, store], tensors, (4,))
    expected = torch.zeros(40)
    expected[offsets[mask].long()] = data[mask]
    assert torch.equal(x, expected)


def test_an_address_out_of_bounds_names_the_program_and_the_line():
    x, offsets = torch.randn(10), torch.zeros(6, 4, dtype=torch.int32)
    offsets[4, 2] = 12
    offset, load = load_rows("offsets", offsets)
    prepare, pointer = pointers("x", F32, offset)
    found = value(F32, 4)
    body = [load, *prepare, ir.Apply((found,), "load_pointer", (pointer,), location=LOCATION)]
    with pytest.raises(ExecutionError, match=r"program \(4\): element 12 of `x`") as error:
        execute(body, {"x": x, "offsets": offsets}, (6,))
    assert "kernel.py:7: output = input" in str(error.value) and isinstance(error.value.__cause__, IndexError)


OPERATIONS = {
    "atomic_add": lambda a, b: a + b,
    "atomic_max": max,
    "atomic_min": min,
    "atomic_and": lambda a, b: a & b,
    "atomic_or": lambda a, b: a | b,
    "atomic_xor": lambda a, b: a ^ b,
    "atomic_xchg": lambda a, b: b,
}


@pytest.mark.parametrize("dtype", (torch.int32, torch.int64, torch.uint32))
@pytest.mark.parametrize("name", OPERATIONS)
def test_atomics_that_meet_in_one_place(name, dtype):
    x = torch.randint(0, 100, (5,)).to(dtype)
    offsets, data = torch.randint(0, 5, (3, 16), dtype=torch.int32), torch.randint(0, 100, (3, 16)).to(dtype)
    mask = torch.rand(3, 16) > 0.3
    expected, old = x.tolist(), torch.zeros(3, 16).to(dtype)
    for p in range(3):
        for i in range(16):
            if mask[p, i]:
                place = int(offsets[p, i])
                old[p, i] = expected[place]
                expected[place] = OPERATIONS[name](expected[place], int(data[p, i]))
    out = torch.zeros(3, 16).to(dtype)
    tensors = {"x": x, "offsets": offsets, "data": data, "mask": mask, "out": out}
    loads = [load_rows(key, tensors[key]) for key in ("offsets", "data", "mask")]
    type = dtypes.from_torch(dtype)
    prepare, pointer = pointers("x", type, loads[0][0])
    found = value(type, 16)
    atomic = ir.Apply((found,), name, (pointer, loads[1][0], loads[2][0]))
    execute([*(load for _, load in loads), *prepare, atomic, ir.Store(rows("out", out), found)], tensors, (3,))
    assert x.tolist() == expected
    assert torch.equal(out, old)


def test_every_program_adds_though_the_value_does_not_vary():
    """`atomic_add(x, 1)` of scalars, by a grid of 6 x 7 programs."""
    x = torch.zeros(1)
    one, old = value(F32), value(F32)
    pointer = value(PointerType(F32, "x"))
    body = [
        ir.Apply((pointer,), "data_ptr", (), (("parameter", "x"),)),
        ir.Constant(one, 1.0),
        ir.Apply((old,), "atomic_add", (pointer, one)),
    ]
    execute(body, {"x": x}, (6, 7))
    assert x.item() == 42


def test_a_spinning_lock_is_released_by_the_program_that_holds_it():
    """while atomic_cas(lock, 0, 1) == 1: pass; x[0] += p; atomic_xchg(lock, 0)"""
    lock, x = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    zero, one, old = value(I32), value(I32), value(I32)
    place = value(PointerType(I32, "lock"))
    index, number, before, after = value(I32), value(F32), value(F32), value(F32)
    first = access("x", F32, (), [const(0)])

    def try_lock():
        taken, is_taken = value(I32), value(dtypes.int1)
        operations = ir.Apply((taken,), "atomic_cas", (place, zero, one)), ir.Apply((is_taken,), "eq", (taken, one))
        return operations, is_taken

    first_try, waits = try_lock()
    next_try, again = try_lock()
    going, gone = value(dtypes.int1), value(dtypes.int1)
    spin = ir.While((ir.Carried(waits, going, again, gone),), next_try)
    body = [
        ir.Apply((place,), "data_ptr", (), (("parameter", "lock"),)),
        ir.Constant(zero, 0),
        ir.Constant(one, 1),
        *first_try,
        spin,
        ir.Index(index, var("program_0")),
        ir.Apply((number,), "cast", (index,)),
        ir.Load(before, first),
        ir.Apply((after,), "add", (before, number)),
        ir.Store(first, after),
        ir.Apply((old,), "atomic_xchg", (place, zero)),
    ]
    execute(body, {"lock": lock, "x": x}, (9,))
    assert x.item() == sum(range(9)) and lock.item() == 0
