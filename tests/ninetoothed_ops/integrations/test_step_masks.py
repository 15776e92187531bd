"""The mask of a step over a static cache: the values that transformers gives it, by fewer launches."""

import copy
import functools
import pickle

import pytest
import torch

from ninetoothed_ops import modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, generate
from tests.ninetoothed_ops.recorder import Recorder

transformers = pytest.importorskip("transformers")
masking_utils = pytest.importorskip("transformers.masking_utils")

NAME = "create_masks_for_generate"
swap_modules = functools.partial(modules.swap_modules, replay=True)


def arguments(model, tokens, mask, length=32, new=1):
    """Those of a step behind a prompt: the token's embedding has no columns, as in `generate`."""
    cache = transformers.StaticCache(config=model.config, max_cache_len=length)
    with torch.no_grad():
        model(input_ids=tokens, attention_mask=mask, past_key_values=cache)
    shown = torch.cat((mask, mask.new_ones(len(mask), new)), 1)
    embeds = torch.empty(len(mask), new, 0, device=DEVICE)
    return {"config": model.config, "inputs_embeds": embeds, "attention_mask": shown, "past_key_values": cache}


def both(model, **given):
    """The mask that a model makes, the one of transformers, and the launches of each."""
    found = []
    for make in (getattr(model, NAME), masking_utils.create_masks_for_generate):
        with Recorder() as recorder:
            mask = make(position_ids=None, block_sequence_ids=None, token_type_ids=None, **given)
        found.append((mask, len(recorder.names)))
    return found


@pytest.mark.parametrize("dtype", (torch.int64, torch.bool, torch.float32), ids=str)
def test_the_same_mask(make, batch, dtype):
    model, (tokens, mask) = make("Llama"), batch(3, 7)
    report = swap_modules(model)
    (found, launches), (expected, others) = both(model, **arguments(model, tokens, mask.to(dtype)))
    assert torch.equal(found, expected) and found.dtype is expected.dtype is torch.bool
    assert found.stride() == expected.stride() and launches < others / 2
    report.undo()
    assert not hasattr(model, NAME)


def test_undoing_keeps_a_function_of_the_users(make):
    model = make("Llama")
    report = swap_modules(model)
    own = lambda **kwargs: "own"  # noqa: E731
    setattr(model, NAME, own)
    report.undo()
    assert getattr(model, NAME) is own


def test_what_is_not_plain_is_left_to_transformers(make, batch, monkeypatch):
    model, (tokens, mask) = make("Llama"), batch(3, 7)
    swap_modules(model)
    (found, launches), (expected, others) = both(model, **arguments(model, tokens, mask, new=2))
    assert torch.equal(found, expected) and launches == others
    given = arguments(model, tokens, mask)
    given["or_mask_function"] = lambda batch, head, query, key: key >= 0
    (found, launches), (expected, others) = both(model, **given)
    assert torch.equal(found, expected) and launches == others
    patched = lambda *args, **kwargs: "patched"  # noqa: E731
    monkeypatch.setattr(masking_utils, NAME, patched)
    assert getattr(model, NAME)(**arguments(model, tokens, mask)) == "patched"


@pytest.mark.parametrize("name", ("Mistral", "Qwen2"))
def test_windows_and_masks_by_layer(make, batch, name):
    model, (tokens, mask) = make(name), batch(3, 7)
    expected = generate(model, tokens, mask, cache_implementation="static")
    swap_modules(model)
    assert torch.equal(generate(model, tokens, mask, cache_implementation="static"), expected)


def test_attention_of_others_has_the_same_mask(make, batch):
    model, inputs = make("Llama"), batch(2, 7)
    expected = generate(model, *inputs, cache_implementation="static")
    swap_modules(model, lambda module, name: name != "model.layers.1.self_attn")
    assert torch.equal(generate(model, *inputs, cache_implementation="static"), expected) and hasattr(model, NAME)


def test_copies(make, batch):
    model, inputs = make("Llama"), batch(2, 7)
    expected = generate(make("Llama"), *inputs, cache_implementation="static")
    report = swap_modules(model, join=True)
    # What `generate` compiles for a GPU cannot be pickled.
    copies = copy.deepcopy((model, report)), pickle.loads(pickle.dumps((model, report)))
    for twin, twins in copies:
        assert torch.equal(generate(twin, *inputs, cache_implementation="static"), expected)
        twins.undo()
        assert not hasattr(twin, NAME) and hasattr(model, NAME)


@pytest.mark.parametrize("name", ("cache", "past_key_values"))
def test_a_cache_by_either_of_its_names(make, batch, name):
    """transformers 5.24 has renamed it."""
    model, (tokens, mask) = make("Llama"), batch(3, 7)
    report = swap_modules(model)
    given = arguments(model, tokens, mask)
    expected = masking_utils.create_masks_for_generate(**given)
    given[name] = given.pop("past_key_values")
    with Recorder() as recorder:
        found = getattr(model, NAME)(position_ids=None, **given)
    assert torch.equal(found, expected) and len(recorder.names) < 5
    report.undo()
