"""What only the front door has: names for paddings, single numbers, images without a batch."""

import importlib

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import ninetoothed_ops
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import conv2d
from tests.ninetoothed_ops.samples import random


def assert_same(*args, **kwargs):
    torch.testing.assert_close(ninetoothed_ops.conv2d(*args, **kwargs), F.conv2d(*args, **kwargs), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    "padding, kernel, dilation",
    (("same", (3, 3), 1), ("same", (2, 3), (1, 3)), ("same", (4, 1), 2), ("valid", (2, 3), 2)),
)
def test_padding_by_name(padding, kernel, dilation):
    assert_same(random(2, 3, 11, 10), random(4, 3, *kernel), padding=padding, dilation=dilation)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
class TestSymbolicSizes:
    """Padding by name where sizes, those of the filters too, are symbols."""

    @pytest.mark.parametrize(
        "shape, kernel, dilation",
        (((2, 3, 11, 10), (2, 3), 1), ((2, 3, 11, 10), (4, 2), (2, 3)), ((3, 11, 10), (3, 3), (2, 3))),
    )
    def test_fakes(self, shape, kernel, dilation):
        tensors = random(*shape), random(4, 3, *kernel)
        expected = F.conv2d(*tensors, padding="same", dilation=dilation)

        with FakeTensorMode(shape_env=ShapeEnv()) as mode:
            fakes = [mode.from_tensor(tensor, symbolic_context=symbols(tensor.ndim)) for tensor in tensors]
            assert not isinstance(fakes[1].shape[-1], int)
            output = ninetoothed_ops.conv2d(*fakes, padding="same", dilation=dilation)

        assert [int(size) for size in output.shape] == list(expected.shape)

    def test_compiled(self):
        kernel, dilation = (2, 3), (2, 3)
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda x, w: ninetoothed_ops.conv2d(x, w, padding="same", dilation=dilation),
            backend="aot_eager",
            fullgraph=True,
            dynamic=True,
        )
        for images in (random(2, 3, 11, 10), random(5, 3, 8, 13)):
            filters = random(4, 3, *kernel)
            expected = F.conv2d(images, filters, padding="same", dilation=dilation)
            torch.testing.assert_close(compiled(images, filters), expected, rtol=1e-4, atol=1e-4)


def symbols(ndim: int) -> StatelessSymbolicContext:
    return StatelessSymbolicContext([DimDynamic.DYNAMIC] * ndim)


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


@pytest.mark.parametrize("groups", (1, 2))
def test_convolution_of_many_channels(groups):
    assert_same(random(2, 32 * groups, 9, 8), random(6, 32, 3, 3), random(6), padding=1, groups=groups)


@pytest.mark.parametrize("name", ("conv2d", "conv2d_backward_input"))
def test_filters_are_those_of_the_call(name, monkeypatch):
    """Writes through `.data`, as those of graphs and kernels, are counted in no version."""
    module, given = importlib.import_module(f"ninetoothed_ops.ops.{name}"), []
    monkeypatch.setattr(module, "pays", lambda *_: True)
    monkeypatch.setattr(module.kernels, "make", lambda *_: lambda *tensors: given.append(tensors[1].clone()))
    # On a GPU, a replayed call gets beside its arguments what the operator computes of them and keeps.
    kept = getattr(module, "kept", None)
    weight, images = random(32, 32, 3, 3), random(1, 32, 5, 5)
    sizes = () if name == "conv2d" else (images.shape,)
    for _ in range(2):
        weight.data.mul_(2)
        options = {"padding": (1, 1)} | ({} if kept is None else {"kept": kept(images, weight)})
        module.launch(torch.empty_like(images), images, weight, *sizes, **options)
        assert torch.equal(given[-1], weight) and given[-1].is_contiguous(memory_format=torch.channels_last)


def test_one_channel_and_one_weight_a_filter():
    """The one element of each sum is the only lane of its tile that is no overhang, wherever the rows end."""
    image, filters = random(1, 1, 7, 6), random(3, 1, 1, 1)
    options = {"stride": [1, 2], "padding": [1, 1], "dilation": [2, 1]}
    found = ninetoothed_ops.conv2d(image, filters, None, **options)
    torch.testing.assert_close(found, torch.nn.functional.conv2d(image, filters, None, **options))


# Batch, channels, height, filters, their size, stride, padding, groups.
ODD = (
    (2, 10, 2, 10, 7, 1, 3, 10),
    (2, 10, 7, 10, 7, 1, 3, 10),
    (3, 96, 14, 96, 7, 1, 3, 96),
    (2, 6, 9, 15, 3, 2, 1, 3),
    (1, 5, 11, 7, 3, 1, 1, 1),
)


@pytest.mark.filterwarnings("error::ninetoothed.errors.RaceWarning")
@pytest.mark.parametrize("form", (torch.contiguous_format, torch.channels_last))
@pytest.mark.parametrize("odd", ODD)
def test_no_program_is_thought_to_store_what_another_does(odd, form):
    """Tiles of pixels and of filters are permuted, flattened and cut: for a GPU, whose tiles are large."""
    batch, channels, height, filters, size, stride, padding, groups = odd
    images, weights = torch.empty(batch, channels, height, height), torch.empty(filters, channels // groups, size, size)
    output = F.conv2d(images, weights, stride=stride, padding=padding, groups=groups)
    kernel = conv2d.make((stride,) * 2, (padding,) * 2, (1, 1), filters // groups if groups > 1 else -1)
    images, output = images.to(memory_format=form), output.to(memory_format=form)
    assert kernel.source(images, weights, torch.empty(filters), output, True, gpu=machine.H200).text
