"""Packed sequences: a model gives each what it gives it alone, forward and gradient, and reads no mask for it."""

import pytest
import torch

from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed_ops.modules import packed, swap_modules
from tests.conftest import DEVICE

transformers = pytest.importorskip("transformers")
attention_interface = pytest.importorskip("ninetoothed_ops.integrations.attention_interface")
attention_interface.register_attention()

LENGTHS = (5, 1, 9, 4)
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": 50}


def model_of(family="llama", implementation="sdpa", is_swapped=False, **options):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, num_hidden_layers=2, **SIZES, **IDS, **options)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().to(DEVICE)
    model.set_attn_implementation(implementation)
    if is_swapped:
        swap_modules(model)
    return model


def tokens(lengths=LENGTHS):
    return torch.arange(3, 3 + sum(lengths), device=DEVICE)[None] % 50


def positions(lengths=LENGTHS):
    return {"position_ids": torch.cat([torch.arange(each, device=DEVICE) for each in lengths])[None]}


def told(lengths=LENGTHS):
    begins = torch.tensor([0, *lengths], device=DEVICE).cumsum(0).to(torch.int32)
    longest = max(lengths)
    return {"cu_seq_lens_q": begins, "cu_seq_lens_k": begins, "max_length_q": longest, "max_length_k": longest}


def with_gradient(model, call):
    model.zero_grad()
    logits = call(model)
    (logits * torch.linspace(-1, 1, logits.numel(), device=DEVICE).view(logits.shape)).sum().backward()
    return logits.detach(), torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])


def alone(model, lengths=LENGTHS):
    parts = tokens(lengths).split(lengths, 1)
    return with_gradient(model, lambda model: torch.cat([model(each, use_cache=False).logits for each in parts], 1))


@pytest.fixture
def jagged(monkeypatch):
    """Where packed sequences were computed: by the kernels for jagged tensors, or under a mask."""
    calls = []
    for name in ("attend", "apart"):
        function = getattr(packed.Packed, name)
        monkeypatch.setattr(
            packed.Packed, name, lambda *args, name=name, function=function: calls.append(name) or function(*args)
        )
    return calls


@pytest.mark.parametrize("implementation", ("sdpa", "ninetoothed"))
@pytest.mark.parametrize(
    "given",
    (
        {**positions(), "use_cache": False},
        {**positions(), "use_cache": True},
        {**positions(), **told(), "use_cache": False},
        {**positions(), **told(), "use_cache": True},
    ),
    ids=("positions", "positions-cache", "both", "both-cache"),
)
def test_each_sequence_is_computed_alone(implementation, given, jagged):
    expected = alone(model_of())
    model = model_of(implementation=implementation, is_swapped=implementation == "sdpa")
    found = with_gradient(model, lambda model: model(tokens(), **given).logits)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert jagged == ["attend"] * 2


@pytest.mark.parametrize("implementation", ("sdpa", "ninetoothed"))
@pytest.mark.parametrize("window", (1, 4, 9))
@pytest.mark.parametrize("is_told", (False, True))
def test_each_sequence_is_computed_alone_within_a_window(implementation, window, is_told, jagged):
    expected = alone(model_of("mistral", "eager", sliding_window=window))
    model = model_of("mistral", implementation, implementation == "sdpa", sliding_window=window)
    given = {**positions(), **(told() if is_told else {}), "use_cache": False}
    found = with_gradient(model, lambda model: model(tokens(), **given).logits)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert jagged == ["attend"] * 2


@pytest.mark.parametrize(
    "family, implementation, options",
    (
        ("mistral", "eager", {"sliding_window": 4}),
        ("gemma2", "ninetoothed", {"sliding_window": 4}),
    ),
)
@pytest.mark.parametrize("is_cached", (False, True))
def test_what_the_kernels_lack_is_computed_under_a_mask(family, implementation, options, is_cached, jagged):
    expected = alone(model_of(family, "eager", **options))
    model = model_of(family, implementation, family == "mistral", **options)
    given = {**positions(), **told(), "use_cache": is_cached}
    found = with_gradient(model, lambda model: model(tokens(), **given).logits)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert jagged == ["apart"] * 2


def test_dropout_keeps_sequences_apart():
    """The first token of a sequence sees itself alone: with what it keeps, others have no part."""
    model = model_of(is_swapped=True, attention_dropout=0.5).train()
    given = {**positions(), **told(), "use_cache": False}
    torch.manual_seed(0)
    first = model(tokens(), **given).logits
    changed = tokens()
    changed[0, :6] = 7
    torch.manual_seed(0)
    assert torch.equal(model(changed, **given).logits[0, 6:], first[0, 6:])


def test_masks_and_positions_of_ones_own_mean_what_they_meant(jagged):
    """A mask that says another thing is read; single sequences, and positions that jump, are not packed."""
    model, plain = model_of(is_swapped=True), model_of()
    tree = torch.ones(19, 19, dtype=torch.bool, device=DEVICE).tril()[None, None].clone()
    tree[..., 7, 2] = False
    jumps = torch.arange(19, device=DEVICE)[None].clone()
    jumps[0, 9:] += 4
    for given in ({"attention_mask": tree, **positions()}, {"position_ids": jumps}, {"position_ids": jumps[:, :1] + 1}):
        ids = tokens()[:, : given["position_ids"].shape[1]]
        with torch.no_grad():
            torch.testing.assert_close(model(ids, **given).logits, plain(ids, **given).logits, rtol=1e-4, atol=1e-5)
    assert not jagged


def test_what_is_known_of_a_tensor_is_not_kept_when_it_is_written_to():
    model, given = model_of(is_swapped=True), told((5, 14))
    with torch.no_grad():
        for lengths in ((5, 14), (12, 7)):
            given["cu_seq_lens_q"].copy_(told(lengths)["cu_seq_lens_q"])
            given["max_length_q"] = 3  # It is not relied on.
            given |= positions(lengths)
            parts = tokens().split(lengths, 1)
            wanted = torch.cat([model(each).logits for each in parts], 1)
            torch.testing.assert_close(model(tokens(), **given).logits, wanted, rtol=1e-4, atol=1e-5)


def test_in_a_graph_and_in_inference_mode():
    model = model_of(is_swapped=True)
    given = {**positions(), **told(), "use_cache": True}
    expected, _ = alone(model_of())
    with torch.inference_mode():
        torch.testing.assert_close(model(tokens(), **given).logits, expected, rtol=1e-4, atol=1e-5)
        inside = {**positions(), "use_cache": False}
        torch.testing.assert_close(model(tokens(), **inside).logits, expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(tokens(), **given).logits, expected, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_is_an_error():
    model, given = model_of(is_swapped=True), {**positions(), **told()}
    with pytest.raises(ArgumentError, match=r"cu_seq_lens_q is \[0, 5, 9\], and cu_seq_lens_k the same, for 19 tokens"):
        model(tokens(), **told((5, 4)))
    with pytest.raises(ArgumentError, match="cu_seq_lens_k another"):
        model(tokens(), **{**given, "cu_seq_lens_k": told((9, 10))["cu_seq_lens_q"]})
    with pytest.raises(UnsupportedError, match="one row of tokens.*2 rows of 19 tokens"):
        model(tokens().expand(2, -1), **told())
