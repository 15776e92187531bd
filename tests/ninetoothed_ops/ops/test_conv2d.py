"""What only the front door has: names for paddings, single numbers, images without a batch."""

import pytest
import torch
import torch.nn.functional as F

import ninetoothed_ops
from tests.ninetoothed_ops.samples import random


def assert_same(*args, **kwargs):
    torch.testing.assert_close(ninetoothed_ops.conv2d(*args, **kwargs), F.conv2d(*args, **kwargs), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("dilation", (1, 2, (1, 3)))
@pytest.mark.parametrize("kernel", ((3, 3), (2, 3), (4, 1)))
@pytest.mark.parametrize("padding", ("same", "valid"))
def test_padding_by_name(padding, kernel, dilation):
    assert_same(random(2, 3, 11, 10), random(4, 3, *kernel), padding=padding, dilation=dilation)


@pytest.mark.parametrize("options", ({"stride": 2}, {"padding": 1}, {"stride": (2,), "padding": [1]}, {"dilation": 2}))
def test_single_numbers(options):
    assert_same(random(2, 3, 11, 10), random(4, 3, 3, 3), random(4), **options)


def test_an_image_without_a_batch():
    assert_same(random(3, 8, 7), random(4, 3, 3, 2), random(4), padding="same")


@pytest.mark.parametrize("options", ({"stride": 2, "padding": "same"}, {"padding": "full"}))
def test_names_that_do_not_fit(options):
    args = random(1, 1, 5, 5), random(1, 1, 3, 3)
    with pytest.raises(RuntimeError) as expected:
        F.conv2d(*args, **options)
    with pytest.raises(RuntimeError) as actual:
        ninetoothed_ops.conv2d(*args, **options)

    assert str(actual.value) == str(expected.value)


def test_no_channels_give_the_bias():
    bias = random(4)
    output = ninetoothed_ops.conv2d(random(2, 0, 5, 5), random(4, 0, 3, 3), bias)

    assert torch.equal(output, bias[None, :, None, None].expand(2, 4, 3, 3))
