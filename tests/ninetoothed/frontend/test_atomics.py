"""Atomic functions on tiles, their elements and elements of a source: what is out of bounds is left alone."""

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


def doubled_by(place, value):
    ntl.atomic_add(place, value)


def in_a_helper(x, y):
    doubled_by(y, x)


@pytest.mark.parametrize(
    "application, arrangement",
    (
        ("ntl.atomic_add(y, x)", fours),
        ("ntl.atomic_add(y, x, mask=x > 0)", fours),
        ("ntl.atomic_max(y, x)", fours),
        ("ntl.atomic_add(y[ntl.arange(0, 4)], x)", fours),
        ("ntl.atomic_add(y.source[x.offsets(0)], x)", fours),
        ("y = 0 * x\nntl.atomic_add(y, 1)\ny = y * x", fours),
        ("for i in range(x.shape[0]):\n    ntl.atomic_add(y[i], x[i])", sequences),
        (in_a_helper, fours),
    ),
)
def test_each_way_to_name_elements(application, arrangement):
    x = torch.arange(1.0, 11.0, device=DEVICE)
    memory = torch.zeros(2, 10, device=DEVICE)
    run(application, x, memory[0], arrangement)
    assert torch.equal(memory, torch.stack((x, torch.zeros_like(x))))


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
        ("ntl.atomic_cas(y, x, x)", "`atomic_cas` takes no mask, and these elements may be out of bounds", fours),
        ("ntl.atomic_add(y, x[0])", "'y' is a tile of tiles here; index it", sequences),
    ),
)
def test_what_is_no_element(application, message, arrangement):
    with pytest.raises(ApplicationError, match=message):
        run(application, torch.ones(10), torch.ones(10), arrangement)
