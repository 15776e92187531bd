"""Every mask means to attn_implementation="ninetoothed" what it means to a model's own attention."""

import pytest
import torch

from tests.ninetoothed_ops.integrations.calls import DEVICE, TOLERANCE, error, logits
from tests.ninetoothed_ops.integrations.conftest import SIZES
from tests.ninetoothed_ops.integrations.families import decoder, filled

transformers = pytest.importorskip("transformers")
attention_interface = pytest.importorskip("ninetoothed_ops.integrations.attention_interface")
attention_interface.register_attention()


def in_parts(model, tokens, parts):
    """Fill a cache by parts of a prompt: none has a mask."""
    cache, found = transformers.DynamicCache(config=model.config), []
    with torch.no_grad():
        for part in tokens.split(parts, dim=1):
            found.append(model(part, past_key_values=cache).logits)
    return torch.cat(found, 1)


def whole(model, tokens, kept, dtype):
    """Hand on a mask of four dimensions, by which each query sees one key after it, too."""
    seen = torch.ones(11, 11, device=DEVICE).tril(1).bool() & kept.bool()[:, None, None]
    mask = seen if dtype is torch.bool else torch.where(seen, 0.0, torch.finfo(dtype).min)
    with torch.no_grad():
        return model(tokens, attention_mask=mask).logits[kept.bool()]


# What a model is called with, and as what. "eager" adds a boolean mask: of these "sdpa" is the reference.
CALLS = {
    "one token": ("eager", lambda model, tokens, mask: logits(model, tokens[:, :1])),
    "no cache": ("eager", lambda model, tokens, mask: logits(model, tokens, use_cache=False)),
    "in parts": ("eager", lambda model, tokens, mask: in_parts(model, tokens, (4, 1, 6))),
    "right padding": ("eager", lambda model, tokens, mask: logits(model, tokens, mask.flip(-1))),
    "packed": (
        "eager",
        lambda model, tokens, mask: logits(
            model, tokens, position_ids=torch.tensor([[*range(4), *range(7)]], device=DEVICE), use_cache=False
        ),
    ),
    "numbers": ("eager", lambda model, tokens, mask: whole(model, tokens, mask, torch.float32)),
    "truth values": ("sdpa", lambda model, tokens, mask: whole(model, tokens, mask, torch.bool)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("family", ("glm", "gemma3_text"))
def test_calls(batch, family, call):
    reference, compute = CALLS[call]
    model, (tokens, mask) = decoder(family, reference), batch(3, 11)
    expected = compute(model, tokens, mask)
    model.set_attn_implementation("ninetoothed")
    assert error(compute(model, tokens, mask), expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("family", ("llama", "gemma3_text"))
def test_attention_to_both_sides(batch, family):
    """A decoder may be made to look ahead; of windows both halves count."""
    model, (tokens, mask) = decoder(family, "eager"), batch(2, 11)
    causal = logits(model, tokens)
    model.config.is_causal = False
    calls = (lambda: logits(model, tokens), lambda: logits(model, tokens, mask))
    expected = [call() for call in calls]
    model.set_attn_implementation("ninetoothed")
    assert all(error(call(), wanted) < TOLERANCE[torch.float32] for call, wanted in zip(calls, expected))
    assert error(expected[0], causal) > 1e-2


def test_windows_to_both_sides(batch):
    """ModernBERT's layers see so many tokens before and after, and padding in none."""
    torch.manual_seed(0)
    options = {"local_attention": 4, "global_attn_every_n_layers": 2, "pad_token_id": 0, "reference_compile": False}
    config = transformers.ModernBertConfig(**{**SIZES, **options, "cls_token_id": None, "sep_token_id": None})
    model, (tokens, mask) = filled(transformers.ModernBertModel(config)), batch(2, 11)
    found = []
    for name in ("eager", "ninetoothed"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            found.append([model(tokens, attention_mask=each).last_hidden_state for each in (None, mask)])
    assert error(found[1][0], found[0][0]) < TOLERANCE[torch.float32]
    assert error(found[1][1][mask.bool()], found[0][1][mask.bool()]) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("compiled", (False, True))
def test_a_mask_that_is_written_to(compiled):
    """It tells how many keys count no more: here a query sees one more."""
    options = {"batch_size": 1, "q_length": 2, "kv_length": 8, "kv_offset": 0, "device": DEVICE}
    mask = attention_interface.make_mask(q_offset=torch.tensor(2, device=DEVICE), **options)
    module = torch.nn.Module()
    query, key = (torch.randn(1, 1, length, 16, device=DEVICE) for length in (2, 8))

    def attended(mask):
        found = []
        for _ in range(2):
            found.append(attention_interface.attend(module, query, key, key, mask)[0].transpose(1, 2))
            found.append(torch.nn.functional.scaled_dot_product_attention(query, key, key, mask))
            mask[..., 6] = True
        return found

    if compiled:
        torch._dynamo.reset()
        attended = torch.compile(attended, backend="aot_eager", fullgraph=True)
    first, expected, second, changed = attended(mask)
    assert error(first, expected) < TOLERANCE[torch.float32] and error(second, changed) < TOLERANCE[torch.float32]


# Attention that says nothing of causality; that adds its masks, and does not look its function up; some of each.
SERIES = {"prediction_length": 6, "context_length": 12, "lags_sequence": [1, 2], "num_time_features": 1}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "d_model": 64}
WITHOUT_BACKENDS = {
    "align_text_model": ("AlignTextModel", {}),
    "bloom": ("BloomModel", {"n_layer": 2, "n_head": 4}),
    "informer": ("InformerModel", {**SERIES, **HEADS}),
}


@pytest.mark.parametrize(("family", "compiled"), (*((family, False) for family in WITHOUT_BACKENDS), ("bloom", True)))
def test_families_without_backends(batch, family, compiled):
    name, options = WITHOUT_BACKENDS[family]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **{**SIZES, **options})
    model, (tokens, mask) = filled(getattr(transformers, name)._from_config(config)), batch(2, 7)
    calls = [{"input_ids": tokens}, {"input_ids": tokens, "attention_mask": mask}]
    if family == "informer":
        past, ahead = torch.randn(2, 14, device=DEVICE), torch.randn(2, 6, device=DEVICE)
        times = {"past_time_features": past[..., None], "future_time_features": ahead[..., None]}
        calls = [{"past_values": past, "past_observed_mask": past > -9, "future_values": ahead, **times}]
    found = []
    for each in ("eager", "ninetoothed"):
        config._attn_implementation = each
        torch._dynamo.reset()
        run = torch.compile(model, backend="eager") if compiled and each == "ninetoothed" else model
        torch.manual_seed(0)  # Informer draws the keys that it looks at.
        with torch.no_grad():
            found.append([run(**call).last_hidden_state for call in calls])
    for call, expected, actual in zip(calls, *found):
        kept = call.get("attention_mask", torch.ones(actual.shape[:2], device=DEVICE)).bool()
        assert error(actual[kept], expected[kept]) < TOLERANCE[torch.float32]


def test_which_families_read_numbers():
    """DeepSeek 4 joins its mask with another; gpt-oss hands it on as it is."""
    masks = pytest.importorskip("ninetoothed_ops.integrations.masks")
    for name, expected in {"Bloom": True, "DeepseekV4": True, "GptOss": False, "Llama": False, "Bert": False}.items():
        assert (
            getattr(transformers, f"{name}Model")
            and masks.reads_numbers(getattr(transformers, f"{name}Config")) == expected
        )
    assert not masks.reads_numbers(type(None))
    # A user's own config, of another file.
    assert masks.reads_numbers(type("OwnConfig", (transformers.BloomConfig,), {"__module__": __name__}))


def test_a_part_that_reads_numbers():
    """The order of reading adds its mask; its class has the config of the whole, whose own attention does not."""
    masks = pytest.importorskip("ninetoothed_ops.integrations.masks")
    config = transformers.PPDocLayoutV2Config()
    assert transformers.PPDocLayoutV2Model and not masks.reads_numbers(type(config))
    part = transformers.models.pp_doclayout_v2.modeling_pp_doclayout_v2.PPDocLayoutV2ReadingOrder
    # From transformers 5.24 on it runs on "sdpa".
    assert masks.reads_numbers(type(config.reading_order_config)) != part._supports_sdpa
