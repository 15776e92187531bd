import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ninetoothed_ops.modules import NTConv2d, conv2d, swap_modules
from ninetoothed_ops.ops.packing import FEWEST_CHANNELS
from tests.conftest import DEVICE, error


class Bottleneck(nn.Module):
    """A block of a ResNet: 1 x 1, 3 x 3 and 1 x 1 filters, beside a shortcut."""

    def __init__(self, channels, width, out_channels, stride=1, groups=1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, padding=1, groups=groups, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels),
        )  # fmt: skip
        shortcut = nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Identity() if (channels, stride) == (out_channels, 1) else nn.Sequential(*shortcut)

    def forward(self, x):
        return F.relu(self.layers(x) + self.shortcut(x))


def resnet() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Bottleneck(8, 12, 24, stride=2, groups=3),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5),
    ).to(DEVICE)  # fmt: skip


@pytest.mark.parametrize("memory_format", (torch.contiguous_format, torch.channels_last))
def test_a_resnet_trains_as_before(memory_format):
    plain = resnet().to(memory_format=memory_format)
    swapped, plain = copy.deepcopy(plain), plain.double()
    report = swap_modules(swapped)
    assert [row.new for row in report if row.old is nn.Conv2d] == [NTConv2d] * 5
    input = torch.randn(4, 3, 18, 13, device=DEVICE).to(memory_format=memory_format)
    labels = torch.arange(4, device=DEVICE)
    kept = []
    swapped[4].register_forward_hook(lambda module, args, output: kept.append(output))

    for model in (plain, swapped):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2 if memory_format is torch.channels_last else 1):
            optimiser.zero_grad()
            F.cross_entropy(model(input.to(next(model.parameters()).dtype)), labels).backward()
            optimiser.step()
    for own, theirs in zip(swapped.parameters(), plain.parameters()):
        assert error(own.grad, theirs.grad) < 2e-4 and error(own, theirs) < 1e-5
        # A GPU's convolution of float64 gives gradients in another layout.
        assert DEVICE == "cuda" or own.grad.stride() == theirs.grad.stride()
        assert own.ndim < 4 or own.grad.is_contiguous(memory_format=memory_format)
    assert all(output.is_contiguous(memory_format=memory_format) for output in kept)


@pytest.mark.parametrize(
    "options",
    ({}, {"padding": "same", "dilation": (1, 2)}, {"padding": "valid", "bias": False}, {"groups": 4, "stride": (2, 1)}),
)
@pytest.mark.parametrize("batch", ((2,), ()))
def test_agrees_with_float64(options, batch):
    layer = NTConv2d(4, 8, (3, 2), **options, device=DEVICE)
    input = torch.randn(*batch, 4, 9, 8, device=DEVICE)
    expected = copy.deepcopy(layer).double()
    assert error(layer(input), nn.Conv2d.forward(expected, input.double())) < 1e-5


def test_under_autocast_and_compiled():
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2)).to(DEVICE)
    swapped, input = copy.deepcopy(model), torch.randn(2, 4, 8, 7, device=DEVICE)
    swap_modules(swapped)
    compiled = torch.compile(swapped, backend="aot_eager", fullgraph=True)

    for function in (model, compiled):
        with torch.autocast(DEVICE, torch.bfloat16):
            output = function(input)
        assert output.dtype == torch.bfloat16
        output.float().square().sum().backward()
    for own, theirs in zip(swapped.parameters(), model.parameters()):
        assert own.grad.dtype == torch.float32 and error(own.grad, theirs.grad) < 2e-2


@pytest.mark.parametrize(
    "module, reason",
    (
        (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), "padding_mode is 'reflect'"),
        (nn.LazyConv2d(4, 3), "a subclass of torch.nn.Conv2d"),
        (nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), "parametrised: weight"),
    ),
)
def test_left_alone(module, reason):
    (row,) = swap_modules(nn.Sequential(module))
    assert row.new is None and reason in row.reason


def test_traced_and_scripted():
    model = nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1))
    input = torch.randn(2, 4, 9, 8)
    expected = model(input)
    swap_modules(model.requires_grad_(False))
    for rewritten in (torch.fx.symbolic_trace(model), torch.jit.script(model)):
        assert error(rewritten(input), expected) < 1e-5


@pytest.mark.parametrize(
    "options",
    ({"padding_mode": "circular"}, {"stride": 2}, {"padding": 0, "dilation": [2, 1]}, {"padding": "valid"}),
    ids=str,
)
def test_options_that_were_changed_since(options):
    plain = nn.Conv2d(3, 4, 3, padding=1, device=DEVICE)
    swapped = copy.deepcopy(plain)
    swap_modules(swapped)
    for name, value in options.items():
        setattr(plain, name, value)
        setattr(swapped, name, value)
    input = torch.randn(2, 3, 7, 6, device=DEVICE)

    torch.testing.assert_close(swapped(input), plain(input), rtol=1e-3, atol=1e-3)


class TestRepackedWeights:
    """Weights are given the strides of channels_last once, at the swap, and results keep the layout of the input."""

    @pytest.fixture(autouse=True)
    def on_a_gpu(self, monkeypatch):
        is_wide = lambda weight: weight.shape[1] >= FEWEST_CHANNELS and weight[0, 0].numel() > 1  # noqa: E731
        monkeypatch.setattr(conv2d, "pays", is_wide)

    @staticmethod
    def wide():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(16, 20, 3, padding=1), nn.Conv2d(20, 24, 1), nn.Conv2d(24, 3, 2)).to(DEVICE)

    def test_the_parameter_stays(self):
        model = self.wide()
        parameters, values = list(model.parameters()), {k: v.clone() for k, v in model.state_dict().items()}
        report = swap_modules(model)

        assert report.repacked == ("0", "2") and "2 weights were given the strides of channels_last" in repr(report)
        assert [is_last(layer.weight) for layer in model] == [True, False, True]
        assert all(now is before for now, before in zip(model.parameters(), parameters, strict=True))
        torch.testing.assert_close(model.state_dict(), values, rtol=0, atol=0)
        report.undo()
        assert not any(is_last(layer.weight) for layer in model)
        assert all(now is before for now, before in zip(model.parameters(), parameters, strict=True))
        torch.testing.assert_close(model.state_dict(), values, rtol=0, atol=0)

    @pytest.mark.parametrize("padding", (1, "same"))
    @pytest.mark.parametrize("memory_format", (torch.contiguous_format, torch.channels_last))
    def test_layouts_are_those_without_the_swap(self, memory_format, padding):
        plain = nn.Sequential(nn.Conv2d(16, 16, 3, padding=padding), nn.ReLU(), nn.Conv2d(16, 1, 5)).to(DEVICE)
        swapped = copy.deepcopy(plain)
        swap_modules(swapped)
        compiled = torch.compile(swapped, backend="aot_eager", fullgraph=True)
        images = torch.randn(2, 16, 6, 5, device=DEVICE).to(memory_format=memory_format)
        found = []
        for model in (plain, swapped, compiled):
            own = images.detach().requires_grad_()
            output = model[0](own) if model is not compiled else model(own)
            (of_input,) = torch.autograd.grad(output.sum(), own)
            found.append((output, of_input))
        assert found[1][0].stride() == found[0][0].stride() and found[1][1].stride() == found[0][1].stride()
        torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)
        assert found[2][0].stride() == plain(images).stride() and found[2][1].stride() == images.stride()

    def test_training_goes_on(self):
        """The state of an optimiser and of checkpoints, NCHW as they are, goes with the same weights."""
        plain, images = self.wide(), torch.randn(2, 16, 6, 5, device=DEVICE)
        swapped = copy.deepcopy(plain)
        optimisers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in (plain, swapped)]
        for step in range(3):
            for model, optimiser in zip((plain, swapped), optimisers):
                optimiser.zero_grad()
                model(images).square().sum().backward()
                optimiser.step()
            if step == 0:
                report = swap_modules(swapped)
            if step == 1:
                swapped.load_state_dict(plain.state_dict())
                optimisers[1].load_state_dict(copy.deepcopy(optimisers[0].state_dict()))
        assert all(is_last(swapped[i].weight) and is_last(swapped[i].weight.grad) for i in (0, 2))
        for own, theirs in zip(swapped.parameters(), plain.parameters()):
            torch.testing.assert_close(own, theirs, rtol=1e-3, atol=1e-3)
        report.undo()

    def test_a_weight_that_something_else_holds_too(self):
        model = self.wide()
        model[0].weight.data = torch.zeros(2, *model[0].weight.shape, device=DEVICE)[1]
        model[2].tied = nn.Parameter(model[2].weight.data)
        assert swap_modules(model).repacked == () and not any(is_last(layer.weight) for layer in model)

    def test_moved_and_replaced_since(self):
        model, images = self.wide(), torch.randn(2, 16, 6, 5, device=DEVICE)
        swap_modules(model)
        model[0].weight.data.mul_(2)
        model[2].weight = nn.Parameter(torch.randn(3, 24, 2, 2, device=DEVICE))
        copied = copy.deepcopy(model)
        expected = images.double()
        for layer in model:
            options = layer.stride, layer.padding
            expected = F.conv2d(expected, layer.weight.double(), layer.bias.double(), *options)
        assert error(model(images), expected) < 1e-5 and error(copied(images), expected) < 1e-5


def is_last(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()
