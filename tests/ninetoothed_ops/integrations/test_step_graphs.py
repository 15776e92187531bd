"""`generate` over a static cache by replays of a step: the tokens of the model as it is, and what is not replayed."""

import copy

import pytest
import torch

from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.integrations.calls import generate

transformers = pytest.importorskip("transformers")
step_graphs = pytest.importorskip("ninetoothed_ops.integrations.step_graphs")

STATIC = {"cache_implementation": "static"}


@pytest.fixture
def replays(monkeypatch):
    """Steps that were replayed: a stand-in for graphs, which runs the captured call again, over the same tensors."""
    seen = []

    def capture(step, zeros):
        assert not zeros.any()
        output = step()
        # What is captured does not run yet.
        for layer in step.keywords["past_key_values"].layers:
            layer.cumulative_length.sub_(1)

        def replay():
            seen.append(step)
            output.logits.copy_(step().logits)

        return output, replay

    monkeypatch.setattr(step_graphs, "capture", capture)
    monkeypatch.setattr(step_graphs, "_is_on_one_gpu", lambda model: True)
    monkeypatch.setattr(transformers.LlamaForCausalLM, "_valid_auto_compile_criteria", compiles)
    return seen


def compiles(model, given, config):
    """As on a GPU: steps over static caches are compiled, and no others."""
    return type(given.get("past_key_values")) is transformers.StaticCache and not config.disable_compile


def compiled(*_, **__):
    raise RuntimeError("compiled")


def test_tokens_are_those_of_the_model_as_it_is(make, batch, replays):
    model, inputs, count = make("Llama"), batch(3, 7), 6
    expected = generate(model, *inputs, count)
    report = swap_modules(model, join=True)
    assert torch.equal(generate(model, *inputs, count, **STATIC), expected)
    assert len(replays) == count - 1 - step_graphs.UNCAPTURED
    replays.clear()
    # What is known is captured in the second step, and another graph sees what has changed since.
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.flip(0))
        model.model.norm.weight = torch.nn.Parameter(-model.model.norm.weight)
    expected = generate(model, *inputs, count)
    assert torch.equal(generate(model, *inputs, count, **STATIC), expected)
    assert len(replays) == count - 2 and len(model.get_compiled_call.zeros) == 1
    report.undo()
    assert "get_compiled_call" not in vars(model)


def test_scores_and_a_cache_that_are_returned(make, batch, replays):
    model, inputs = make("Llama"), batch(2, 7)
    swap_modules(model, join=True)
    options = {"return_dict_in_generate": True, "output_logits": True}
    tokens, mask = inputs
    found, expected = (
        model.generate(input_ids=tokens, attention_mask=mask, max_new_tokens=9, do_sample=False, **options, **more)
        for more in (STATIC, {**STATIC, "disable_compile": True})
    )
    assert replays and torch.equal(found.sequences, expected.sequences)
    assert all(torch.equal(*each) for each in zip(found.logits, expected.logits, strict=True))
    for ours, theirs in zip(found.past_key_values.layers, expected.past_key_values.layers, strict=True):
        assert torch.equal(ours.keys, theirs.keys) and ours.cumulative_length == theirs.cumulative_length


def test_beams_are_not_captured(make, batch, replays):
    """Beams are put in order by new tensors of keys and values."""
    model, inputs = make("Llama"), batch(2, 7)
    expected = generate(model, *inputs, num_beams=3)
    swap_modules(model, join=True)
    assert torch.equal(generate(model, *inputs, num_beams=3, **STATIC), expected) and not replays


def test_updates_of_the_users_and_gradients_are_not_captured(make, batch, replays, monkeypatch):
    """What a cache's `update` does in Python would not be done again, nor would what is recorded for gradients."""
    model, (tokens, mask), given = make("Llama"), batch(2, 7), {}
    swap_modules(model, join=True)
    step = step_graphs.Steps.__call__
    monkeypatch.setattr(step_graphs.Steps, "__call__", lambda self, **own: given.update(own) or step(self, **own))
    generate(model, tokens, mask, **STATIC)
    with torch.no_grad():
        assert step_graphs.memory_of(given) is not None
        vars(given["past_key_values"].layers[1])["update"] = given["past_key_values"].layers[1].update
        assert step_graphs.memory_of(given) is None
        del vars(given["past_key_values"].layers[1])["update"]
    assert step_graphs.memory_of(given) is None


def spoilers():
    yield "training", lambda model: model.model.layers[0].train()
    yield "hook", lambda model: model.model.norm.register_forward_hook(lambda *_: None)
    yield "patch", lambda model: vars(model.lm_head).update(forward=model.lm_head.forward)
    yield "rope", lambda model: vars(model.model.rotary_emb).update(rope_type="dynamic")
    yield "states", lambda model: setattr(model.config, "output_hidden_states", True)
    yield "module", lambda model: setattr(model.model, "embed_tokens", type("Own", (torch.nn.Embedding,), {})(97, 64))


@pytest.mark.parametrize("spoil", [pytest.param(spoil, id=name) for name, spoil in spoilers()])
def test_models_that_may_change_from_step_to_step_are_compiled(make, replays, monkeypatch, spoil):
    model = make("Llama")
    swap_modules(model)
    monkeypatch.setattr(transformers.LlamaForCausalLM, "get_compiled_call", lambda *_: compiled)
    assert isinstance(model.get_compiled_call(None), step_graphs.Steps)
    assert model.get_compiled_call(transformers.CompileConfig()) is compiled
    spoil(model)
    assert model.get_compiled_call(None) is compiled


def test_steps_of_more_tokens_and_other_caches_are_compiled(make, batch, replays, monkeypatch):
    model, (tokens, mask) = make("Llama"), batch(2, 7)
    swap_modules(model)
    monkeypatch.setattr(transformers.LlamaForCausalLM, "get_compiled_call", lambda *_: compiled)
    with pytest.raises(RuntimeError, match="compiled"):
        generate(model, tokens, mask, prefill_chunk_size=4, **STATIC)
    growing = transformers.DynamicCache(config=model.config)
    with pytest.raises(RuntimeError, match="compiled"):
        model.get_compiled_call(None)(input_ids=tokens[:, :1], past_key_values=growing)


def test_copies_run_their_own_model(make):
    model = make("Llama")
    pair = model, swap_modules(model)
    twin, report = copy.deepcopy(pair)
    assert twin.get_compiled_call.model is twin and model.get_compiled_call.model is model
    report.undo()
    assert "get_compiled_call" not in vars(twin) and "get_compiled_call" in vars(model)


def test_other_attention_and_functions_of_the_users_stay(make):
    model = make("Llama")
    swap_modules(model, lambda module, name: name != "model.layers.1.self_attn")
    assert "get_compiled_call" not in vars(model)
    other = make("Llama")
    vars(other)["get_compiled_call"] = compiled
    swap_modules(other).undo()
    assert other.get_compiled_call is compiled
