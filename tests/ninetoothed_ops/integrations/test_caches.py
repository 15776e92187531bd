"""One token over a cache that tells where to write: rotation and write in one launch, bit for bit as apart."""

import copy
import functools
from unittest import mock

import pytest
import torch

from ninetoothed_ops.modules import attention, swap_modules
from ninetoothed_ops.modules.caches import kept
from tests.ninetoothed_ops.integrations.calls import DEVICE, NAMES, error, generate
from tests.ninetoothed_ops.recorder import Recorder

transformers = pytest.importorskip("transformers")
register_attention = pytest.importorskip("ninetoothed_ops.integrations.attention_interface").register_attention

FUSED = "ninetoothed::rope_into_cache"


def stepped(model, tokens, mask, cache, split=7):
    """The logits of each token after the prompt, one at a time, and how often each operator ran in these steps."""
    with torch.no_grad():
        model(input_ids=tokens[:, :split], attention_mask=mask[:, :split], past_key_values=cache)
        steps = []
        with Recorder() as recorder:
            for index in range(split, tokens.shape[1]):
                part = {"input_ids": tokens[:, index : index + 1], "attention_mask": mask[:, : index + 1]}
                steps.append(model(**part, past_key_values=cache).logits)
    return torch.cat(steps, 1), recorder.counts


def static(model, length=32):
    return transformers.StaticCache(config=model.config, max_cache_len=length)


@pytest.mark.parametrize("join", (False, True))
@pytest.mark.parametrize("name", (*NAMES, "Glm"))
def test_bit_for_bit(make, batch, monkeypatch, name, join):
    model, inputs = make(name), batch(3, 11)
    swap_modules(model, join=join)
    caches = static(model), static(model)
    found, counts = stepped(model, *inputs, caches[0])
    # Mistral's cache is one of a sliding window, which its own `update` writes.
    assert counts[FUSED] == (0 if name == "Mistral" else 4 * 2)
    assert not counts["aten::index_copy_"]
    monkeypatch.setattr(attention, "rotated_into", lambda *args: None)
    expected, counts = stepped(model, *inputs, caches[1])
    assert not counts[FUSED] and torch.equal(found, expected)
    for layer, other in zip(*(cache.layers for cache in caches)):
        assert torch.equal(layer.keys, other.keys) and torch.equal(layer.values, other.values)
        assert torch.equal(layer.cumulative_length, other.cumulative_length)


def test_joined_projections_without_bias(make, batch, monkeypatch):
    """One operator from the input to the cache, bit for bit on a CPU, whose half types have the product's epilogue."""
    model, inputs = make("Llama", dtype=torch.bfloat16, attention_bias=False), batch(3, 11)
    swap_modules(model, join=True)
    caches = static(model), static(model)
    found, counts = stepped(model, *inputs, caches[0])
    assert counts["ninetoothed::linear_rope_into_cache"] == 4 * 2 and not counts[FUSED]
    monkeypatch.setattr(attention, "projected_into", lambda *args: None)
    expected, counts = stepped(model, *inputs, caches[1])
    assert counts[FUSED] == 4 * 2 and (
        torch.equal(found, expected) if DEVICE == "cpu" else error(found, expected) < 0.1
    )
    for layer, other in zip(*(cache.layers for cache in caches)):
        assert error(layer.keys, other.keys) < 1e-1 and torch.equal(layer.cumulative_length, other.cumulative_length)


@pytest.mark.parametrize("name, join", (("Llama", True), ("Qwen3", False), ("Glm", False), ("Mistral", False)))
def test_the_first_tokens_of_a_dynamic_cache(make, batch, monkeypatch, name, join):
    """Bit for bit as apart, and the tokens behind them too; a sliding window is left to its own `update`."""
    model, (tokens, mask) = make(name), batch(3, 11)
    swap_modules(model, join=join)

    def run(cache):
        with torch.no_grad(), Recorder() as recorder:
            first = model(input_ids=tokens[:, :7], attention_mask=mask[:, :7], past_key_values=cache).logits
            then = model(input_ids=tokens[:, 7:], attention_mask=mask, past_key_values=cache).logits
        return torch.cat((first, then), 1), cache, recorder.counts

    found, cache, counts = run(transformers.DynamicCache(config=model.config))
    assert counts[FUSED] == (0 if name == "Mistral" else 2)
    monkeypatch.setattr(attention, "rotated_into", lambda *args: None)
    expected, other, counts = run(transformers.DynamicCache(config=model.config))
    assert not counts[FUSED] and torch.equal(found, expected)
    for layer, apart in zip(cache.layers, other.layers):
        assert torch.equal(layer.keys, apart.keys) and torch.equal(layer.values, apart.values)
        states = [
            {key: value for key, value in vars(each).items() if key not in ("keys", "values")}
            for each in (layer, apart)
        ]
        assert states[0] == states[1] and layer.get_seq_length() == 11


@pytest.mark.parametrize("name, rows", (("Llama", 1), ("Llama", 8), ("Qwen3", 2), ("Mistral", 8)))
def test_tokens_of_every_cache(make, batch, name, rows):
    """Eight tokens each, past the window of a sliding cache, with padding at the left."""
    model, inputs = make(name), batch(rows, 7)
    expected = [generate(model, *inputs, **options) for options in ({}, {"cache_implementation": "static"})]
    report = swap_modules(model, join=True)
    for options, tokens in zip(({}, {"cache_implementation": "static"}), expected):
        assert torch.equal(generate(model, *inputs, **options), tokens)
    report.undo()
    assert torch.equal(generate(model, *inputs), expected[0])


def other_update(cache):
    cache.update = cache.update


def other_layer_update(cache):
    layer = cache.layers[0]
    layer.update = layer.update


class Subclass(transformers.StaticCache):
    def update(self, *args, **kwargs):
        return super().update(*args, **kwargs)


def subclass(cache):
    cache.__class__ = Subclass


def patched(cache):
    cache.layers[0].__class__ = type("StaticLayer", (type(cache.layers[0]),), {})


@pytest.mark.parametrize("change", (other_update, other_layer_update, subclass, patched))
def test_a_cache_that_may_do_more_is_asked(make, batch, change):
    model, inputs = make("Llama"), batch(2, 9)
    swap_modules(model)
    expected, before = stepped(model, *inputs, static(model))
    cache = static(model)
    change(cache)
    found, counts = stepped(model, *inputs, cache)
    assert counts[FUSED] < before[FUSED] == 4 and torch.equal(found, expected)


class Told:
    """A cache of one's own, which tells where to write; each batch entry at another place."""

    def __init__(self, cache, slots):
        self.cache, self.slots, self.asked = cache, slots, []

    def update(self, key, value, layer, *args):
        return self.cache.update(key, value, layer, *args)

    def get_seq_length(self, *args):
        return 7

    def writable(self, layer, tokens):
        self.asked.append((layer, tokens))
        return self.cache.layers[layer].keys, self.cache.layers[layer].values, self.slots

    def get_mask_sizes(self, *args):
        return 32, 0


def test_a_cache_of_ones_own(make, batch):
    model, (tokens, mask) = make("Llama"), batch(2, 9)
    swap_modules(model)
    cache = static(model)
    with torch.no_grad():
        model(input_ids=tokens[:, :7], past_key_values=cache)
        visible = torch.arange(32, device=DEVICE)[None, None, None] < 9
        part = {"input_ids": tokens[:, 7:], "attention_mask": visible.expand(2, 1, 2, -1).clone()}
        part["attention_mask"][:, :, 0, 8] = False
        part["position_ids"] = torch.arange(7, 9, device=DEVICE)[None].expand(2, -1)
        other = copy.deepcopy(cache)
        told = Told(cache, torch.arange(7, 9, device=DEVICE))
        found = model(**part, past_key_values=told).logits
        expected = model(**part, past_key_values=other).logits
    assert told.asked == [(0, 2), (1, 2)] and torch.equal(found, expected)


def test_a_full_cache_and_another_batch_are_errors(make, batch):
    model, (tokens, mask) = make("Llama"), batch(3, 9)
    swap_modules(model)
    with torch.no_grad():
        cache = static(model, 7)
        model(input_ids=tokens[:, :7], past_key_values=cache)
        if DEVICE == "cpu":  # A GPU's token becomes NaN.
            with pytest.raises(IndexError):
                model(input_ids=tokens[:, 7:8], past_key_values=cache)
        cache = static(model)
        model(input_ids=tokens[:, :7], past_key_values=cache)
        with pytest.raises((RuntimeError, IndexError)):
            model(input_ids=tokens[:2, 7:8], past_key_values=cache)


def gradients_through(model, kind, tokens):
    """Those of a learned prefix, and of the weights that are learned, by tokens that follow one by one."""
    cache = static(model) if kind == "static" else transformers.DynamicCache(config=model.config)
    generator = torch.Generator().manual_seed(0)
    prefix = [torch.randn(2, 2, 3, 16, generator=generator).to(DEVICE).requires_grad_() for _ in range(2)]
    cache.update(*prefix, 0)
    logits = [model(input_ids=tokens[:, i : i + 1], past_key_values=cache).logits for i in range(2)]
    leaves = [*prefix, *(each for each in model.parameters() if each.requires_grad)]
    return torch.autograd.grad(torch.cat(logits, 1).square().mean(), leaves)


@pytest.mark.parametrize(
    "kind, is_frozen, way",
    (
        ("static", True, "joined"),
        ("static", False, "by name"),
        ("static", False, "compiled"),
        ("dynamic", True, "swapped"),
    ),
)
def test_gradients_through_a_cache(make, batch, kind, is_frozen, way):
    """Of a frozen model, one operator rotates and writes: only the cache has a gradient there."""
    (tokens, _), few = batch(2, 2), {"num_hidden_layers": 1, "attention_bias": False, "mlp_bias": False}
    model = make("Llama", **few).requires_grad_(not is_frozen)
    # "sdpa" may keep for its gradient the static cache that the next token is written to; "eager" repeats its heads.
    expected = gradients_through(make("Llama", "eager", **few).requires_grad_(not is_frozen), kind, tokens)
    if way == "by name":
        register_attention()
        model.set_attn_implementation("ninetoothed")
    else:
        swap_modules(model, join=way == "joined")
    with Recorder() as recorder:
        found = gradients_through(model, kind, tokens)
    assert recorder.counts["ninetoothed::sdpa_with_lse"] == 2
    if way == "compiled":
        torch._dynamo.reset()
        model.compile(fullgraph=True, backend="aot_eager")
        found = gradients_through(model, kind, tokens)
    for actual, wanted in zip(found, expected):
        assert error(actual, wanted) < 1e-4


def test_a_gradient_keeps_no_more_of_a_cache_than_is_read():
    query, cache = torch.ones(1, 2, 3, 4, requires_grad=True), torch.zeros(1, 2, 32, 4)
    cache[:, :, :3] = 1
    for each in kept(query, cache, cache, is_causal=True)[:2]:
        assert each.shape == query.shape and each.untyped_storage().nbytes() == query.nbytes
        assert each.data_ptr() != cache.data_ptr()


def test_compiled(make, batch):
    """In one graph, in which the operator writes into the cache itself."""
    model, inputs = make("Llama"), batch(2, 9)
    swap_modules(model)
    torch._dynamo.reset()
    graphs = []

    def noted(graph, _):
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph

    part = {"input_ids": inputs[0][:, 7:8], "position_ids": torch.full((2, 1), 7, device=DEVICE)}
    cache, other = static(model), static(make("Llama"))
    for each, held in ((model, cache), (make("Llama"), other)):
        with torch.no_grad():
            each(input_ids=inputs[0][:, :7], past_key_values=held)
    with torch.no_grad():
        found = torch.compile(model, backend=noted, fullgraph=True)(**part, past_key_values=cache).logits
        assert error(found, make("Llama")(**part, past_key_values=other).logits) < 1e-5
    (names,) = graphs
    assert sum("rope_into_cache" in name for name in names) == 2 and not any("index_copy" in name for name in names)
    assert error(cache.layers[1].keys, other.layers[1].keys) < 1e-5
    assert cache.layers[1].cumulative_length.item() == 8


# In "eager" our projections run alone, which are those of any model.
@pytest.mark.parametrize(
    "name, implementation, joins",
    (("Qwen3", "sdpa", (False, True)), ("Mistral", "sdpa", (True,)), ("Qwen3", "eager", (False,))),
)
def test_continuous_batching(make, name, implementation, joins):
    """Its pages are read by our attention where it is "sdpa"; that of others runs on our projections."""
    from transformers import ContinuousBatchingConfig, GenerationConfig

    model = make(name, implementation)
    options = GenerationConfig(max_new_tokens=4, do_sample=False, eos_token_id=None, pad_token_id=0)
    pages = ContinuousBatchingConfig(num_blocks=32, block_size=16, max_batch_tokens=64)
    prompts = [[5, 6, 7, 8, 1, 2, 4], [9, 10, 11], [3] * 9]

    def tokens():
        found = model.generate_batch(
            prompts, generation_config=options, continuous_batching_config=pages, progress_bar=False
        )
        return [each.generated_tokens for each in found.values()]

    expected = tokens()
    assert [len(each) for each in expected] == [4] * 3
    for join in joins:
        report = swap_modules(model, join=join)
        # Another thread makes the steps.
        with mock.patch.object(attention, "sdpa", wraps=attention.sdpa) as ours:
            assert tokens() == expected
        assert ours.called == (implementation == "sdpa")
        report.undo()


def test_a_cache_that_the_forward_replaced_has_another_name_for(make, batch):
    """As transformers 5.24 has; the old name is what a wrapper of its forwards makes the new one of."""
    from ninetoothed_ops.modules.substitute import substitute

    model, (tokens, _) = make("Llama"), batch(2, 8)
    module = model.model.layers[0].self_attn
    original = type(module)

    def renaming(forward):
        @functools.wraps(forward)
        def wrapper(*args, **kwargs):
            if "past_key_values" in kwargs:
                kwargs["cache"] = kwargs.pop("past_key_values")
            return forward(*args, **kwargs)

        return wrapper

    class Renamed(original):
        @renaming
        def forward(self, hidden_states, position_embeddings=None, attention_mask=None, cache=None, **kwargs):
            return original.forward(self, hidden_states, position_embeddings, attention_mask, cache, **kwargs)

    with torch.no_grad():
        states = model.model.embed_tokens(tokens)
        tables = model.model.rotary_emb(states, torch.arange(8, device=DEVICE)[None])
        results = []
        for cls, name, kernels in ((original, "", 0), (Renamed, "cache", 1), (Renamed, "past_key_values", 0)):
            module.__class__ = cls if not name else substitute(attention.NTAttention, cls)
            cache, parts = transformers.DynamicCache(config=model.config), []
            with Recorder() as recorder:
                for first, last in ((0, 5), (5, 8)):
                    cos, sin = (table[:, first:last] for table in tables)
                    mask = torch.ones(3, 8, dtype=torch.bool, device=DEVICE).tril(5) if first else None
                    given = (cache,) if not name else ()
                    named = {name: cache} if name else {}
                    parts.append(module(states[:, first:last], (cos, sin), mask, *given, **named)[0])
            assert cache.get_seq_length() == 8 and ("ninetoothed::sdpa" in recorder.counts) is bool(kernels)
            results.append(torch.cat(parts, 1))
    assert error(results[1], results[0]) < 1e-5 and error(results[2], results[0]) < 1e-5
