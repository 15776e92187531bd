"""Families of transformers compute the same with attn_implementation="ninetoothed" as with PyTorch's attention."""

import pytest
import torch

from ninetoothed.errors import UnsupportedError
from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, TOLERANCE, error, generate, logits
from tests.ninetoothed_ops.integrations.conftest import SIZES
from tests.ninetoothed_ops.integrations.families import (
    DECODERS,
    WINDOW,
    attention_operators,
    decoder,
    filled,
    gradients,
)

transformers = pytest.importorskip("transformers")
attention_interface = pytest.importorskip("ninetoothed_ops.integrations.attention_interface")
attention_interface.register_attention()

SMALL = {"num_channels": 3, "image_size": 8, "patch_size": 4}
SPEECH = {"num_mel_bins": 8, "d_model": 64, "max_source_positions": 6, "encoder_layers": 1, "decoder_layers": 1}
# The class of the model, options of its config, and what it is called with.
OTHERS = {
    "bert": ("BertModel", {}, lambda tokens: {"input_ids": tokens, "attention_mask": (tokens > 9).long()}),
    "vit": ("ViTModel", SMALL, lambda tokens: {"pixel_values": values(2, 3, 8, 8)}),
    "whisper": (
        "WhisperModel",
        SPEECH,
        lambda tokens: {"input_features": values(2, 8, 12), "decoder_input_ids": tokens},
    ),
}


def values(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)


@pytest.mark.parametrize("family", DECODERS)
def test_same_logits_tokens_and_gradients(batch, family):
    model, (tokens, mask) = decoder(family), batch(3, 11)
    calls = (
        lambda: logits(model, tokens),
        lambda: logits(model, tokens, mask),
        lambda: generate(model, tokens, mask, count=3),
        lambda: gradients(model, tokens),
    )
    expected = [call() for call in calls]
    model.set_attn_implementation("ninetoothed")
    for call, wanted in zip(calls, expected):
        if wanted.is_floating_point():
            assert error(call(), wanted) < TOLERANCE[torch.float32]
        else:
            assert torch.equal(call(), wanted)
    assert attention_operators(lambda: logits(model, tokens)) == (model.config.num_hidden_layers, 0)


@pytest.mark.parametrize("family", OTHERS)
def test_same_states_of_encoders(batch, family):
    name, options, call = OTHERS[family]
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_start_token_id": 1}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **{**SIZES, **heads, **options})
    model, inputs = filled(getattr(transformers, name)._from_config(config)), call(batch(2, 7)[0])
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
        model.set_attn_implementation("ninetoothed")
        assert error(model(**inputs).last_hidden_state, expected) < TOLERANCE[torch.float32]
    ours, theirs = attention_operators(lambda: model(**inputs))
    assert ours >= 2 and theirs == 0


def test_biases_of_positions(batch):
    """T5 adds one to the scores, which is a mask that has a gradient. Its name is set when it is made."""
    config = transformers.T5Config(vocab_size=97, d_model=64, d_kv=16, d_ff=96, num_layers=1, num_heads=4)
    config.decoder_start_token_id = 0
    tokens, mask = batch(2, 7)
    found = []
    for implementation in ("eager", "ninetoothed"):
        torch.manual_seed(0)
        model = transformers.T5ForConditionalGeneration._from_config(config, attn_implementation=implementation)
        output = filled(model)(input_ids=tokens, attention_mask=mask, labels=tokens)
        output.loss.backward()
        grad = model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.grad
        found.append((output.logits.detach(), grad))
    assert all(error(ours, wanted) < TOLERANCE[torch.float32] for wanted, ours in zip(*found))
    assert attention_operators(lambda: model(input_ids=tokens, labels=tokens)) == (3, 0)


def test_a_model_that_is_saved_loads_with_either(batch, tmp_path):
    model, (tokens, _) = decoder("glm", "ninetoothed"), batch(2, 7)
    expected = logits(model, tokens)
    model.save_pretrained(tmp_path)
    for implementation in ("ninetoothed", "sdpa"):
        loaded = type(model).from_pretrained(tmp_path, attn_implementation=implementation).to(DEVICE)
        assert loaded.config._attn_implementation == implementation
        assert error(logits(loaded, tokens), expected) < TOLERANCE[torch.float32]


def test_dropout_is_that_of_the_seed(batch):
    model, (tokens, _) = decoder("gpt_neox", "ninetoothed", attention_dropout=0.5), batch(2, 7)
    assert torch.equal(logits(model, tokens), logits(model, tokens))
    model.train()
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(logits(model, tokens))
    assert torch.equal(drawn[0], drawn[1]) and error(drawn[2], drawn[0]) > 1e-2


@pytest.mark.parametrize("family", ("phi3", "gpt2"))
def test_other_modules_are_swapped_beside_it(batch, family):
    model, (tokens, mask) = decoder(family), batch(3, 11)
    expected = logits(model, tokens, mask)
    report = swap_modules(model)
    how = 'by attn_implementation="ninetoothed" after ninetoothed_ops.register_attention()'
    assert f"it would run on ninetoothed.sdpa {how}" in str(report)
    report.undo()
    model.set_attn_implementation("ninetoothed")
    text = str(swap_modules(model))
    assert 'it runs on ninetoothed.sdpa by attn_implementation="ninetoothed"' in text and "register" not in text
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize(("name", "before"), (("Mistral", "ninetoothed"), ("Qwen3", "sdpa")))
def test_attention_that_is_swapped_reads_the_same_masks(make, batch, name, before):
    """Whether it is set before the swap or after."""
    model, (tokens, mask) = make(name), batch(3, 11)
    expected = logits(model, tokens, mask), generate(model, tokens, mask, count=3)
    model.set_attn_implementation(before)
    report = swap_modules(model)
    model.set_attn_implementation("ninetoothed")
    assert not report.skipped and attention_operators(lambda: logits(model, tokens)) == (2, 0)
    assert error(logits(model, tokens, mask), expected[0]) < TOLERANCE[torch.float32]
    assert torch.equal(generate(model, tokens, mask, count=3), expected[1])
    with pytest.raises(UnsupportedError, match="output_attentions=True asks for attention weights"):
        logits(model, tokens, output_attentions=True)
    report.undo()
    assert error(logits(model, tokens, mask), expected[0]) < TOLERANCE[torch.float32]


# Caps and windows that change every score.
CAPPED = {**WINDOW, "attn_logit_softcapping": 0.5, "query_pre_attn_scalar": 7}


@pytest.mark.parametrize("family, options", (("gpt_oss", {"num_local_experts": 4, **WINDOW}), ("gemma2", CAPPED)))
def test_sinks_and_soft_caps(batch, family, options):
    """Transformers' function for "sdpa" has none: "eager" is the reference."""
    model, (tokens, mask) = decoder(family, "eager", **options), batch(3, 11)
    calls = (
        lambda: logits(model, tokens),
        lambda: logits(model, tokens, mask),
        lambda: gradients(model, tokens),
        lambda: getattr(model.model.layers[0].self_attn, "sinks", model.lm_head.weight).grad,
    )
    expected = [call().clone() for call in calls]
    made = generate(model, tokens, mask, count=3)
    model.set_attn_implementation("ninetoothed")
    assert all(error(call(), wanted) < TOLERANCE[torch.float32] for call, wanted in zip(calls, expected))
    assert torch.equal(generate(model, tokens, mask, count=3), made) and expected[-1].norm() > 0


class Damped(torch.nn.Module):
    """Attention of which the family's own function takes what ours has no answer to."""

    def forward(self, states, **kwargs):
        return attention_interface.attend(self, states, states, states, None, **kwargs)


def eager_attention_forward(module, query, key, value, attention_mask, damping=None, sliding_window=None, **kwargs):
    """Stand beside `Damped`, as such functions of transformers stand beside their classes."""


@pytest.mark.parametrize("name", ("damping", "head_mask"))
@pytest.mark.parametrize("compiled", (False, True))
def test_what_is_not_computed_is_an_error(compiled, name):
    module, states = Damped(), torch.ones(1, 2, 3, 8, device=DEVICE)
    call = torch.compile(module, backend="eager") if compiled else module
    # None is nothing, windows are in masks, and what the function does not name changes nothing.
    assert call(states, damping=None, sliding_window=2, position_ids=states)[0].shape == (1, 3, 2, 8)
    with pytest.raises(UnsupportedError, match=rf"Damped passes {name}, .*set_attn_implementation\('eager'\)"):
        call(states, **{name: states})


MOE = {
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "mlp_layer_types": ["dense", "dense"],
    "moe_intermediate_size": 32,
}
SPARSE = {
    "deepseek_v32": {
        "index_topk": 3,
        "index_n_heads": 2,
        "index_head_dim": 16,
        "kv_lora_rank": 16,
        "q_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 12,
        "num_key_value_heads": 4,
        "head_dim": 8,
    },
    "minimax_m3_vl_text": {
        "index_n_heads": 2,
        "index_head_dim": 16,
        "index_block_size": 2,
        "index_topk_blocks": 2,
        "rotary_dim": 8,
        "dense_intermediate_size": 96,
    },
}


@pytest.mark.parametrize("family", SPARSE)
def test_keys_that_an_indexer_chooses(batch, family):
    """Fewer than there are: of eleven three, and of six blocks of two keys two."""
    model, (tokens, mask) = decoder(family, "eager", **MOE, **SPARSE[family]), batch(3, 11)
    calls = (
        lambda: logits(model, tokens),
        lambda: logits(model, tokens, mask),
        lambda: logits(model, tokens, use_cache=False),
        lambda: generate(model, tokens, mask, count=3).double(),
        lambda: generate(model, tokens, mask, count=3, cache_implementation="static", disable_compile=True).double(),
    )
    expected = [call() for call in calls]
    model.set_attn_implementation("ninetoothed")
    assert all(error(call(), wanted) < TOLERANCE[torch.float32] for call, wanted in zip(calls, expected))
    assert attention_operators(lambda: logits(model, tokens)) == (2, 0)


# GPT-2 does not tell its attention that its weights are asked for.
@pytest.mark.parametrize("family", ("glm", "gpt2"))
def test_weights_that_are_asked_for_are_an_error(batch, family):
    model, (tokens, mask) = decoder(family, "ninetoothed"), batch(2, 7)
    calls = (
        lambda: logits(model, tokens, output_attentions=True),
        lambda: generate(model, tokens, mask, output_attentions=True, return_dict_in_generate=True),
    )
    for call in calls:
        with pytest.raises(UnsupportedError, match=r"output_attentions=True asks .*set_attn_implementation\('eager'\)"):
            call()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        assert len(model(tokens, output_attentions=True).attentions) == 2
