"""PyTorch's attention is replaced, as context parallelism does: swapped models ask the function that took its place."""

import copy
import runpy

import pytest
import torch
from torch.nn import functional

from ninetoothed.errors import UnsupportedError
from ninetoothed_ops import swap_modules
from ninetoothed_ops.modules import attention
from tests.conftest import DEVICE, error

pytest.importorskip("transformers")
IDS = torch.arange(1, 13, device=DEVICE).view(2, 6)


@pytest.fixture
def asked(monkeypatch):
    """Replace the function by one that halves its result, and list its calls."""
    own, calls = functional.scaled_dot_product_attention, []

    def halved(*args, **kwargs):
        calls.append(kwargs)
        return own(*args, **kwargs) / 2

    monkeypatch.setattr(functional, "scaled_dot_product_attention", halved)
    return calls


def model_of(implementation):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 48, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "head_dim": 8}
    config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, attn_implementation=implementation)
    return LlamaForCausalLM(config).to(DEVICE)


@torch.no_grad()
@pytest.mark.parametrize("way", ("swapped", "joined", "by name"))
def test_the_replacement_is_asked(asked, way):
    from ninetoothed_ops import register_attention

    model = model_of("sdpa")
    expected = model(input_ids=IDS, use_cache=False).logits
    assert len(asked) == 1
    own = copy.deepcopy(model)
    if way == "by name":
        register_attention()
        own.set_attn_implementation("ninetoothed")
    else:
        assert swap_modules(own, join=way == "joined").swapped
    assert error(own(input_ids=IDS, use_cache=False).logits, expected) < 1e-5 and len(asked) == 2


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_what_was_replaced_before_the_import_is_not_taken_for_pytorchs_own(asked):
    assert runpy.run_module("ninetoothed_ops.modules.attention")["ATTENTION"] is None
    assert attention.ATTENTION is torch._C._nn.scaled_dot_product_attention


@torch.no_grad()
def test_what_the_replacement_cannot_is_refused_by_name(asked):
    from ninetoothed_ops.integrations.attention_interface import attend

    states = [torch.zeros(1, 2, 3, 8, device=DEVICE)] * 3
    with pytest.raises(UnsupportedError, match="Module has attention sinks or a softcap.*context_parallel"):
        attend(torch.nn.Module(), *states, None, softcap=3.0)
    assert not asked
