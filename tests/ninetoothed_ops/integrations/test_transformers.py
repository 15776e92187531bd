"""Models of transformers compute the same with NineToothed's modules as without, in every way that they are called."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor.utils import fresh_cache
from torch.utils._python_dispatch import TorchDispatchMode

from ninetoothed.errors import UnsupportedError
from ninetoothed_ops.modules import NTAttention, NTLinear, NTRMSNorm, NTSiLU, swap_modules

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAMES = ("Llama", "Mistral", "Qwen2", "Qwen3")
TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
# In halves the models run where halves are meant to run.
DTYPES = tuple(TOLERANCE) if DEVICE == "cuda" else (torch.float32,)


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.name().partition(".")[0])
        return func(*args, **(kwargs or {}))


def error(actual, expected):
    return ((actual.double() - expected.double()).norm() / expected.double().norm()).item()


@torch.no_grad()
def logits(model, tokens, mask=None, **options):
    """At the tokens that the mask keeps."""
    found = model(input_ids=tokens, attention_mask=mask, **options).logits
    return found if mask is None else found[mask.bool()]


def generate(model, tokens, mask, count=8, **options):
    found = model.generate(input_ids=tokens, attention_mask=mask, max_new_tokens=count, do_sample=False, **options)
    return found[:, tokens.shape[1] :]


@pytest.mark.parametrize("implementation", ("sdpa", "eager"))
@pytest.mark.parametrize("name", NAMES)
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
        assert isinstance(module, (row.old, NTRMSNorm, NTSiLU)) and isinstance(module, classes[row.new.__name__])
    assert {row.new.__name__ for row in report} == set(classes)
    with torch.no_grad(), Recorder() as recorder:
        model(input_ids=tokens, attention_mask=mask)
    product = "addmm" if name in ("Llama", "Qwen2") else "mm"
    assert {f"ninetoothed::{op}" for op in (product, "rms_norm", "rope", "sdpa", "silu")} <= recorder.names
    replaced = {"mm", "addmm", "linear", "silu", "rsqrt", "pow", "scaled_dot_product_attention", "_softmax"}
    # The rotary embedding's own table is a product of two vectors: it comes as a bmm.
    assert not {f"aten::{op}" for op in replaced} & recorder.names


@pytest.mark.parametrize("name", NAMES)
def test_undo_restores_the_very_same_logits(make, batch, name):
    model, (tokens, mask) = make(name), batch(2, 7)
    before, expected, config = [type(m) for m in model.modules()], logits(model, tokens, mask), model.config.to_dict()
    report = swap_modules(model)
    assert model.config.to_dict() == config and model.config._attn_implementation == "sdpa"
    report.undo()
    assert [type(m) for m in model.modules()] == before
    assert torch.equal(logits(model, tokens, mask), expected) and model.config.to_dict() == config


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
def test_attention_to_both_sides(make, batch, implementation):
    model, (tokens, mask) = make("Llama", implementation, is_causal=False), batch(2, 11)
    expected = [logits(model, tokens), logits(model, tokens, mask)]
    swap_modules(model)
    assert error(logits(model, tokens), expected[0]) < TOLERANCE[torch.float32]
    assert error(logits(model, tokens, mask), expected[1]) < TOLERANCE[torch.float32]


def test_autocast(make, batch):
    model, (tokens, mask) = make("Llama"), batch(2, 11)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        expected = logits(model, tokens, mask)
        swap_modules(model)
        found = logits(model, tokens, mask)
    assert found.dtype == expected.dtype and error(found, expected) < TOLERANCE[torch.bfloat16]


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
    import json

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


def reasons(report):
    return {row.name: row.reason for row in report.skipped}


def test_soft_caps_and_gemmas_norm(make, batch):
    model, (tokens, mask) = make("Gemma2", sliding_window=5), batch(2, 11)
    expected = logits(model, tokens, mask)
    why = reasons(swap_modules(model))
    assert why["model.layers.1.self_attn"] == "it soft-caps its attention logits"
    assert why["model.norm"] == "its forward is not that of LlamaRMSNorm"
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize(
    ("name", "reason"),
    (
        # Pairs of neighbours rotate, and not the two halves.
        ("Glm", "its apply_rotary_pos_emb is not that of Llama"),
        ("GptOss", "its forward is not that of Llama's"),
        ("Phi3", "it has no q_proj"),
    ),
)
def test_attention_of_another_kind(make, batch, name, reason):
    model, (tokens, mask) = make(name, "eager", num_hidden_layers=1), batch(2, 7)
    expected = logits(model, tokens, mask)
    assert reason in reasons(swap_modules(model))["model.layers.0.self_attn"]
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


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
        "model.layers.1.input_layernorm": "it has fuse beside its forward",
        "model.layers.2.self_attn": "a subclass of something, which may compute something else",
        "model.layers.2.mlp.act_fn": "its forward was patched on this instance",
    }
    assert type(first.self_attn.q_proj) is NTLinear and type(third.self_attn) is Follower


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


def test_float64_is_for_the_cpu(make, batch):
    model, (tokens, mask) = make("Qwen3", dtype=torch.float64), batch(2, 7)
    expected = logits(model, tokens, mask)
    report = swap_modules(model)
    assert ("model.layers.0.self_attn" in reasons(report)) is (DEVICE == "cuda")
    assert error(logits(model, tokens, mask), expected) < 1e-6


def test_a_class_that_something_has_patched(make, monkeypatch):
    from transformers.models.llama import modeling_llama

    from ninetoothed_ops.integrations import transformers as integration

    def patched(self, hidden_states):
        return hidden_states

    integration._reference.cache_clear()
    monkeypatch.setattr(modeling_llama.LlamaRMSNorm, "forward", patched)
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", lambda q, k, cos, sin, unsqueeze_dim=1: (q, k))
    why = reasons(swap_modules(make("Llama")))
    integration._reference.cache_clear()
    assert why["model.norm"] == "its forward is not that of LlamaRMSNorm"
    assert why["model.layers.0.self_attn"] == "its apply_rotary_pos_emb is not that of Llama"


def test_masks_of_another_implementation(make, batch):
    model, (tokens, mask) = make("Llama"), batch(2, 7)
    model.config._attn_implementation = "flash_attention_2"
    why = reasons(swap_modules(model))["model.layers.0.self_attn"]
    assert (
        why
        == "the model's attention implementation is 'flash_attention_2': model.set_attn_implementation('sdpa') first"
    )

    model = make("Llama")
    report = swap_modules(model)
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UnsupportedError, match=r"NTAttention \(layer 0\).*'flash_attention_2' now"):
        logits(model, tokens)
    model.config._attn_implementation = "eager"
    with pytest.raises(UnsupportedError, match="output_attentions=True asks for attention weights"):
        logits(model, tokens, output_attentions=True)
    report.undo()
    assert len(model(input_ids=tokens, output_attentions=True).attentions) == 2


def test_one_layer_of_a_model(make, batch):
    model, (tokens, mask) = make("Llama"), batch(2, 7)
    expected = logits(model, tokens, mask)
    report = swap_modules(model.model.layers[1])
    assert isinstance(model.model.layers[1].self_attn, NTAttention) and type(model.lm_head) is nn.Linear
    assert "self_attn" in {row.name for row in report.swapped}
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("name", (pytest.param("Llama", marks=pytest.mark.slow), *NAMES[1:]))
def test_compiled_whole_with_dynamic_sizes(make, batch, name):
    """Inductor compiles the Llama; the others stop at the graph."""
    model = make(name)
    batches = [batch(3, 11), batch(4, 17), batch(2, 9)]
    expected = [logits(model, *sizes) for sizes in batches]
    swap_modules(model)
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("inductor" if name == "Llama" else "eager")
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    frames = []
    # What Inductor kept of an earlier run would assume the strides that the operators gave then.
    with fresh_cache():
        for sizes, value in zip(batches, expected):
            assert error(logits(compiled, *sizes), value) < TOLERANCE[torch.float32]
            frames.append(counter.frame_count)
    assert frames[0] == frames[-1]
    targets = " ".join(str(node.target) for graph in counter.graphs for node in graph.graph.nodes)
    assert "ninetoothed.sdpa" in targets and "ninetoothed.rope" in targets and "scaled_dot_product" not in targets


@pytest.mark.parametrize("static", (False, True))
def test_compiled_decoding_makes_the_same_tokens(make, batch, static):
    from transformers import DynamicCache, StaticCache

    model, (tokens, mask) = make("Llama"), batch(3, 11)
    expected = generate(model, tokens, mask)
    swap_modules(model)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="eager")
    cache = StaticCache(config=model.config, max_cache_len=20) if static else DynamicCache(config=model.config)
    found, step = [], tokens
    with torch.no_grad():
        for index in range(expected.shape[1]):
            positions = mask.cumsum(-1)[:, -step.shape[1] :] - 1
            # A static cache is made where nothing is traced; from then on all is compiled.
            run = model if index == 0 else compiled
            output = run(
                input_ids=step, attention_mask=mask, past_key_values=cache, position_ids=positions.clamp(min=0)
            )
            step = output.logits[:, -1:].argmax(-1)
            found.append(step)
            mask = torch.cat((mask, torch.ones_like(step)), 1)
    assert torch.equal(torch.cat(found, 1), expected)
