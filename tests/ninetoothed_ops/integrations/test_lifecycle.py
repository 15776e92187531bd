"""What a swap leaves as it was: other models, files, copies, and the model itself once it is taken back."""

import copy
import json
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

from ninetoothed_ops.modules import NTAttention, swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, NAMES, TOLERANCE, error, logits


@pytest.mark.parametrize("name", NAMES)
def test_undo_restores_the_very_same_logits(make, batch, name):
    model, (tokens, mask) = make(name), batch(2, 7)
    before, expected, config = [type(m) for m in model.modules()], logits(model, tokens, mask), model.config.to_dict()
    report = swap_modules(model)
    assert model.config.to_dict() == config and model.config._attn_implementation == "sdpa"
    report.undo()
    assert [type(m) for m in model.modules()] == before
    assert torch.equal(logits(model, tokens, mask), expected) and model.config.to_dict() == config


def test_undo_leaves_what_an_earlier_swap_joined(make):
    """A report that joined nothing takes nothing apart."""
    model = make("Llama")
    swap_modules(model, join=True)
    held = [sorted(vars(module)) for module in model.modules()]
    memory = [parameter.data_ptr() for parameter in model.parameters()]
    swap_modules(model).undo()
    assert [sorted(vars(module)) for module in model.modules()] == held
    assert [parameter.data_ptr() for parameter in model.parameters()] == memory


def test_models_that_share_a_config_or_a_class(make, batch):
    from transformers import LlamaForCausalLM

    model, (tokens, mask) = make("Llama"), batch(2, 7)
    other = LlamaForCausalLM(model.config).eval().to(DEVICE)
    before, expected = [type(m) for m in other.modules()], logits(other, tokens, mask)
    swap_modules(model)
    assert [type(m) for m in other.modules()] == before
    assert torch.equal(logits(other, tokens, mask), expected)


@pytest.mark.parametrize("tied", (False, True))
def test_saved_models_are_plain_ones(make, batch, tied, tmp_path):
    from transformers import LlamaForCausalLM

    model, (tokens, mask) = make("Llama", tie_word_embeddings=tied), batch(2, 7)
    model.save_pretrained(tmp_path / "before")
    expected, values = logits(model, tokens, mask), {k: v.clone() for k, v in model.state_dict().items()}
    swap_modules(model)
    assert list(model.state_dict()) == list(values)
    assert all(torch.equal(v, values[k]) for k, v in model.state_dict().items())
    assert (model.lm_head.weight is model.model.embed_tokens.weight) is tied

    model.save_pretrained(tmp_path / "after")
    configs = [json.loads((tmp_path / when / "config.json").read_text()) for when in ("before", "after")]
    assert configs[0] == configs[1]
    loaded = LlamaForCausalLM.from_pretrained(tmp_path / "after").eval().to(DEVICE)
    assert type(loaded.lm_head) is nn.Linear and torch.equal(logits(loaded, tokens, mask), expected)


@pytest.mark.parametrize("duplicate", (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))))
def test_copies_and_other_types(make, batch, duplicate):
    model, (tokens, mask) = make("Qwen3"), batch(2, 7)
    expected = logits(model, tokens, mask)
    report = swap_modules(model)
    twin = duplicate(model)
    report.undo()
    assert isinstance(twin.model.layers[0].self_attn, NTAttention)
    assert error(logits(twin, tokens, mask), expected) < TOLERANCE[torch.float32]
    if DEVICE == "cuda":
        assert error(logits(twin.to(torch.bfloat16), tokens, mask), expected) < TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize("duplicate", (copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))))
def test_a_report_that_is_copied_with_its_model_undoes_the_copy(make, batch, duplicate):
    model, (tokens, mask) = make("Qwen3"), batch(2, 7)
    before, expected = [type(m) for m in model.modules()], logits(model, tokens, mask)
    report = swap_modules(model, lambda module, name: name != "lm_head")
    twin, twins = duplicate((model, report))
    assert [tuple(row) for row in twins] == [tuple(row) for row in report] and repr(twins) == repr(report)
    twins.undo()
    assert [type(m) for m in twin.modules()] == before and torch.equal(logits(twin, tokens, mask), expected)
    assert isinstance(model.model.layers[0].self_attn, NTAttention)
    again = swap_modules(model)
    assert [tuple(row) for row in duplicate(again)] == [tuple(row) for row in again]


def test_saved_whole_and_loaded_by_another_process(make, batch, tmp_path):
    model, (tokens, mask) = make("Llama"), batch(2, 7)
    expected = logits(model, tokens, mask)
    report = swap_modules(model)
    torch.save((model, report, tokens, mask, expected), tmp_path / "all.pt")
    program = """
import sys, torch
model, report, tokens, mask, expected = torch.load(sys.argv[1], weights_only=False)
with torch.no_grad():
    swapped = model(input_ids=tokens, attention_mask=mask).logits[mask.bool()]
    assert repr(model.model.layers[0].self_attn).startswith("NTAttention(")
    assert (swapped - expected).norm() / expected.norm() < 1e-4
    report.undo()
    assert repr(model.model.layers[0].self_attn).startswith("LlamaAttention(")
    torch.testing.assert_close(model(input_ids=tokens, attention_mask=mask).logits[mask.bool()], expected)
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "all.pt"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_one_layer_of_a_model(make, batch):
    model, (tokens, mask) = make("Llama"), batch(2, 7)
    expected = logits(model, tokens, mask)
    report = swap_modules(model.model.layers[1])
    assert isinstance(model.model.layers[1].self_attn, NTAttention) and type(model.lm_head) is nn.Linear
    assert "self_attn" in {row.name for row in report.swapped}
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("name, join", (("Llama", False), ("Llama", True), ("Phi3", True)))
def test_classes_that_are_patched_after_the_swap(make, batch, monkeypatch, name, join):
    """Those of layers, of their attention, of their MLP, and of PyTorch."""
    model, twin, (tokens, mask) = make(name), make(name), batch(2, 7)
    layer = twin.model.layers[0]
    plain = logits(twin, tokens, mask)
    swap_modules(model, join=join)
    for cls in (type(layer), type(layer.self_attn), type(layer.mlp), nn.Linear, nn.SiLU):
        with monkeypatch.context() as patch:
            patch.setattr(cls, "forward", louder(cls.forward))
            expected = logits(twin, tokens, mask)
            assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]
            assert error(expected, plain) > 1e-2 or cls is nn.SiLU
        assert error(logits(model, tokens, mask), plain) < TOLERANCE[torch.float32]


def louder(forward):
    def patched(self, *args, **kwargs):
        found = forward(self, *args, **kwargs)
        return (2 * found[0], *found[1:]) if isinstance(found, tuple) else 2 * found

    return patched


def test_functions_that_are_registered_or_patched_after_the_swap(make, batch, monkeypatch):
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.llama import modeling_llama

    def doubled(*args, **kwargs):
        output, weights = sdpa_attention_forward(*args, **kwargs)
        return 2 * output, weights

    def unrotated(query, key, *_, **__):
        return query, key

    def reversed_eager(module, query, *args, **kwargs):
        return eager(module, query.flip(-1), *args, **kwargs)

    model, (tokens, mask) = make("Llama"), batch(2, 7)
    plain, eager = logits(model, tokens, mask), modeling_llama.eager_attention_forward
    report, local = swap_modules(model), modeling_llama.ALL_ATTENTION_FUNCTIONS._local_mapping
    patches = (
        ("sdpa", lambda: monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", doubled)),
        ("sdpa", lambda: monkeypatch.setitem(local, "sdpa", doubled)),
        ("sdpa", lambda: monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", unrotated)),
        ("eager", lambda: monkeypatch.setattr(modeling_llama, "eager_attention_forward", reversed_eager)),
    )
    for implementation, patch in patches:
        model.config._attn_implementation = implementation
        monkeypatch.delitem(local, "sdpa", raising=False)
        patch()
        honoured = logits(model, tokens, mask)
        report.undo()
        expected = logits(model, tokens, mask)
        assert error(honoured, expected) < TOLERANCE[torch.float32] and error(plain, expected) > 1e-2
        # Now it is seen when swapping.
        again = swap_modules(model)
        assert not any(issubclass(row.new, NTAttention) for row in again.swapped)
        again.undo()
        monkeypatch.undo()
        model.config._attn_implementation = "sdpa"
        report = swap_modules(model)
        assert error(logits(model, tokens, mask), plain) < TOLERANCE[torch.float32]
