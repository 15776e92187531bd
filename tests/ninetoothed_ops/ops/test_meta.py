"""Operators and swapped modules on the meta device, and what autocast makes of it, which knows no such device."""

import pytest
import torch

from ninetoothed_ops import swap_modules
from tests.ninetoothed_ops import every
from tests.ninetoothed_ops.samples import Sample


def on_meta(value):
    if isinstance(value, list | tuple):
        return type(value)(map(on_meta, value))
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def described(tensors):
    return [(each.shape, each.stride(), each.dtype) for each in tensors]


def with_gradients(sample):
    args = every.mapped(list(sample.args), lambda value: value.detach().requires_grad_())
    outputs = every.run(sample, args)
    recorded = [each for each in outputs if each.requires_grad]
    grads = torch.autograd.grad(recorded, every.floats(args), recorded, allow_unused=True) if recorded else ()
    return described(outputs), described(each for each in grads if each is not None)


@pytest.mark.parametrize("name", sorted(every.names()))
def test_every_operator(name):
    sample = every.samples()[name]
    meta = Sample(name, name, on_meta(sample.args), on_meta(sample.kwargs))
    assert with_gradients(meta) == with_gradients(sample)


@pytest.mark.parametrize("name", sorted(every.names()))
def test_every_operator_under_autocast(name):
    sample = every.samples()[name]
    args = every.mapped(sample.args, torch.Tensor.float)  # autocast leaves float64 alone
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _ = with_gradients(Sample(name, name, on_meta(args), on_meta(sample.kwargs)))
    assert [shape for shape, *_ in outputs] == [each.shape for each in every.run(sample)]


@pytest.mark.parametrize("join", (False, True))
@pytest.mark.parametrize("is_recorded", (False, True))
def test_a_swapped_model(join, is_recorded):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
    for model_type in ("llama", "nemotron"):
        config = transformers.AutoConfig.for_model(model_type, num_hidden_layers=1, vocab_size=50, **sizes)
        with torch.device("meta"):
            model = torch.nn.Sequential(transformers.AutoModel.from_config(config), torch.nn.Identity()).eval()
            tokens = torch.zeros(1, 5, dtype=torch.long)
        swap_modules(model, join=join)
        with torch.set_grad_enabled(is_recorded):
            assert model(tokens)[0].shape == (1, 5, 32)
