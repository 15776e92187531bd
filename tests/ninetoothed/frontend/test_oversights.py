"""Warnings of what is allowed and rarely meant: of each kind one, at the user's line, and none where it is meant."""

import warnings

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import HelperAssignmentWarning, LoopVariableWarning, ReorderedParametersWarning, Tensor


def arrangement(x, y):
    return x.tile((4,)), y.tile((4,))


def made(application, arrangement=arrangement):
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))


def called(application):
    """What a kernel warns of when it is made and called twice, and what it stores."""
    x, y = torch.arange(8.0), torch.full((8,), float("nan"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        kernel = made(application)
        kernel(x, y)
        kernel(x[:5], y[:5])
    return caught, x, y


def swapped(y, x):
    x = 2 * y


def test_parameters_in_another_order():
    with pytest.warns(
        ReorderedParametersWarning, match=r"its 'y' is the arrangement's 'x' and .*def swapped\(x, y\)"
    ) as w:
        made(swapped)
    assert w[0].filename == __file__ and w[0].lineno == swapped.__code__.co_firstlineno


def turned(x, y):
    return y.tile((4,)), x.tile((4,))


def other_names(y, z):
    z = 2 * y


def straight(x, y):
    y = 2 * x


@pytest.mark.parametrize(
    "application, arrangement", ((swapped, turned), (other_names, arrangement), (straight, arrangement))
)
@pytest.mark.filterwarnings("error")
def test_an_order_that_is_meant(application, arrangement):
    made(application, arrangement)


def test_one_tensor_for_several_parameters():
    """Which parameter is which is not known, and nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ninetoothed.make(arrangement, swapped, (Tensor(1),) * 2)


def counts(x, y):
    y = x
    for x in range(3):  # noqa: B007
        y += 1


def counts_in_a_helper(x, y):
    y = x
    add_up(y, 3)


def add_up(total, times):
    for total in ntl.static_range(times):  # noqa: B007
        pass


@pytest.mark.parametrize("application, name, line", ((counts, "x", counts), (counts_in_a_helper, "y", add_up)))
def test_a_loop_over_a_tensor(application, name, line):
    caught, *_ = called(application)
    (warning,) = caught
    assert warning.category is LoopVariableWarning and f"variable '{name}' is a tensor of the kernel" in str(
        warning.message
    )
    assert warning.filename == __file__
    assert 0 < warning.lineno - line.__code__.co_firstlineno <= 2


def shifts(x, y):
    y = exponential(x)


def exponential(tile):
    tile = tile - 3

    return ntl.exp(tile)


def shifts_deeper(x, y):
    y = outer(x)


def outer(x):
    return exponential(tile=x)


@pytest.mark.parametrize("application", (shifts, shifts_deeper))
def test_a_helper_that_stores_to_its_argument(application):
    caught, x, _ = called(application)
    assert x[0] < 0, "it is stored: parameters are passed by reference"
    (warning,) = caught
    assert warning.category is HelperAssignmentWarning
    assert "'exponential' returns a value, and stores to the kernel's tensor 'x' (its 'tile')" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, exponential.__code__.co_firstlineno + 1)


def in_place(x, y):
    y = x
    double(y)
    total = ntl.zeros(y.shape, dtype=y.dtype)
    y = increased(total) + y


def double(tile):
    def twice(value):
        return 2 * value

    tile = twice(tile)


def increased(value):
    value = value + 1
    return value


def loops(x, y):
    y = x
    for i in range(3):
        y += i


@pytest.mark.parametrize("application", (in_place, loops))
def test_what_is_meant(application):
    caught, *_ = called(application)
    assert not caught
