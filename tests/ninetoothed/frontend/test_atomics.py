"""Atomic functions on tiles, their elements and elements of a source: what is out of bounds is left alone."""

from functools import partial

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ApplicationError, Tensor
from tests.conftest import DEVICE
from tests.ninetoothed.applications import application_of


def fours(*tensors):
    return tuple(tensor.tile((4,) * tensor.ndim) if tensor.ndim else tensor for tensor in tensors)


def sequences(*tensors):
    return tuple(tensor.tile((4,)).tile((-1,)) for tensor in tensors)


def all_of_the_second(x, y):
    x = x.tile((4,))
    return x, y.tile((-1,)).expand(x.shape)


def run(application, x, y, arrangement=fours):
    application = application_of(application) if isinstance(application, str) else application
    ninetoothed.make(arrangement, application, (Tensor(x.ndim), Tensor(y.ndim)))(x, y)
    return y


def added_to(place, value):
    ntl.atomic_add(place, value)


relaxed = partial(ntl.atomic_add, sem="relaxed")


def in_a_helper(x, y):
    added_to(y, 1)


def in_a_partial(x, y):
    relaxed(y, 2)
    relaxed(pointer=y.source[x.offsets(0)], val=-1)


@pytest.mark.parametrize(
    "application, arrangement",
    (
        ("ntl.atomic_add(y, 1)", fours),
        ("ntl.atomic_add(y, 1, mask=y >= 0)", fours),
        ("ntl.atomic_max(y, x + 1)", fours),
        ("ntl.atomic_add(y[ntl.arange(0, 4)], 1)", fours),
        ("ntl.atomic_add(y.source[x.offsets(0)], 1)", fours),
        ("ntl.atomic_add(val=1, pointer=y)", fours),
        ("y.atomic_add(1)", fours),
        ("y.source[x.offsets(0)].atomic_max(x + 1, sem='relaxed')", fours),
        ("y = 0 * x\nntl.atomic_add(y, 1)\ny = y * (x + 1)", fours),
        ("y = 0 * x\ny.atomic_add(1)\ny = y * (x + 1)", fours),
        ("for i in range(x.shape[0]):\n    ntl.atomic_add(y[i], 1)", sequences),
        ("for i in range(x.shape[0]):\n    y[i].atomic_add(1)", sequences),
        (in_a_helper, fours),
        (in_a_partial, fours),
    ),
)
def test_each_way_to_name_elements(application, arrangement):
    """The value is a number, which no overhang marks: a lost mask would add it to the elements behind."""
    x = torch.arange(10.0, device=DEVICE)
    memory = torch.stack((x, torch.zeros_like(x)))
    run(application, x, memory[0], arrangement)
    assert torch.equal(memory, torch.stack((x + 1, torch.zeros_like(x))))


def test_tiles_past_the_edges_of_a_matrix_touch_nothing_else():
    """The value is a number, which no overhang marks: places alone tell what is out of bounds."""
    memory = torch.zeros(9, 11, device=DEVICE)
    run("ntl.atomic_add(y, 1.0)", torch.ones(5, 7, device=DEVICE), memory[:5, :7])
    assert memory[:5, :7].eq(1).all() and memory.sum() == 35


def test_a_scatter_skips_what_is_out_of_bounds_and_counts_what_meets():
    index = torch.tensor([1, -1, 3, 1, 7, 1], device=DEVICE)
    counts = torch.zeros(4, dtype=torch.int32, device=DEVICE)
    run("ntl.atomic_add(y.source[x], 1)", index, counts, all_of_the_second)
    assert counts.tolist() == [0, 3, 0, 1]


def test_a_counter_without_dimensions():
    counter = torch.zeros((), dtype=torch.int32, device=DEVICE)
    application = "ntl.atomic_add(y, ntl.sum((x > 3).to(ntl.int32)))"
    assert run(application, torch.arange(10.0, device=DEVICE), counter) == 6


@pytest.mark.parametrize(
    "application, message, arrangement",
    (
        ("ntl.atomic_add(x + 1, y)", r"changes a parameter, as in `atomic_add\(y, value\)`.*a tile of float32", fours),
        ("(x + 1).atomic_add(y)", r"changes a parameter, as in `atomic_add\(y, value\)`.*a tile of float32", fours),
        ("add = y.atomic_add\nadd(x)", r"changes a parameter, as in `atomic_add\(y, value\)`", fours),
        ("ntl.atomic_cas(y, x, x)", "`atomic_cas` takes no mask, and these elements may be out of bounds", fours),
        ("ntl.atomic_add(y, x[0])", "'y' is a tile of tiles here; index it", sequences),
    ),
)
def test_what_is_no_element(application, message, arrangement):
    with pytest.raises(ApplicationError, match=message):
        run(application, torch.ones(10), torch.ones(10), arrangement)
