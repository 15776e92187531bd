"""Gradients of conv2d: of strides, paddings, dilations, groups and layouts."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import ninetoothed_ops
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed_ops.ops import conv2d_backward_input, conv2d_backward_weight
from ninetoothed_ops.ops.conv2d_backward_input import Side
from tests.conftest import DEVICE
from tests.ninetoothed.runtime import addresses
from tests.ninetoothed_ops.samples import random

FORMATS = torch.contiguous_format, torch.channels_last
OPTIONS = {
    "stride 2": ((2, 4, 9, 8), (6, 4, 3, 3), 2, 1),
    "stride beyond the filter": ((2, 4, 9, 8), (6, 4, 1, 2), (3, 4), 0),
    "more padding than filter": ((2, 4, 6, 5), (6, 4, 2, 1), 1, (3, 2)),
    "stride, padding and dilation": ((2, 4, 13, 12), (6, 2, 3, 2), (2, 3), (1, 4), (2, 3), 2),
    "dilation a multiple of the stride": ((1, 2, 13, 12), (3, 2, 3, 3), 2, 2, (2, 4)),
    "grouped": ((2, 6, 7, 6), (4, 3, 3, 2), 1, 1, 1, 2),
    "one output": ((2, 3, 4, 4), (5, 3, 4, 4)),
    "one image, one row of weights, every second row": ((1, 3, 9, 18), (4, 3, 1, 3), (2, 1)),
    "one image, downsampled by one weight": ((1, 8, 15, 16), (4, 8, 1, 1), 2),
}


def gradients(convolve, input, weight, bias, options, grad=None):
    tensors = [tensor.detach().requires_grad_() for tensor in (input, weight, bias)]
    output = convolve(*tensors, *options)
    return torch.autograd.grad(output, tensors, torch.ones_like(output) if grad is None else grad)


@pytest.mark.parametrize("label, memory_format", [*zip(OPTIONS, itertools.cycle(FORMATS))])
def test_options(label, memory_format):
    size, filters, *options = OPTIONS[label]
    # A GPU multiplies no float64.
    dtype, tolerance = (torch.float64, 1e-7) if DEVICE == "cpu" else (torch.float32, 1e-4)
    input, weight = (random(*each, dtype=dtype).to(memory_format=memory_format) for each in (size, filters))
    bias, grad = random(filters[0], dtype=dtype), random(*F.conv2d(input, weight, None, *options).shape, dtype=dtype)
    found = gradients(ninetoothed_ops.conv2d, input, weight, bias, options, grad)
    expected = gradients(F.conv2d, input.double(), weight.double(), bias.double(), options, grad.double())

    for each, reference in zip(found, expected):
        assert each.dtype == dtype
        torch.testing.assert_close(each.double(), reference, rtol=tolerance, atol=tolerance)
    # A GPU's convolution of float64 gives gradients of inputs in another layout.
    assert DEVICE == "cuda" or found[0].stride() == expected[0].stride()
    assert all(each.is_contiguous(memory_format=memory_format) for each in found[:2])


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_padding_by_name():
    args = random(2, 3, 6, 5), random(4, 3, 2, 3), random(4), (1, "same")
    found, expected = (gradients(convolve, *args) for convolve in (ninetoothed_ops.conv2d, F.conv2d))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_gradients_are_the_fields():
    grad, input, weight = random(2, 6, 4, 4), random(2, 4, 8, 7), random(6, 2, 3, 3)
    options = (2, 2), (1, 1), (1, 1), 2
    operators = torch.ops.ninetoothed
    of_input = operators.conv2d_backward_input(grad, weight, input.shape, *options)
    of_weight = operators.conv2d_backward_weight(grad, input, weight.shape, *options)

    torch.testing.assert_close(of_input, torch.nn.grad.conv2d_input(input.shape, weight, grad, *options))
    torch.testing.assert_close(of_weight, torch.nn.grad.conv2d_weight(input, weight.shape, grad, *options))


@pytest.mark.parametrize("images, memory_format", [*zip((1, 2, 3), itertools.cycle(FORMATS))])
def test_sums_of_some_images_apart(images, memory_format, monkeypatch):
    monkeypatch.setattr(conv2d_backward_weight, "images_of_a_part", lambda *_: images)
    grad, input = (random(5, *size).to(memory_format=memory_format) for size in ((6, 4, 4), (4, 8, 7)))
    options = (2, 2), (1, 1), (1, 1), 2
    found = torch.ops.ninetoothed.conv2d_backward_weight(grad, input, (6, 2, 3, 3), *options)

    torch.testing.assert_close(found, torch.nn.grad.conv2d_weight(input, (6, 2, 3, 3), grad, *options))
    assert found.is_contiguous(memory_format=memory_format)


@pytest.mark.parametrize("kernel", (1, 3))
def test_recordings(kernel, monkeypatch):
    """Calls are recorded with all that they copy and set to 0, here as on a GPU, where channels come last."""
    addresses.use(monkeypatch)
    options = (2, 2), (kernel // 2, kernel // 2), (1, 1), 1
    for module, name in ((conv2d_backward_input, "input"), (conv2d_backward_weight, "weight")):
        monkeypatch.setattr(module, "pays", lambda weight, stride=(1, 1): max(stride) > 1 or weight.shape[2] > 1)
        function = ReplayedFunction(module.allocate, module.launch)
        for _ in range(4):
            grad, input, weight = random(2, 6, 4, 4), random(2, 4, 8, 7), random(6, 4, kernel, kernel)
            other, size = (weight, input.shape) if name == "input" else (input, weight.shape)
            with torch.no_grad():
                found = function(grad, other, list(size), *options)
            expected = gradients(F.conv2d, input, weight, random(6), options, grad)[name == "weight"]
            torch.testing.assert_close(found, expected)
        assert [type(plan) for plan in function.calls._known.values()] == [LaunchPlan], name


def test_sizes_that_do_not_fit():
    grad, input, weight = random(2, 6, 4, 4), random(2, 4, 8, 7), random(6, 4, 3, 3)
    with pytest.raises(RuntimeError, match=r"conv2d_backward_input: .* give \(2, 6, 6, 5\), and grad is"):
        torch.ops.ninetoothed.conv2d_backward_input(grad, weight, input.shape)
    with pytest.raises(RuntimeError, match="conv2d_backward_weight: .* do not fit together"):
        torch.ops.ninetoothed.conv2d_backward_weight(grad, input, (6, 3, 3, 3))
    with pytest.raises(RuntimeError, match="give both one floating-point type"):
        torch.ops.ninetoothed.conv2d_backward_weight(random(2, 6, 6, 5), input.double(), weight.shape)


@pytest.mark.parametrize("weights", (1, 2, 3))
@pytest.mark.parametrize("stride, padding, dilation", ((1, 0, 1), (1, 5, 2), (2, 1, 1), (3, 5, 1), (5, 2, 1)))
def test_sides(stride, padding, dilation, weights):
    """Each pair of pixel and weight meets the gradient where the convolution says, in exactly one window."""
    size = 17
    grads = (size + 2 * padding - dilation * (weights - 1) - 1) // stride + 1
    side = Side.of(size, grads, weights, stride, padding, dilation)
    padded = [None] * side.padding[0] + list(range(grads)[side.grads]) + [None] * side.padding[1]
    pixels, square = range(size)[side.pixels], side.square
    taps, squares = (weights + sum(side.edges)) // square, -(-len(pixels) // square)
    assert len(padded) == squares + (taps - 1) * dilation
    found = []
    for number, tap, place in itertools.product(range(squares), range(taps), range(square)):
        pixel, p = number * square + place, padded[number + tap * dilation]
        r = (taps - 1 - tap) * square + place - side.edges[0]
        if p is not None and pixel < len(pixels) and 0 <= r < weights:
            found.append((pixels[pixel], r, p))
    pairs = ((p * stride + r * dilation - padding, r, p) for p in range(grads) for r in range(weights))
    assert sorted(found) == sorted(each for each in pairs if 0 <= each[0] < size)
