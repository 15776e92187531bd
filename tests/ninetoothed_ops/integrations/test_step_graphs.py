"""`generate` over a static cache by replays of a step: the tokens of the model as it is, and what is not replayed."""

import copy
import functools
import logging

import pytest
import torch
from torch import nn

from ninetoothed_ops import modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, generate
from tests.ninetoothed_ops.integrations.families import Recorder, decoder

transformers = pytest.importorskip("transformers")
step_graphs = pytest.importorskip("ninetoothed_ops.integrations.step_graphs")
step_checks = pytest.importorskip("ninetoothed_ops.integrations.step_checks")

STATIC = {"cache_implementation": "static"}
swap_modules = functools.partial(modules.swap_modules, replay=True)


@pytest.fixture
def replays(monkeypatch):
    """Steps that were replayed: a stand-in for graphs, which runs the captured call again, over the memory it had."""
    seen, caches = [], []
    of = step_graphs.StepCache.of

    def capture(step, device):
        # What is captured does not run yet.
        kept = [each.clone() for each in caches[-1].memory]
        output = step()
        for each, value in zip(caches[-1].memory, kept):
            each.copy_(value)

        weights = placed(step.args[0].func)

        def replay():
            seen.append(step)
            now = placed(step.args[0].func)
            place(weights)
            output.logits.copy_(step().logits)
            place(now)

        return output, replay

    monkeypatch.setattr(step_graphs.StepCache, "of", lambda cache: (caches.append(of(cache)), caches[-1])[1])
    monkeypatch.setattr(step_graphs, "capture", capture)
    monkeypatch.setattr(step_graphs, "GRAPHED", DEVICE)
    monkeypatch.setattr(transformers.GenerationMixin, "_valid_auto_compile_criteria", compiles)
    return seen


def placed(model):
    """Which weights modules hold, and their memory."""
    owners = [each for module in model.modules() for each in (module._parameters, module._buffers)]
    return [(owner, name, each, each.data) for owner in owners for name, each in owner.items() if each is not None]


def place(weights):
    for owner, name, each, data in weights:
        owner[name] = each
        each.data = data


def compiles(model, given, config):
    """As on a GPU: steps over static caches are compiled, and no others."""
    cache = given.get("cache", given.get("past_key_values"))  # transformers 5.24 has renamed it
    return type(cache) is transformers.StaticCache and not config.disable_compile


def compiled(*_, **__):
    raise RuntimeError("compiled")


@pytest.fixture
def uncompiled(monkeypatch):
    """What is not replayed runs as it is, not compiled."""
    monkeypatch.setattr(transformers.PreTrainedModel, "get_compiled_call", lambda self, _: self.__call__)


def test_tokens_are_those_of_the_model_as_it_is(make, batch, replays, monkeypatch):
    model, inputs, count, seen = make("Llama"), batch(3, 7), 6, []
    check = step_graphs.checked
    monkeypatch.setattr(step_graphs, "checked", lambda *given: (seen.append(1), check(*given))[1])
    expected = generate(model, *inputs, count)
    report = swap_modules(model, join=True)
    assert torch.equal(generate(model, *inputs, count, **STATIC), expected)
    assert len(replays) == count - 1 - step_graphs.UNCAPTURED
    # The first step of another call is checked, and the second captured.
    assert torch.equal(generate(model, *inputs, count, **STATIC), expected)
    assert len(replays) == 2 * count - 3 - step_graphs.UNCAPTURED and len(seen) == 2
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.flip(0))
        model.model.norm.weight = nn.Parameter(-model.model.norm.weight)
    expected = generate(model, *inputs, count)
    assert torch.equal(generate(model, *inputs, count, **STATIC), expected)
    assert not model.get_compiled_call.reason and "generate" not in repr(report)
    report.undo()
    assert "get_compiled_call" not in vars(model) and "create_masks_for_generate" not in vars(model)


def test_steps_are_transformers_own_unless_asked_for(make, batch, replays, uncompiled):
    model, inputs = make("Llama"), batch(2, 7)
    expected = generate(model, *inputs)
    report = modules.swap_modules(model)
    assert torch.equal(generate(model, *inputs, **STATIC), expected) and not replays
    assert not {"get_compiled_call", "create_masks_for_generate"} & vars(model).keys()
    assert "generate: over a static cache on a GPU, `replay=True` makes its steps faster" in repr(report)
    assert "generate" not in repr(modules.swap_modules(nn.Linear(2, 2)))


def test_what_replays_nothing_says_so(make):
    assert "none that generates runs on NineToothed" in repr(swap_modules(make("Llama").model))
    some = swap_modules(make("Llama"), lambda module, name: name == "lm_head")
    assert "none that generates runs on NineToothed" in repr(some)


def test_functions_that_are_patched_between_two_calls(make, batch, replays, monkeypatch):
    file = pytest.importorskip("transformers.models.llama.modeling_llama")
    model, inputs, create, seen = make("Llama"), batch(2, 7), file.create_causal_mask, []
    swap_modules(model)
    generate(model, *inputs, **STATIC)
    monkeypatch.setattr(file, "create_causal_mask", lambda **given: (seen.append(1), create(**given))[1])
    generate(model, *inputs, **STATIC)
    assert seen


# Windows that fill up, the second layer's of two kinds; masks that count their keys; experts.
@pytest.mark.parametrize("family", ("mistral", "gemma3_text", "qwen3_moe"))
def test_families(batch, replays, family):
    register = pytest.importorskip("ninetoothed_ops.integrations.attention_interface").register_attention
    register()
    options = {"mistral": {"sliding_window": 9}, "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2}}
    model, inputs, count = decoder(family, **options.get(family, {})), batch(2, 4), 12
    expected = generate(model, *inputs, count)
    model.set_attn_implementation("ninetoothed")
    swap_modules(model, join=True)
    assert torch.equal(generate(model, *inputs, count, **STATIC), expected)
    assert not model.get_compiled_call.reason and len(replays) >= 4


def test_scores_and_a_cache_that_are_returned(make, batch, replays):
    model, inputs = make("Mistral"), batch(2, 4)
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
        assert torch.equal(ours.keys, theirs.keys) and torch.equal(ours.values, theirs.values)
        assert ours.get_seq_length() == theirs.get_seq_length() and "update" not in vars(ours)


@pytest.mark.parametrize("exchange", ("parameter", "data", "buffer"))
def test_weights_that_are_exchanged_between_two_steps(make, batch, replays, exchange):
    """Where a graph read, there is something else by now."""

    def generated(**options):
        model, (tokens, mask) = make("Llama"), batch(2, 7)
        swap_modules(model)

        def exchanging(tokens, scores):
            if tokens.shape[1] == 7 + 6:
                if exchange == "buffer":
                    model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq * 3
                elif exchange == "data":
                    model.model.norm.weight.data = model.model.norm.weight.data.flip(0)
                else:
                    model.lm_head.weight = nn.Parameter(model.lm_head.weight.flip(0))
            return scores

        return generate(model, tokens, mask, 11, logits_processor=[exchanging], **options)

    expected = generated()
    assert torch.equal(generated(**STATIC), expected) and len(replays) >= 5


def test_what_is_exchanged_is_told(make, batch, replays, caplog):
    """The step after it runs launch by launch, and the next is captured anew."""
    model, (tokens, mask), counts = make("Llama"), batch(2, 7), []
    swap_modules(model)

    def exchanging(tokens, scores):
        counts.append(len(replays))
        if tokens.shape[1] == 7 + 6:
            model.lm_head = copy.deepcopy(model.lm_head)
        return scores

    with caplog.at_level(logging.INFO, step_graphs.__name__):
        generate(model, tokens, mask, 11, logits_processor=[exchanging], **STATIC)
    assert counts == [0, 0, 0, 0, 1, 2, 3, 3, 4, 5, 6]
    assert "were exchanged between two steps: one runs launch by launch" in caplog.text


@pytest.mark.parametrize("update", ("weight", "buffer"))
def test_updates_in_place_are_replayed(make, batch, replays, update):
    def generated(**options):
        model, (tokens, mask) = make("Llama"), batch(2, 7)
        swap_modules(model)

        def updating(tokens, scores):
            updated = model.lm_head.weight if update == "weight" else model.model.rotary_emb.inv_freq
            with torch.no_grad():
                updated.mul_(1.5).copy_(updated.flip(0))
            return scores

        found = generate(model, tokens, mask, 11, logits_processor=[updating], **options)
        assert not model.get_compiled_call.reason
        return found

    expected = generated()
    assert torch.equal(generated(**STATIC), expected) and len(replays) == 11 - 1 - step_graphs.UNCAPTURED


def test_pins_see_modules_addresses_shapes_and_types():
    def exchange(model):
        model[0] = nn.Linear(4, 4)

    def removed(model):
        del model[1].running_mean

    def turned(model):
        model[0].weight.data = model[0].weight.data.view(2, 8)

    def other_type(model):
        model[0].weight.data = model[0].weight.data.view(torch.int32)

    def attribute(model):
        model[0].table = model[0].table.clone()

    changes = (exchange, removed, turned, other_type, attribute)
    for change in (*changes, lambda model: model.half(), lambda model: model[1].register_buffer("running_var", None)):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval().requires_grad_(False)
        model[0].table = torch.ones(3)
        is_unchanged = step_checks.pinned(model)
        model[0].weight.mul_(2)
        model[1].momentum = 0.5  # what is not looked for
        assert is_unchanged()
        change(model)
        assert not is_unchanged(), change


def test_beams_and_steps_that_are_others_each_time(make, batch, replays, uncompiled, monkeypatch):
    model, inputs = make("Llama"), batch(2, 7)
    expected, beams = generate(model, *inputs), generate(model, *inputs, num_beams=3)
    swap_modules(model, join=True)
    assert torch.equal(generate(model, *inputs, num_beams=3, **STATIC), beams) and not replays
    monkeypatch.setattr(step_graphs, "KINDS", 0)
    assert torch.equal(generate(model, *inputs, **STATIC), expected) and not replays
    assert "are others in each step" in model.get_compiled_call.reason


class Counting(nn.Embedding):
    count = 0

    def forward(self, tokens):
        self.count += 1
        return super().forward(tokens)


def read(_, given, output):
    assert output.max().item() < 1e9


def spoilers():
    yield "training", lambda model: model.model.layers[0].train(), "sdpa.default may draw random numbers"
    yield (
        "module",
        lambda model: setattr(model.model, "embed_tokens", Counting(97, 64).eval().to(DEVICE)),
        "a step changes count of Counting",
    )
    yield "read", lambda model: model.model.norm.register_forward_hook(read), "aten._local_scalar_dense.default reads"
    yield "states", lambda model: setattr(model.config, "output_hidden_states", True), "it gives hidden_states"


@pytest.mark.parametrize(("spoil", "reason"), [pytest.param(*each, id=name) for name, *each in spoilers()])
def test_what_may_change_from_step_to_step_is_compiled(make, batch, replays, uncompiled, caplog, spoil, reason):
    model, inputs = make("Llama"), batch(2, 7)
    report = swap_modules(model)
    assert model.get_compiled_call(transformers.CompileConfig()) == model.__call__
    with Recorder():
        assert model.get_compiled_call(None) == model.__call__
    spoil(model)
    expected = generate(model, *inputs)
    with caplog.at_level(logging.INFO, step_graphs.__name__):
        assert torch.equal(generate(model, *inputs, **STATIC), expected) and not replays
    assert reason in model.get_compiled_call.reason
    assert model.get_compiled_call.reason in caplog.text and model.get_compiled_call.reason in repr(report)


def test_frequencies_that_change_are_read_by_the_host(make, batch, replays, uncompiled):
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    model, inputs = make("Llama", rope_parameters=rope), batch(2, 7)
    expected = generate(model, *inputs)
    swap_modules(model)
    assert torch.equal(generate(model, *inputs, **STATIC), expected) and not replays
    assert "reads what a tensor holds (transformers.models.llama" in model.get_compiled_call.reason


@pytest.mark.parametrize(
    ("call", "reason"),
    (
        (lambda module, tokens: module(tokens), "a step changes count of Counting"),
        (lambda module, tokens: module._buffers.update(last=tokens.clone()), "a step changes _buffers of Counting"),
        (lambda module, tokens: tokens[tokens > 2], "aten.index.Tensor reads what a tensor holds"),
        (lambda module, tokens: tokens[tokens - 1], ""),
        (lambda module, tokens: tokens + torch.tensor(2), "aten.lift_fresh.default makes a tensor of numbers"),
        (lambda module, tokens: tokens.add_(1).max().item(), "aten._local_scalar_dense.default reads"),
        (lambda module, tokens: module.weight.to("meta"), "aten._to_copy.default copies from one device"),
    ),
)
def test_what_a_graph_would_not_do_again_is_seen(call, reason):
    module, tokens = Counting(5, 4), torch.tensor([1, 2])
    _, found = step_checks.checked(lambda: call(module, tokens), module, ())
    assert found.startswith(reason) and bool(found) == bool(reason)


def test_numbers_on_the_host():
    """A launch is given what they hold, which may be another at the next step."""
    module, number = nn.Linear(2, 2, device="meta"), torch.tensor(2.0)
    _, found = step_checks.checked(lambda: module.weight * number, module, ())
    assert found.startswith("aten.mul.Tensor reads a tensor on the host")
    _, found = step_checks.checked(lambda: module.weight * torch.tensor(2.0).neg(), module, ())
    assert not found


def test_a_step_that_cannot_be_captured(make, batch, replays, uncompiled, monkeypatch):
    def capture(step, device):
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    model, inputs = make("Llama"), batch(2, 7)
    expected = generate(model, *inputs)
    swap_modules(model)
    monkeypatch.setattr(step_graphs, "capture", capture)
    assert torch.equal(generate(model, *inputs, **STATIC), expected)
    assert model.get_compiled_call.reason == "it cannot be captured: operation not permitted"


def test_updates_of_the_users_and_gradients_are_not_captured(make, batch, replays, uncompiled, monkeypatch):
    """What a cache's `update` does in Python would not be done again, nor would what is recorded for gradients."""
    model, (tokens, mask) = make("Llama"), batch(2, 7)
    swap_modules(model)
    cache = transformers.StaticCache(config=model.config, max_cache_len=32)
    with torch.no_grad():
        model(input_ids=tokens, attention_mask=mask, past_key_values=cache)
    assert not step_graphs.unlike_static(cache)
    vars(cache.layers[1])["update"] = cache.layers[1].update
    assert "updated by a function that is not transformers'" in step_graphs.unlike_static(cache)
    model.get_compiled_call(None)(input_ids=tokens[:, :1], past_key_values=cache)
    assert model.get_compiled_call.reason == "gradients are recorded"


def test_steps_of_more_tokens_and_other_caches_are_compiled(make, batch, replays, monkeypatch):
    model, (tokens, mask) = make("Llama"), batch(2, 7)
    swap_modules(model)
    monkeypatch.setattr(transformers.LlamaForCausalLM, "get_compiled_call", lambda *_: compiled)
    with pytest.raises(RuntimeError, match="compiled"):
        generate(model, tokens, mask, prefill_chunk_size=4, **STATIC)
    assert "other inputs than one token" in model.get_compiled_call.reason
    growing = transformers.DynamicCache(config=model.config)
    with torch.no_grad(), pytest.raises(RuntimeError, match="compiled"):
        model.get_compiled_call(None)(input_ids=tokens[:, :1], past_key_values=growing)
    assert model.get_compiled_call.reason == "its cache is a DynamicCache, not a StaticCache"


def test_copies_run_their_own_model(make):
    model = make("Llama")
    pair = model, swap_modules(model)
    twin, report = copy.deepcopy(pair)
    assert twin.get_compiled_call.model is twin and model.get_compiled_call.model is model
    report.undo()
    assert "get_compiled_call" not in vars(twin) and "get_compiled_call" in vars(model)


def test_models_of_others_and_functions_of_the_users_stay(make):
    model = make("Llama")
    swap_modules(model, lambda module, name: name == "lm_head")
    assert "get_compiled_call" not in vars(model)
    other = make("Llama")
    vars(other)["get_compiled_call"] = compiled
    swap_modules(other).undo()
    assert other.get_compiled_call is compiled
