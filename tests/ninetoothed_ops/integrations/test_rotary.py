"""Rotary embeddings of the families, each recognised by what it computes, on `ninetoothed.rope`."""

import copy
import functools
import inspect
import pickle

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from ninetoothed.errors import ArgumentTypeError
from ninetoothed_ops.modules import NTAttention, NTRotary, swap_modules
from ninetoothed_ops.modules.rotary import Rotary
from ninetoothed_ops.modules.rotary_module import rotates
from ninetoothed_ops.modules.substitute import substitute
from tests.ninetoothed_ops.integrations.calls import DEVICE, error, generate, logits, reasons
from tests.ninetoothed_ops.integrations.conftest import SIZES
from tests.ninetoothed_ops.integrations.test_rotary_functions import function
from tests.ninetoothed_ops.integrations.test_transformers import Recorder

pytest.importorskip("transformers")

LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.75,
    "original_max_position_embeddings": 8,
    "factor": 16.0,
    "short_factor": [1.0 + 0.1 * i for i in range(6)],
    "long_factor": [2.0 + 0.3 * i for i in range(6)],
}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
LATENT = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    "head_dim": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 0,
    "moe_intermediate_size": 32,
    "num_key_value_heads": 4,
}
PART = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
# What is not as in the other tests, and what of the rotary embedding is that family's own.
FAMILIES = {
    "Cohere": ({"use_qk_norm": True}, Rotary(interleaved=True, keeps_type=True)),
    "Cohere2": ({"sliding_window": 5}, Rotary(interleaved=True, keeps_type=True)),
    "DeepseekV3": (LATENT, Rotary(interleaved=True, interleaved_output=False, columns="doubled")),
    "Ernie4_5": ({}, Rotary(interleaved=True, columns="doubled", keeps_type=True)),
    "GPTJ": ({"rotary_dim": 8, "n_embd": 64, "n_layer": 1, "n_head": 4}, Rotary(interleaved=True, columns="halved")),
    "GPTNeoX": (PART, Rotary(rotates="first")),
    "GPTNeoXJapanese": ({}, Rotary()),
    "Gemma3": ({"query_pre_attn_scalar": 16, "sliding_window": 5}, Rotary()),
    "Glm": (PART, Rotary(interleaved=True, columns="doubled", rotates="first")),
    "GptOss": ({"num_local_experts": 4, "num_experts_per_tok": 2}, Rotary(columns="halved")),
    "NanoChat": ({}, Rotary(is_reversed=True)),
    "Olmo2": ({}, Rotary(keeps_type=True)),
    "Phi": (PART, Rotary()),
    "Phi3": ({"rope_parameters": LONGROPE, "original_max_position_embeddings": 8}, Rotary(rotates="first")),
}
EAGER = ("GPTJ", "GPTNeoXJapanese", "GptOss")


@pytest.fixture
def family(make, monkeypatch):
    """family(name, **config): a small model."""
    import transformers

    monkeypatch.setattr(transformers, "Gemma3Config", transformers.Gemma3TextConfig)

    def build(name, **options):
        return make(
            name, "eager" if name in EAGER else "sdpa", **{"num_hidden_layers": 1, **FAMILIES[name][0], **options}
        )

    return build


def swapped(model):
    """Swap what rotates, and nothing else."""
    report = swap_modules(model, lambda module, name: rotates(type(module)))
    assert report.swapped
    return report


@pytest.mark.parametrize("name", FAMILIES)
def test_same_logits_and_tokens(family, batch, name):
    model, (tokens, mask) = family(name), batch(2, 11)
    calls = (lambda: logits(model, tokens, mask), lambda: generate(model, tokens, torch.ones_like(mask), 3))
    before = [call() for call in calls]
    report = swapped(model)
    cls = type(next(each for each in model.modules() if isinstance(each, report.swapped[0].new)))
    form = cls.rotary if issubclass(cls, NTAttention) else next(iter(cls.rotary_functions.values())).rotary
    assert form == FAMILIES[name][1] and issubclass(cls, (NTAttention, NTRotary))
    with Recorder() as recorder:
        after = [call() for call in calls]
    assert error(after[0], before[0]) < 1e-5 and torch.equal(after[1], before[1])
    assert {"ninetoothed::rope", "ninetoothed::rope_pair"} & set(recorder.names)
    report.undo()
    assert torch.equal(calls[0](), before[0]) and not any(isinstance(each, NTRotary) for each in model.modules())


def test_tables_that_change_with_the_length(family, batch):
    """Of the tokens that the model was trained for, and of more, for which longrope has other factors."""
    model = family("Phi3")
    short, long = (batch(1, length)[0] for length in (6, 20))
    before = [logits(model, tokens) for tokens in (short, long, short)]
    swapped(model)
    for tokens, expected in zip((short, long, short), before):
        assert error(logits(model, tokens), expected) < 1e-5
    assert model.model.rotary_emb.attention_scaling != 1


@pytest.mark.parametrize("sections", (True, False))
def test_positions_in_time_height_and_width(sections):
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLTextModel
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLTextConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel

    torch.manual_seed(0)
    sizes = {**SIZES, "rope_parameters": {**MROPE, **({} if sections else {"mrope_interleaved": True})}}
    model = Qwen2VLTextModel(Qwen2VLTextConfig(**sizes)) if sections else Qwen3VLTextModel(Qwen3VLTextConfig(**sizes))
    model = model.eval().to(DEVICE)
    tokens, positions = torch.arange(1, 15).view(2, 7).to(DEVICE), torch.randint(0, 9, (3, 2, 7)).to(DEVICE)

    def call(positions):
        with torch.no_grad():
            return model(input_ids=tokens, position_ids=positions, use_cache=False).last_hidden_state

    expected, flat = call(positions), call(positions[:1].expand(3, -1, -1))
    assert error(expected, flat) > 1e-4
    swapped(model)
    assert error(call(positions), expected) < 1e-5 and error(call(positions[:1].expand(3, -1, -1)), flat) < 1e-5


def test_trains_under_autocast(family, batch):
    model, (tokens, _) = family("Olmo2"), batch(2, 7)

    def gradients():
        model.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        return [each.grad.clone() for each in model.parameters() if each.grad is not None]

    expected = gradients()
    swapped(model)
    assert all(error(*pair) < 0.1 for pair in zip(gradients(), expected))


def test_a_forward_that_is_decorated_in_its_file():
    """As the indexers of sparse attention are, by `torch.no_grad`, which the forward made anew has, too."""
    from transformers.models.deepseek_v32.modeling_deepseek_v32 import DeepseekV32Indexer

    made = substitute(NTRotary, DeepseekV32Indexer).forward
    codes = [each.__code__ for each in (DeepseekV32Indexer.forward, made.__wrapped__)]
    assert codes[0] is codes[1] and inspect.unwrap(made).__code__.co_name == "forward"


def test_no_file_and_no_other_model_changes(family, batch):
    from transformers.models.gpt_neox import modeling_gpt_neox

    model, other, (tokens, _) = family("GPTNeoX"), family("GPTNeoX"), batch(2, 7)
    before, file = logits(model, tokens), dict(vars(modeling_gpt_neox))
    forward = modeling_gpt_neox.GPTNeoXAttention.forward
    report = swapped(model)
    assert vars(modeling_gpt_neox) == file and modeling_gpt_neox.GPTNeoXAttention.forward is forward
    assert type(other.gpt_neox.layers[0].attention) is modeling_gpt_neox.GPTNeoXAttention
    assert "its attention is of no known kind" in str(report)
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for each in copies:
        assert isinstance(each.gpt_neox.layers[0].attention, NTRotary)
        assert error(logits(each, tokens), before) < 1e-5
    with pytest.raises(ArgumentTypeError, match="swap_modules"):
        NTRotary()


def test_a_forward_that_is_wrapped(family, batch, monkeypatch):
    from transformers.models.gpt_neox import modeling_gpt_neox

    cls, (tokens, _) = modeling_gpt_neox.GPTNeoXAttention, batch(2, 7)
    model, forward = family("GPTNeoX"), cls.forward
    before = logits(model, tokens)

    @functools.wraps(forward)
    def doubled(self, *args, **kwargs):
        output, weights = forward(self, *args, **kwargs)
        return output * 2, weights

    monkeypatch.setattr(cls, "forward", doubled)
    expected = logits(model, tokens)
    swapped(model)
    with Recorder() as recorder:
        assert error(logits(model, tokens), expected) < 1e-5 < error(expected, before)
    assert "ninetoothed::rope_pair" in recorder.names
    # What calls the forward by another name than its own closure's cannot be made anew.
    hidden = [forward]
    monkeypatch.setattr(cls, "forward", functools.wraps(forward)(lambda *args, **kwargs: hidden[0](*args, **kwargs)))
    reason = reasons(swap_modules(family("GPTNeoX")))["gpt_neox.layers.0.attention"]
    assert reason == "its forward is wrapped in a function that calls it in a way of its own"


def test_a_forward_that_is_replaced_between_swaps(monkeypatch):
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention
    from transformers.models.phi import modeling_phi

    first = substitute(NTRotary, GPTNeoXAttention)
    with monkeypatch.context() as patch:
        patch.setattr(GPTNeoXAttention, "forward", modeling_phi.PhiAttention.forward)
        replaced = inspect.unwrap(substitute(NTRotary, GPTNeoXAttention).forward)
        assert replaced.__code__.co_filename == modeling_phi.__file__
    assert substitute(NTRotary, GPTNeoXAttention) is first


def test_a_helper_that_is_patched(family, batch, monkeypatch):
    from transformers.models.gpt_neox import modeling_gpt_neox

    model, (tokens, _) = family("GPTNeoX"), batch(2, 7)
    report = swapped(model)
    before = logits(model, tokens)
    monkeypatch.setattr(modeling_gpt_neox, "rotate_half", lambda states: states * 0)
    found = logits(model, tokens)
    report.undo()
    expected = logits(model, tokens)
    assert error(found, expected) < 1e-5 < error(expected, before)
    assert "rotates in a way of its own" in function("gpt_neox")[1]


def test_compiled(family, batch):
    model, (tokens, _) = family("Phi"), batch(2, 7)
    expected = logits(model, tokens, use_cache=False)
    swapped(model)
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    assert error(logits(compiled, tokens, use_cache=False), expected) < 1e-5
    targets = [str(node.target) for graph in counter.graphs for node in graph.graph.nodes]
    assert sum("ninetoothed.rope_pair" in target for target in targets) == 1
