"""Models of transformers compute the same with NineToothed's modules as without, in every way that they are called."""

import pytest
import torch

from ninetoothed_ops.modules import NTAttention, NTLinear, NTRMSNorm, NTSiLU, swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, NAMES, TOLERANCE, error, generate, logits
from tests.ninetoothed_ops.recorder import Recorder

# In halves the models run where halves are meant to run.
DTYPES = tuple(TOLERANCE) if DEVICE == "cuda" else (torch.float32,)


# Eager attention differs in the masks that the model makes: plain ones, and those of a window.
@pytest.mark.parametrize(
    "name, implementation", (*((name, "sdpa") for name in NAMES), ("Llama", "eager"), ("Mistral", "eager"))
)
def test_same_logits_and_tokens(make, batch, name, implementation):
    model, (tokens, mask) = make(name, implementation), batch(3, 11)
    calls = (
        lambda: logits(model, tokens),
        lambda: logits(model, tokens, use_cache=False),
        lambda: logits(model, tokens, mask),
        lambda: logits(model, tokens[:, :1]),
        lambda: generate(model, tokens, torch.ones_like(mask)),
        lambda: generate(model, tokens, mask),
        lambda: generate(model, tokens, mask, cache_implementation="static"),
        lambda: generate(model, tokens, mask, use_cache=False, count=3),
    )
    expected = [call() for call in calls]
    swap_modules(model)
    for call, value in zip(calls, expected):
        if value.is_floating_point():
            assert error(call(), value) < TOLERANCE[torch.float32]
        else:
            assert torch.equal(call(), value) and value.unique().numel() > 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_each_chosen_token_is_within_tolerance_of_the_best(make, batch, name, dtype):
    model, (tokens, mask) = make(name, dtype=dtype), batch(3, 11)
    report = swap_modules(model)
    ours = logits(model, tokens, mask)
    made = generate(model, tokens, mask)
    report.undo()
    assert error(ours, logits(model, tokens, mask)) < TOLERANCE[dtype]

    whole, kept = torch.cat((tokens, made), 1), torch.cat((mask, torch.ones_like(made)), 1)
    with torch.no_grad():
        reference = model(input_ids=whole, attention_mask=kept).logits[:, tokens.shape[1] - 1 : -1].double()
    chosen = reference.gather(-1, made[..., None])[..., 0]
    assert (reference.amax(-1) - chosen).max() < TOLERANCE[dtype] * reference.abs().max()


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_swapped_and_the_operators_run(make, batch, name):
    model, (tokens, mask) = make(name), batch(2, 7)
    report = swap_modules(model)
    classes = {"NTLinear": NTLinear, "NTRMSNorm": NTRMSNorm, "NTSiLU": NTSiLU, "NTAttention": NTAttention}
    assert not report.skipped
    for row, module in zip(report, report.modules):
        assert isinstance(module, row.old) and isinstance(module, classes[row.new.__name__])
    assert {row.new.__name__ for row in report} == set(classes)
    with torch.no_grad(), Recorder() as recorder:
        model(input_ids=tokens, attention_mask=mask, use_cache=False)
    ran = recorder.counts.keys()
    assert {f"ninetoothed::{op}" for op in ("linear", "rms_norm", "rope_pair", "sdpa", "silu")} <= ran
    replaced = {"mm", "addmm", "linear", "silu", "rsqrt", "pow", "scaled_dot_product_attention", "_softmax"}
    # The rotary embedding's own table is a product of two vectors: it comes as a bmm.
    assert not {f"aten::{op}" for op in replaced} & ran


@pytest.mark.parametrize("options", ({}, {"use_cache": False}))
@pytest.mark.parametrize("implementation", ("sdpa", "eager"))
@pytest.mark.parametrize("name", NAMES)
def test_no_token_sees_a_later_one(make, batch, name, implementation, options):
    model, (tokens, _) = make(name, implementation), batch(2, 11)
    swap_modules(model)
    before = logits(model, tokens, **options)
    changed = tokens.clone()
    changed[:, 6:] = tokens[:, 6:] % 96 + 1
    after = logits(model, changed, **options)
    assert torch.equal(before[:, :6], after[:, :6])
    assert ((before[:, 6:] - after[:, 6:]).norm(dim=-1) > 1e-2).all()


def test_biases_count(make, batch):
    for name, bias in (("Qwen2", "q_proj"), ("Qwen2", "k_proj"), ("Qwen2", "v_proj"), ("Llama", "o_proj")):
        model, (tokens, _) = make(name), batch(2, 11)
        swap_modules(model)
        before = logits(model, tokens)
        getattr(model.model.layers[0].self_attn, bias).bias.data.zero_()
        assert error(logits(model, tokens), before) > 1e-2


def test_mistrals_window_counts(make, batch):
    tokens, mask = batch(2, 11)
    narrow, wide = make("Mistral"), make("Mistral", sliding_window=None)
    swap_modules(narrow)
    swap_modules(wide)
    difference = (logits(narrow, tokens) - logits(wide, tokens)).norm(dim=-1)
    assert (difference[:, :5] < 1e-3).all() and (difference[:, 5:] > 1e-2).all()


def test_qwen3s_norms_count(make, batch):
    model, (tokens, _) = make("Qwen3"), batch(2, 11)
    swap_modules(model)
    before = logits(model, tokens)
    model.model.layers[0].self_attn.k_norm.weight.data.mul_(2)
    assert error(logits(model, tokens), before) > 1e-2


@pytest.mark.parametrize("heads", (4, 1))
def test_other_ratios_of_heads(make, batch, heads):
    model, (tokens, mask) = make("Llama", num_key_value_heads=heads), batch(3, 11)
    expected = logits(model, tokens, mask)
    swap_modules(model)
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


def test_scaled_rotary_embedding(make, batch):
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 32}
    model, (tokens, mask) = make("Llama", rope_parameters=rope), batch(3, 11)
    assert model.model.rotary_emb.attention_scaling != 1
    expected = logits(model, tokens, mask)
    swap_modules(model)
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_in_two_parts(make, batch, name):
    model, (tokens, _) = make(name), batch(2, 13)
    expected = logits(model, tokens)
    swap_modules(model)
    with torch.no_grad():
        first = model(input_ids=tokens[:, :7], use_cache=True)
        second = model(input_ids=tokens[:, 7:], past_key_values=first.past_key_values)
    assert error(torch.cat((first.logits, second.logits), 1), expected) < TOLERANCE[torch.float32]


def test_static_cache_longer_than_the_prompt(make, batch):
    from transformers import StaticCache

    model, (tokens, _) = make("Llama"), batch(2, 11)
    expected = logits(model, tokens)
    swap_modules(model)
    cache = StaticCache(config=model.config, max_cache_len=32)
    with torch.no_grad():
        parts = [model(input_ids=part, past_key_values=cache).logits for part in tokens.split((7, 1, 3), dim=1)]
    assert error(torch.cat(parts, 1), expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("implementation", ("sdpa", "eager"))
def test_a_step_reads_only_what_a_static_cache_holds(make, batch, implementation):
    """Row 0 has no padding, the others have some on the left; what is not written yet is NaN here."""
    from transformers import StaticCache

    model, (tokens, mask) = make("Llama", implementation), batch(3, 11)
    with torch.no_grad():
        expected = model(input_ids=tokens, attention_mask=mask).logits[:, 7:]
    swap_modules(model)
    cache = StaticCache(config=model.config, max_cache_len=32)
    steps = []
    with torch.no_grad():
        model(input_ids=tokens[:, :7], attention_mask=mask[:, :7], past_key_values=cache)
        for layer in cache.layers:
            layer.keys[:, :, 7:] = layer.values[:, :, 7:] = torch.nan
        for index in range(7, 11):
            step = {"input_ids": tokens[:, index : index + 1], "attention_mask": mask[:, : index + 1]}
            steps.append(model(**step, past_key_values=cache).logits)
    assert error(torch.cat(steps, 1), expected) < TOLERANCE[torch.float32]


def test_packed_sequences_beams_and_hidden_states(make, batch):
    model, (tokens, mask) = make("Llama"), batch(2, 11)
    positions = torch.cat((torch.arange(4), torch.arange(7)))[None].to(DEVICE)
    calls = (
        lambda: logits(model, tokens, position_ids=positions, use_cache=False),
        lambda: generate(model, tokens, mask, num_beams=2).double(),
        lambda: model(input_ids=tokens, output_hidden_states=True).hidden_states[1].detach(),
    )
    expected = [call() for call in calls]
    swap_modules(model)
    with torch.no_grad():
        assert all(error(call(), value) < TOLERANCE[torch.float32] for call, value in zip(calls, expected))


@pytest.mark.parametrize("implementation", ("sdpa", "eager"))
@pytest.mark.parametrize("kind", (torch.bool, torch.float32))
def test_masks_for_every_query_and_key(make, batch, kind, implementation):
    """Models hand masks of four dimensions on as they are."""
    model, (tokens, mask) = make("Llama", implementation), batch(2, 7)
    seen = torch.ones(7, 7, device=DEVICE).tril().bool() & mask.bool()[:, None, None]
    whole = seen if kind is torch.bool else torch.where(seen, 0.0, torch.finfo(kind).min)
    with torch.no_grad():
        expected = model(input_ids=tokens, attention_mask=whole).logits
        swap_modules(model)
        found = model(input_ids=tokens, attention_mask=whole).logits
    assert error(found[mask.bool()], expected[mask.bool()]) < TOLERANCE[torch.float32]


def test_other_ways_to_generate(make, batch):
    model, assistant, (tokens, mask) = make("Llama"), make("Llama"), batch(2, 7)
    calls = (
        lambda: generate(model, tokens, mask, num_beams=4, num_return_sequences=2),
        lambda: generate(model, tokens, mask, num_beams=2, cache_implementation="static"),
        lambda: generate(model, tokens[:1], mask[:1], assistant_model=assistant),
        lambda: generate(model, tokens[:1], mask[:1], prompt_lookup_num_tokens=3),
    )
    expected = [call() for call in calls]
    swap_modules(model)
    swap_modules(assistant)
    assert all(torch.equal(call(), value) for call, value in zip(calls, expected))


def test_checkpoints_of_gradients(make, batch):
    model, (tokens, mask) = make("Llama").train(), batch(2, 7)
    model.gradient_checkpointing_enable()
    expected = model(input_ids=tokens, attention_mask=mask).logits.detach()
    swap_modules(model)
    found = model(input_ids=tokens, attention_mask=mask).logits
    assert found.requires_grad and error(found[mask.bool()], expected[mask.bool()]) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("implementation", ("sdpa", "eager"))
def test_attention_to_both_sides(make, batch, implementation):
    model, (tokens, mask) = make("Llama", implementation, is_causal=False), batch(2, 11)
    expected = [logits(model, tokens), logits(model, tokens, mask)]
    swap_modules(model)
    assert error(logits(model, tokens), expected[0]) < TOLERANCE[torch.float32]
    assert error(logits(model, tokens, mask), expected[1]) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("implementation", ("sdpa", "eager"))
def test_autocast(make, batch, implementation):
    """To "eager" a token of padding, which sees no other, sees all of them alike; of "sdpa" that is not said."""
    model, (tokens, mask) = make("Llama", implementation), batch(3, 11)
    compared = mask.bool() | (implementation == "eager")
    with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
        expected = model(input_ids=tokens, attention_mask=mask).logits
        swap_modules(model)
        found = model(input_ids=tokens, attention_mask=mask).logits
    assert found.dtype == expected.dtype and error(found[compared], expected[compared]) < TOLERANCE[torch.bfloat16]
