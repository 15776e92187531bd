"""Twenty families, joined and with attention by name: what the report says, logits, tokens, a training step, undo."""

import pytest
import torch

from ninetoothed_ops import register_attention
from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, error
from tests.ninetoothed_ops.integrations.conftest import SIZES
from tests.ninetoothed_ops.integrations.families import DECODERS, attention_operators, filled, made
from tests.ninetoothed_ops.integrations.test_family_modules import SPEECH, VISION

transformers = pytest.importorskip("transformers")
LLAMA = "NTAttention NTDecoderLayer NTGatedMLP NTLinear NTRMSNorm NTSiLU", ""
# What is put into each family, and what is left.
FAMILIES = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), LLAMA),
    "gemma": ("NTAttention NTGELUTanh NTGatedMLP NTLinear NTUnitOffsetRMSNorm", "GemmaDecoderLayer"),
    "gemma2": (
        "NTGELUTanh NTGatedMLP NTLinear NTRotary NTUnitOffsetRMSNorm",
        "Gemma2Attention Gemma2DecoderLayer",
    ),
    "gemma3_text": (
        "NTGELUTanh NTGatedMLP NTLinear NTRotary NTUnitOffsetRMSNorm",
        "Gemma3Attention Gemma3DecoderLayer",
    ),
    "phi": ("NTGELUTanh NTLayerNorm NTLinear NTRotary", "PhiAttention"),
    "phi3": ("NTFusedGatedMLP NTLinear NTRMSNorm NTRotary NTSiLU", "Phi3Attention Phi3DecoderLayer"),
    "olmo2": ("NTGatedMLP NTLinear NTRotary NTRoundedRMSNorm NTSiLU", "Olmo2Attention"),
    "cohere": ("NTGatedMLP NTLinear NTRotary NTRoundedLayerNorm NTSiLU", "CohereAttention"),
    "starcoder2": ("NTLayerNorm NTLinear NTRotary", "Starcoder2Attention Starcoder2DecoderLayer"),
    "gpt2": ("NTConv1D NTGELUTanh NTLayerNorm NTLinear", "GPT2Attention"),
    "gpt_neox": ("NTLayerNorm NTLinear NTRotary", "GPTNeoXAttention"),
    "opt": ("NTLayerNorm NTLinear", "OPTAttention"),
    # Its attention looks nothing up.
    "falcon": ("NTLayerNorm NTLinear NTRotary", "FalconAttention FalconLinear"),
    "t5": ("NTLinear NTT5RMSNorm", "T5Attention"),
    "whisper": ("NTLayerNorm NTLinear", "WhisperAttention Conv1d"),
    "bert": ("NTLayerNorm NTLinear", "BertSelfAttention BertLMPredictionHead"),
    "vit": ("NTConv2d NTLayerNorm NTLinear", "ViTAttention ViTEmbeddings"),
}
MAKERS = {
    "t5": "AutoModelForSeq2SeqLM",
    "whisper": "AutoModelForSpeechSeq2Seq",
    "bert": "AutoModelForMaskedLM",
    "vit": "AutoModelForImageClassification",
}
SHARED = {name: size for name, size in SIZES.items() if name not in ("head_dim", "num_key_value_heads")}
OPTIONS = {
    "opt": {**SHARED, "ffn_dim": 96, "word_embed_proj_dim": 64},
    "falcon": {**SHARED, "ffn_hidden_size": 96, "new_decoder_architecture": True, "num_kv_heads": 2},
    "t5": {
        "d_model": 32,
        "d_kv": 16,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 2,
        "vocab_size": 97,
        "decoder_start_token_id": 0,
    },
    "whisper": {**SPEECH, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
    "vit": VISION,
}


def model_of(family, implementation):
    """Make a small model without dropout."""
    options = OPTIONS.get(family, {**SIZES, "tie_word_embeddings": False, **DECODERS.get(family, {})})
    config = transformers.AutoConfig.for_model(family, **options)
    for name, value in list(vars(config).items()):
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
    torch.manual_seed(0)
    maker = getattr(transformers, MAKERS.get(family, "AutoModelForCausalLM"))
    return filled(made(maker, config, implementation))


def given_to(family):
    """Draw what a family is called with, padded on the left, and what it is to give, but for what padding gives."""
    generator = torch.Generator().manual_seed(0)
    tokens, mask = torch.randint(1, 97, (2, 7), generator=generator), torch.ones(2, 7, dtype=torch.long)
    tokens[1, 0] = mask[1, 0] = 0
    if family == "vit":
        given, labels = {"pixel_values": torch.randn(2, 3, 8, 8, generator=generator)}, torch.tensor([0, 1])
    elif family == "whisper":
        given, labels = {"input_features": torch.randn(2, 8, 12, generator=generator)}, tokens
    else:
        given, labels = {"input_ids": tokens, "attention_mask": mask}, tokens.clone()
        labels[1, :2] = -100
    return {name: each.to(DEVICE) for name, each in given.items()}, labels.to(DEVICE)


@torch.no_grad()
def logits(model, given, labels):
    """Give the logits, but for those of tokens that are padding."""
    found = model(**given, labels=labels).logits
    is_causal = "attention_mask" in given and not model.config.is_encoder_decoder
    return found[given["attention_mask"].bool()] if is_causal else found


def tokens(model, given):
    """Give the tokens that a model makes, if it makes any; without Whisper's own rules for speech."""
    if not model.can_generate():
        return torch.ones(0)
    return transformers.GenerationMixin.generate(model, **given, max_new_tokens=3, do_sample=False)


def trained(model, given, labels):
    """Take a step; give the loss and the gradients of all parameters in one row."""
    model.train()
    loss = model(**given, labels=labels).loss
    loss.backward()
    parameters = [each for each in model.parameters() if each.grad is not None]
    torch.optim.SGD(parameters, lr=1e-3).step()
    model.eval()
    return loss.detach(), torch.cat([each.grad.flatten() for each in parameters])


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    register_attention()
    is_named = family != "falcon"
    plain, model = model_of(family, "eager"), model_of(family, "ninetoothed" if is_named else "eager")
    (put, left), inputs = FAMILIES[family], given_to(family)
    classes, unswapped = list(map(type, model.modules())), logits(model, *inputs)
    report = swap_modules(model, join=True)
    assert {row.new.__name__ for row in report.swapped} == set(put.split())
    reasons = {row.old.__name__: row.reason for row in report if row.reason}
    assert reasons.keys() == set(left.split())
    attention = [why for name, why in reasons.items() if "Attention" in name]
    assert all(("it runs on ninetoothed.sdpa" in why) == is_named for why in attention), reasons
    found = []
    ours, theirs = attention_operators(lambda: found.append(logits(model, *inputs)))
    assert error(*found, logits(plain, *inputs)) < 1e-4
    assert (ours > 0, theirs == 0) == (is_named, is_named)
    assert torch.equal(tokens(model, inputs[0]), tokens(plain, inputs[0]))
    report.undo()
    assert list(map(type, model.modules())) == classes and torch.equal(logits(model, *inputs), unswapped)
    swap_modules(model, join=True)
    for found, expected in zip(trained(model, *inputs), trained(plain, *inputs), strict=True):
        assert error(found, expected) < 1e-4
    assert error(logits(model, *inputs), logits(plain, *inputs)) < 1e-4
