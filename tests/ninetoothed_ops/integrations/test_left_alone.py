"""What is left alone, the reason that the report gives, and the errors for what a model is set to after a swap."""

import pytest
import torch
from torch import nn

import ninetoothed_ops
from ninetoothed.errors import UnsupportedError
from ninetoothed_ops.modules import NTLinear, NTRotary, swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, TOLERANCE, error, logits, reasons


def test_soft_caps(make, batch):
    model, (tokens, mask) = make("Gemma2", sliding_window=5), batch(2, 11)
    expected = logits(model, tokens, mask)
    why = reasons(swap_modules(model))
    assert why["model.layers.1.self_attn"].startswith("it soft-caps its attention logits; it would run")
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


UNKNOWN = "its code is not that of a norm that NineToothed knows"


@pytest.mark.parametrize(
    ("name", "reason"),
    (
        ("GptOss", "its forward is not that of Llama's"),
        ("Phi3", "its attention is of no known kind"),
    ),
)
def test_attention_of_another_kind(make, batch, name, reason):
    model, (tokens, mask) = make(name, "eager", num_hidden_layers=1), batch(2, 7)
    expected = logits(model, tokens, mask)
    assert reason in reasons(swap_modules(model))["model.layers.0.self_attn"]
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


def test_attention_that_looks_nothing_up():
    """Kosmos-2.5's images ask for an attribute of the registry, and so get eager's function always."""
    kosmos = pytest.importorskip("transformers.models.kosmos2_5.modeling_kosmos2_5")
    config = kosmos.Kosmos2_5VisionConfig(hidden_size=16, num_attention_heads=2, head_dim=8)
    report = swap_modules(nn.Sequential(kosmos.Kosmos2_5VisionAttention(config)))
    assert reasons(report)["0"] == "it takes the eager function of its own file, whatever attn_implementation names"


def test_subclasses_patches_and_parts_that_are_left_alone(make):
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRMSNorm

    class Louder(LlamaAttention):
        def forward(self, *args, **kwargs):
            output, weights = super().forward(*args, **kwargs)
            return 2 * output, weights

    class Helpful(nn.Module):
        """A norm with Llama's forward, and something that callers may rely on."""

        forward = LlamaRMSNorm.forward

        def fuse(self):
            pass

    class Heir(LlamaRMSNorm):
        pass

    class Follower(LlamaAttention):
        pass

    model = make("Llama", num_hidden_layers=3)
    first, second, third = model.model.layers
    first.self_attn, third.self_attn = Louder(model.config, 0), Follower(model.config, 2)
    second.self_attn.forward = second.self_attn.forward
    first.input_layernorm, second.input_layernorm = Heir(64), Helpful()
    Helpful.__name__ = "HelpfulRMSNorm"
    third.mlp.act_fn.forward = torch.tanh
    why = reasons(swap_modules(model))
    assert why == {
        "model.layers.0.self_attn": "its forward is not that of Llama's, Mistral's, Qwen2's or Qwen3's attention",
        "model.layers.0.input_layernorm": "a subclass of something, which may compute something else",
        "model.layers.1.self_attn": "its forward was patched on this instance",
        "model.layers.1.input_layernorm": UNKNOWN,
        "model.layers.2.self_attn": "a subclass of something, which may compute something else",
        "model.layers.2.mlp.act_fn": "its forward was patched on this instance",
    }
    assert type(first.self_attn.q_proj) is NTLinear
    assert isinstance(third.self_attn, Follower) and isinstance(third.self_attn, NTRotary)


def test_quantised_projections_stay_and_the_attention_is_swapped(make, batch):
    class Linear8bit(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.scale = layer.weight.detach().abs().max() / 127
            self.weight = nn.Buffer((layer.weight.detach() / self.scale).round().to(torch.int8))

        def forward(self, input):
            return input @ (self.weight.to(input.dtype) * self.scale).t()

    model, (tokens, mask) = make("Mistral"), batch(2, 7)
    for layer in model.model.layers:
        layer.self_attn.q_proj = Linear8bit(layer.self_attn.q_proj)
    expected = logits(model, tokens, mask)
    why = reasons(swap_modules(model))
    assert why == {f"model.layers.{index}.self_attn.q_proj": "not a torch.nn.Linear" for index in range(2)}
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


def test_registering_attention(monkeypatch):
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    from ninetoothed_ops.integrations import attention_interface

    for registry in (AttentionInterface, AttentionMaskInterface):
        monkeypatch.setattr(registry, "_global_mapping", dict(registry._global_mapping))
        registry._global_mapping.pop("ninetoothed", None)
    ninetoothed_ops.register_attention()
    assert AttentionInterface()["ninetoothed"] is attention_interface.attend
    assert AttentionMaskInterface()["ninetoothed"] is attention_interface.make_mask


def test_float64_is_for_the_cpu(make, batch):
    model, (tokens, mask) = make("Qwen3", dtype=torch.float64), batch(2, 7)
    expected = logits(model, tokens, mask)
    report = swap_modules(model)
    assert ("model.layers.0.self_attn" in reasons(report)) is (DEVICE == "cuda")
    assert error(logits(model, tokens, mask), expected) < 1e-6


def test_a_class_that_something_has_patched(make, monkeypatch):
    from transformers.models.llama import modeling_llama

    from ninetoothed_ops.integrations import recognition

    def patched(self, hidden_states):
        return hidden_states

    recognition.reference.cache_clear(), recognition.reference_methods.cache_clear()
    monkeypatch.setattr(modeling_llama.LlamaRMSNorm, "forward", patched)
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", lambda q, k, cos, sin, unsqueeze_dim=1: (q, k))
    why = reasons(swap_modules(make("Llama")))
    recognition.reference.cache_clear(), recognition.reference_methods.cache_clear()
    assert why["model.norm"] == UNKNOWN
    assert why["model.layers.0.self_attn"].startswith("its apply_rotary_pos_emb was patched")


@pytest.mark.parametrize("name", ("sdpa", "eager"))
def test_another_function_for_an_attention_implementation(make, monkeypatch, name):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def louder(*args, **kwargs):
        raise AssertionError("it is not called here")

    model = make("Llama", name)
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, name, louder)
    reason = f"another function is registered for the attention implementation {name!r}"
    assert reasons(swap_modules(model))["model.layers.0.self_attn"] == reason


@pytest.mark.parametrize("name", ("flash_attention_2", "flex_attention", "paged|sdpa"))
def test_masks_of_another_implementation(make, name):
    model = make("Llama")
    model.config._attn_implementation = name
    why = reasons(swap_modules(model))
    reason = f"the model's attention implementation is {name!r}: model.set_attn_implementation('sdpa') first"
    assert why == {f"model.layers.{index}.self_attn": reason for index in range(2)}


def test_what_a_model_is_set_to_after_the_swap(make, batch):
    model, (tokens, _) = make("Llama"), batch(2, 7)
    report = swap_modules(model)
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UnsupportedError, match=r"NTAttention \(layer 0\).*'flash_attention_2' now"):
        logits(model, tokens)
    report.undo()
    model.config._attn_implementation = "sdpa"
    assert not swap_modules(model).skipped


# Nemotron does not tell its attention that its weights are asked for.
@pytest.mark.parametrize("name", ("Llama", "Nemotron"))
def test_weights_of_swapped_attention_that_are_asked_for(make, batch, name):
    """Those of transformers on "sdpa" come out empty."""
    model, (tokens, _) = make(name, num_hidden_layers=1), batch(2, 7)
    report = swap_modules(model)
    for model.config._attn_implementation in ("sdpa", "eager"):
        with pytest.raises(UnsupportedError, match=r"output_attentions=True asks for .*report\.undo\(\)"):
            logits(model, tokens, output_attentions=True)
    # Compiled code knows it from the config alone.
    model.config.output_attentions = True
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(UnsupportedError, match="output_attentions=True asks for"):
        torch.compile(model, backend="eager")(input_ids=tokens, use_cache=False)
    report.undo()
    assert len(model(input_ids=tokens, output_attentions=True).attentions) == 1
