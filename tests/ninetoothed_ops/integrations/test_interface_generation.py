"""Families generate by attn_implementation="ninetoothed" what they generate by their own attention, in every way."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._python_dispatch import TorchDispatchMode

from tests.ninetoothed_ops.integrations.calls import DEVICE, TOLERANCE, error, generate
from tests.ninetoothed_ops.integrations.conftest import SIZES
from tests.ninetoothed_ops.integrations.families import WINDOW, attention_operators, decoder, filled

transformers = pytest.importorskip("transformers")
attention_interface = pytest.importorskip("ninetoothed_ops.integrations.attention_interface")
attention_interface.register_attention()

# On a GPU `generate` would compile each of these.
STATIC = {"cache_implementation": "static", "disable_compile": True}
# Transformers has no assisted decoding over windows.
WAYS = {
    "glm": ({"assistant_model": None},),
    "gemma3_text": (
        {"num_beams": 3, "num_return_sequences": 2},
        {"num_beams": 2, **STATIC},
        {"use_cache": False},
        {"prompt_lookup_num_tokens": 3},
    ),
    "phi3": ({}, STATIC),
    "gpt_oss": (STATIC,),
}
SPEECH = {"num_mel_bins": 8, "d_model": 64, "max_source_positions": 6, "encoder_layers": 1, "decoder_layers": 1}


class Lengths(TorchDispatchMode):
    """The lengths that our attention is told, and how many keys it is given, call by call."""

    def __init__(self):
        super().__init__()
        self.told = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.ninetoothed.sdpa.default:
            lengths = args[6] if len(args) > 6 else (kwargs or {}).get("lengths")
            self.told.append((args[1].shape[2], None if lengths is None else lengths.expand(len(args[0])).tolist()))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("family", WAYS)
def test_ways_to_generate(batch, family):
    """Left padding, windows of fewer tokens than the prompt's in every layer or in every second, and sinks."""
    model = decoder(family, "eager", **({"num_local_experts": 4, **WINDOW} if family == "gpt_oss" else {}))
    assistant, inputs = decoder(family, "eager", intermediate_size=64), batch(3, 11)
    for way in WAYS[family]:
        # These know no batches.
        alone = way.keys() & {"prompt_lookup_num_tokens", "assistant_model"}
        given = [each[:1] for each in inputs] if alone else inputs
        options, found = {**way, **({"assistant_model": assistant} if "assistant_model" in way else {})}, []
        for name in ("eager", "ninetoothed"):
            model.set_attn_implementation(name)
            assistant.set_attn_implementation(name)
            found.append(generate(model, *given, count=3, **options))
        assert torch.equal(*found), way


def stepped(model, tokens, mask, cache, parts):
    """Call a model part by part of the tokens; give the logits of all, and the lengths that attention was told."""
    found, first = [], 0
    with torch.no_grad(), Lengths() as lengths:
        for part in tokens.split(parts, dim=1):
            kept = None if mask is None else mask[:, : first + part.shape[1]]
            position_ids = torch.arange(first, first + part.shape[1], device=DEVICE)[None]
            found.append(model(part, attention_mask=kept, past_key_values=cache, position_ids=position_ids).logits)
            first += part.shape[1]
    return torch.cat(found, 1), lengths.told


@pytest.mark.parametrize("padded", (True, False))
def test_a_static_cache_is_read_as_far_as_it_is_written(batch, padded):
    model, (tokens, mask) = decoder("glm", "eager"), batch(3, 9)
    kept, mask = mask.bool() | (not padded), mask if padded else None
    expected, _ = stepped(model, tokens, mask, transformers.DynamicCache(config=model.config), (9,))
    model.set_attn_implementation("ninetoothed")
    cache = transformers.StaticCache(config=model.config, max_cache_len=32)
    found, told = stepped(model, tokens, mask, cache, (5, 1, 2, 1))
    first = [(32, [5] * 3)] if padded else [(5, None)]
    assert told == [each for each in (*first, (32, [6] * 3), (32, [8] * 3), (32, [9] * 3)) for _ in range(2)]
    assert error(found[kept], expected[kept]) < TOLERANCE[torch.float32]


def test_a_sliding_cache_is_read_as_far_as_it_is_written(batch):
    """The window holds five; from then on all of it is seen."""
    model, (tokens, mask) = decoder("gemma3_text", "eager"), batch(2, 7)
    dynamic = transformers.DynamicCache(config=model.config)
    expected, _ = stepped(model, tokens, mask, dynamic, (7,))
    model.set_attn_implementation("ninetoothed")
    cache = transformers.StaticCache(config=model.config, max_cache_len=16)
    found, told = stepped(model, tokens, mask, cache, (3, 1, 1, 1, 1))
    assert told[::2] == [(5, [3, 3]), (5, [4, 4]), (5, None), (5, None), (5, None)]
    assert told[1::2] == [(16, [length] * 2) for length in (3, 4, 5, 6, 7)]
    assert error(found[mask.bool()], expected[mask.bool()]) < TOLERANCE[torch.float32]


def test_a_mask_of_ones_own_over_a_static_cache(batch):
    """It may let a query see what was never written, and a later call what an earlier did not."""
    model, (tokens, _) = decoder("glm", "eager"), batch(2, 7)
    seen = torch.ones(7, 7, dtype=torch.bool, device=DEVICE).tril()
    whole = torch.nn.functional.pad(seen, (0, 9), value=True)[None, None].expand(2, -1, -1, -1)
    found = []
    for name, mask in (("eager", torch.where(whole, 0.0, torch.finfo(torch.float32).min)), ("ninetoothed", whole)):
        model.set_attn_implementation(name)
        cache = transformers.StaticCache(config=model.config, max_cache_len=16)
        with torch.no_grad(), Lengths() as lengths:
            found.append(model(tokens, attention_mask=mask, past_key_values=cache).logits)
    assert lengths.told == [(16, None)] * 2 and error(*reversed(found)) < TOLERANCE[torch.float32]


def test_compiled_by_generate(batch):
    """Transformers compiles the steps over a static cache; on a CPU only if it is told so."""
    model, (tokens, mask), graphs = decoder("gemma3_text", "eager"), batch(2, 7), []
    expected = generate(model, tokens, mask, count=4)
    model.set_attn_implementation("ninetoothed")

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    config = transformers.CompileConfig(fullgraph=True, backend=backend, mode=None)
    config._compile_all_devices = True
    options = {"compile_config": config, "cache_implementation": "static"}
    assert torch.equal(generate(model, tokens, mask, count=4, **options), expected)
    for graph in graphs:
        calls = [node.args for node in graph.graph.nodes if "ninetoothed.sdpa" in str(node.target)]
        # The window is full, so that one layer of two is told.
        assert [len(args) > 6 and args[6] is not None for args in calls] == [False, True]
    assert graphs


def test_compiled_whole_over_a_static_cache(batch):
    """A prompt and three steps: masks and their lengths are made in the graphs."""
    model, (tokens, mask) = decoder("glm", "eager"), batch(2, 9)
    dynamic = transformers.DynamicCache(config=model.config)
    expected, _ = stepped(model, tokens, mask, dynamic, (9,))
    model.set_attn_implementation("ninetoothed")
    torch._dynamo.reset()
    cache = transformers.StaticCache(config=model.config, max_cache_len=16)
    first, _ = stepped(model, tokens[:, :6], mask[:, :6], cache, (6,))
    counter, found = CompileCounterWithBackend("eager"), [first]
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    with torch.no_grad():
        for index in range(6, 9):
            position_ids, kept = torch.full((1, 1), index, device=DEVICE), mask[:, : index + 1].clone()
            call = {"attention_mask": kept, "position_ids": position_ids, "past_key_values": cache}
            found.append(compiled(tokens[:, index : index + 1].clone(), **call).logits)
    calls = [node for graph in counter.graphs for node in graph.graph.nodes if "ninetoothed.sdpa" in str(node.target)]
    assert counter.frame_count == 1 and all(isinstance(node.args[6], torch.fx.Node) for node in calls)
    found = torch.cat(found, 1)
    assert error(found[mask.bool()], expected[mask.bool()]) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("family", ("whisper", "t5"))
def test_encoders_with_decoders(batch, family):
    """Caches of self-attention and of cross-attention, which a static one makes as long as the encoder's states."""
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_start_token_id": 1}
    text = {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 1, "num_heads": 4}
    config = {**SIZES, **heads, **(SPEECH if family == "whisper" else text)}
    auto = transformers.AutoModelForSpeechSeq2Seq if family == "whisper" else transformers.AutoModelForSeq2SeqLM
    models = []
    for name in ("eager", "ninetoothed"):
        torch.manual_seed(0)
        made = auto.from_config(transformers.AutoConfig.for_model(family, **config), attn_implementation=name)
        models.append(filled(made))
    inputs = dict(zip(("input_ids", "attention_mask"), batch(2, 7)))
    if family == "whisper":
        inputs = {"input_features": torch.randn(2, 8, 12, generator=torch.Generator().manual_seed(1)).to(DEVICE)}
    told = {"max_new_tokens": 3, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    for options in ({}, STATIC, {"num_beams": 2}):
        found = [model.generate(**inputs, **told, **options) for model in models]
        assert torch.equal(*(each.sequences for each in found))
        assert error(*(torch.stack(each.logits) for each in found)) < TOLERANCE[torch.float32]
    ours, theirs = attention_operators(lambda: models[1].generate(**inputs, max_new_tokens=1, do_sample=False))
    assert ours >= 3 and theirs == 0
