"""`map_elementwise`: a function of numbers, branches among it, on all elements of tiles."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ApplicationError, Tensor
from tests.conftest import DEVICE


def rows(*tensors):
    return tuple(tensor.tile((4,)) for tensor in tensors)


def called(application, *arguments):
    kernel = ninetoothed.make(rows, application, tuple(Tensor(each.ndim) for each in arguments))
    arguments = [each.to(DEVICE) for each in arguments]
    kernel(*arguments)
    return [each.cpu() for each in arguments]


def larger_and_smaller(a, b):
    if a > b:
        large, small = a, b
    else:
        large, small = b, a
    for k in ntl.static_range(2):
        large = large + k
    return large, small


def piecewise(value, slope):
    if value < 0:
        if value < -1:
            value = slope * (value + 1) - 1
    elif value > 1:
        value = ntl.cast(value, ntl.int32)
    return value


def waits(value):
    while value > 0:
        value = value - 1
    return value


def shows(value):
    print(value)
    return value


def asserts(value):
    assert value > 0
    return value


def forgets(value):
    value = value + 1


def test_branches_are_of_each_element_and_results_may_be_several():
    def application(x, y, z):
        large, small = ntl.map_elementwise(larger_and_smaller, x, y)
        z = 10 * large + small

    x, y = torch.tensor([1, 5, 3, 9, 2]), torch.tensor([4, 2, 3, 1, 7])
    _, _, z = called(application, x, y, torch.zeros_like(x))
    assert torch.equal(z, 10 * (torch.maximum(x, y) + 1) + torch.minimum(x, y))


def test_tiles_broadcast_and_nested_branches_choose():
    def application(x, y):
        y = ntl.map_elementwise(piecewise, x, 0.5)

    x = torch.tensor([-3.0, -0.5, 0.5, 2.5, 7.9])
    _, y = called(application, x, torch.full_like(x, torch.nan))
    assert y.tolist() == [-2, -0.5, 0.5, 2, 7]


def test_what_follows_leaves_out_what_lies_past_the_end():
    def application(x, y):
        y = ntl.sum(ntl.map_elementwise(lambda v: v + 1, x))

    _, y = called(application, torch.arange(5.0), torch.zeros(5))
    assert y.tolist() == [10, 10, 10, 10, 5]


@pytest.mark.parametrize("function", (waits, shows, asserts))
def test_a_function_of_elements_may_only_compute(function):
    def application(x, y):
        y = ntl.map_elementwise(function, x)

    with pytest.raises(ApplicationError, match=f"`{function.__name__}` does more than compute on elements"):
        called(application, torch.ones(4), torch.ones(4))


def test_mistakes_are_told():
    def of_nothing(x, y):
        y = ntl.map_elementwise(piecewise)

    def without_a_result(x, y):
        y = ntl.map_elementwise(forgets, x)

    def of_another_tile(x, y):
        z = x + 1
        y = ntl.map_elementwise(lambda v: v + z, x)

    said = {
        of_nothing: "calls `piecewise` on elements of tiles, and is given none",
        without_a_result: "`forgets` returns nothing; return a number",
        of_another_tile: "`lambda` may use its arguments alone, and uses `z`",
    }
    for application, message in said.items():
        with pytest.raises(ApplicationError, match=message):
            called(application, torch.ones(4), torch.ones(4))
