"""Models that are swapped on the meta device, used there, and filled later."""

import pytest
import torch

from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, error, logits
from tests.ninetoothed_ops.integrations.families import gradients

pytest.importorskip("transformers")


CASES = {"Llama": "eager", "Qwen3": "sdpa", "Cohere": "sdpa", "Nemotron": "eager"}


@pytest.mark.parametrize("join", (False, True))
@pytest.mark.parametrize("name", CASES)
def test_swapped_and_called_on_meta_then_filled(make, batch, name, join):
    model, (tokens, mask) = make(name, CASES[name], num_hidden_layers=1), batch(2, 5)
    expected, slopes, state = logits(model, tokens, mask), gradients(model, tokens), model.state_dict()
    state = {key: value.clone() for key, value in state.items()}
    buffers = {key: value.clone() for key, value in model.named_buffers()}
    model.to("meta")
    # A mask of four dimensions, as transformers reads the numbers of others.
    given = {
        "input_ids": tokens.to("meta"),
        "attention_mask": torch.zeros(2, 1, 5, 5, device="meta"),
        "use_cache": False,
    }
    wanted = model(**given).logits
    swap_modules(model, join=join)
    with torch.no_grad():
        assert model(**given).logits.shape == wanted.shape
    found = model(**given, labels=given["input_ids"])
    assert (found.logits.shape, found.logits.dtype, found.logits.device) == (wanted.shape, wanted.dtype, wanted.device)
    found.loss.backward()
    assert all(each.grad is not None and each.grad.is_meta for each in model.parameters())
    model.zero_grad()

    model.to_empty(device=DEVICE)
    model.tie_weights()
    model.load_state_dict(state)
    for key, value in buffers.items():
        model.get_buffer(key).copy_(value)
    assert error(logits(model, tokens, mask), expected) < 1e-4
    assert error(gradients(model, tokens), slopes) < 1e-3
