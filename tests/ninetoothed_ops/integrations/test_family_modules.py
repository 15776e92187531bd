"""Families whose norms and activations are swapped with their linear layers: the same states, gradients, and back."""

import copy

import pytest
import torch

from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, error, logits, reasons
from tests.ninetoothed_ops.integrations.families import DECODERS, WINDOW, decoder, filled, gradients as gradients_of

transformers = pytest.importorskip("transformers")
OPTIONS = {"gemma2": WINDOW, "olmo": {}, "cohere": {}, "phi": {}, **DECODERS}
# What is put into each family; MLPs and their GELUs where projections are joined.
PUT = {
    "gemma": "NTUnitOffsetRMSNorm NTGELUTanh NTGatedMLP",
    "gemma2": "NTUnitOffsetRMSNorm NTGELUTanh NTGatedMLP",
    "gemma3_text": "NTUnitOffsetRMSNorm NTGELUTanh NTGatedMLP",
    "phi": "NTLayerNorm NTGELUTanh",
    "phi3": "NTRMSNorm NTSiLU NTFusedGatedMLP",
    "gpt_neox": "NTLayerNorm",
    "olmo": "NTRoundedLayerNorm NTSiLU NTGatedMLP",
    "cohere": "NTRoundedLayerNorm NTSiLU NTGatedMLP",
    "stablelm": "NTLayerNorm NTSiLU NTGatedMLP",
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}
SPEECH = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_mel_bins": 8,
    "max_source_positions": 6,
    "vocab_size": 97,
}


@pytest.mark.parametrize("family", PUT)
def test_decoders(family, batch):
    model, (tokens, mask) = decoder(family, **OPTIONS[family]), batch(2, 9)
    expected, slopes = logits(model, tokens, mask), gradients_of(model, tokens)
    wanted = set(PUT[family].split())
    for join in (False, True):
        report = swap_modules(model, join=join)
        put = {row.new.__name__ for row in report.swapped}
        joined = {each for each in wanted if each.endswith("MLP") or ("GELU" in each and family != "phi")}
        assert wanted - put == (set() if join else joined)
        left = {row.old.__name__ for row in report.skipped}
        assert {each for each in left if not each.endswith(("Attention", "DecoderLayer"))} == set()
        assert error(logits(model, tokens, mask), expected) < 1e-5
        if join:
            assert error(gradients_of(model, tokens), slopes) < 1e-5
        report.undo()
    assert torch.equal(logits(model, tokens, mask), expected)


@pytest.mark.parametrize("family", ("vit", "clip_vision_model", "whisper"))
def test_encoders(family):
    torch.manual_seed(0)
    if family == "whisper":
        config = transformers.WhisperConfig(**SPEECH, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        given = {"input_features": torch.randn(2, 8, 12), "decoder_input_ids": torch.arange(6).view(2, 3)}
    else:
        config = transformers.AutoConfig.for_model(family, **VISION)
        given = {"pixel_values": torch.randn(2, 3, 8, 8)}
    model = filled(transformers.AutoModel.from_config(config))
    given = {name: each.to(DEVICE) for name, each in given.items()}
    swapped = copy.deepcopy(model)
    report = swap_modules(swapped)
    put = {row.new.__name__ for row in report.swapped}
    assert put >= ({"NTLayerNorm", "NTQuickGELU"} if "clip" in family else {"NTLayerNorm"})
    assert not any("Norm" in row.old.__name__ for row in report.skipped), reasons(report)
    found, expected = (each(**given).last_hidden_state for each in (swapped, model))
    assert error(found, expected) < 1e-5
    found, expected = (torch.cat([p.grad.flatten() for p in trained(each, given)]) for each in (swapped, model))
    assert error(found, expected) < 1e-5


def trained(model, given):
    model(**given).last_hidden_state.sin().sum().backward()
    return [each for each in model.parameters() if each.grad is not None]
