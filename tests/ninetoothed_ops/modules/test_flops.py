"""PyTorch's counter of floating-point operations finds in a swapped model what it found before, and reports tell it."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from ninetoothed_ops import sdpa, swap_modules
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import NAMESAKES, operator, samples

transformers = pytest.importorskip("transformers")
IDS = torch.arange(18, device=DEVICE).view(2, 9)


def llama():
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        # As many heads of keys: for these PyTorch runs kernels whose backward computes the scores again, as ours does.
        num_attention_heads=4,
        vocab_size=40,
    )
    return transformers.LlamaForCausalLM(config).to(DEVICE)


def count(call):
    """All operations but attention's, of which versions and kernels of PyTorch count what they compute twice or not."""
    with FlopCounterMode(display=False) as counter:
        call()
    counts = counter.get_flop_counts()["Global"]
    return sum(number for operator, number in counts.items() if not re.search("attention|sdpa", str(operator)))


def forward(model):
    return model(input_ids=IDS, labels=IDS).loss


def train(model):
    forward(model).backward()


def decode(model):
    model.generate(IDS, max_new_tokens=3, min_new_tokens=3, do_sample=False)


@pytest.mark.parametrize("name", NAMESAKES)
def test_an_operator_counts_as_its_namesake(name):
    for sample in list(samples(name).values())[:7]:
        found, expected = (counts_of(sample, function) for function in (operator(name), NAMESAKES[name]))
        # PyTorch's attention of odd shapes is written out, and keeps scores that all others compute twice.
        if name != "sdpa" or not any("bmm" in str(key) for key in expected):
            assert sum(found.values()) == sum(expected.values()), sample.label


def counts_of(sample, function):
    """Of a forward and its backward in one: a loss may compute its gradients in either."""
    args = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in sample.args]
    for each in args[:2]:
        if isinstance(each, torch.Tensor) and each.is_floating_point():
            each.requires_grad_()
    with FlopCounterMode(display=False) as counter:
        function(*args, **sample.kwargs).sum().backward()
    return counter.get_flop_counts().get("Global", {})


def test_nested_attention_counts_entries():
    values = [torch.randn(length, 3, 16, device=DEVICE) for length in (5, 2, 7)]
    nested = torch.nested.nested_tensor(values, layout=torch.jagged).transpose(1, 2)
    with FlopCounterMode(display=False) as counter:
        sdpa(nested, nested, nested)
    assert counter.get_total_flops() == 2 * 3 * (25 + 4 + 49) * 32


@pytest.mark.parametrize("join", (False, True))
@pytest.mark.parametrize("call", (forward, train, decode))
def test_a_swapped_model_counts_as_before(call, join):
    model = llama()
    expected = count(lambda: call(model))
    swap_modules(model, join=join)
    assert count(lambda: call(model)) == expected > 0


def test_convolutions_count_each_multiplication_twice():
    model = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2, padding=1), nn.Conv2d(8, 8, 3, stride=2)).to(DEVICE)
    swap_modules(model)
    x = torch.randn(2, 4, 11, 11, device=DEVICE)
    first, second = 2 * (2 * 8 * 11 * 11) * (2 * 9), 2 * (2 * 8 * 5 * 5) * (8 * 9)
    assert count(lambda: model(x)) == first + second
    # The gradient of x is not asked for, and PyTorch takes the groups for one where it counts those of weights.
    assert count(lambda: model(x).sum().backward()) == 3 * first + 3 * second


def test_attention_counts_its_two_products_whole():
    query, key = torch.randn(2, 4, 5, 16, device=DEVICE), torch.randn(2, 2, 7, 16, device=DEVICE)
    with FlopCounterMode(display=False) as counter:
        sdpa(query, key, key[..., :8], is_causal=True, enable_gqa=True)
    assert counter.get_total_flops() == 2 * 2 * 4 * 5 * 7 * (16 + 8)


def test_a_report_tells_the_share_of_a_forward():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.weight = nn.Linear(8, 16), nn.Parameter(torch.ones(8, 16))

        def forward(self, x):
            return functional.linear(self.layer(x), self.weight)

    model = Network().to(DEVICE)
    report = swap_modules(model).count_flops(model, torch.randn(3, 8, device=DEVICE))
    assert report.flops == (2 * 3 * 8 * 16, 4 * 3 * 8 * 16)
    assert "of the weights (embeddings aside) and 50% of the forward's FLOPs run on NineToothed" in str(report)
