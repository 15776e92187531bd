"""The decoding loop against `generate`, its choice of tokens against transformers', and its graphs."""

import pytest
import torch

from examples.decoding import UNCAPTURED, Decoder, Sampling, choose, largest, likely
from ninetoothed_ops import swap_modules
from tests.conftest import DEVICE

transformers = pytest.importorskip("transformers")

VOCABULARY = 200


@pytest.fixture(scope="module")
def model():
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
    others = {"num_hidden_layers": 2, "vocab_size": VOCABULARY, "initializer_range": 0.3}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**sizes, **others, bos_token_id=None, eos_token_id=None)
    return transformers.LlamaForCausalLM(config).eval().to(DEVICE)


@pytest.fixture
def swapped(model):
    report = swap_modules(model)
    yield model
    report.undo()


def prompt(batch, length=7, padded=True):
    """Random tokens; but for the first, sequences are padded at the left, each by another number of tokens."""
    ids = torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    if padded:
        for row in range(1, batch):
            mask[row, : row % length] = 0
    return {"input_ids": ids.to(DEVICE), "attention_mask": mask.to(DEVICE)}


def generated(model, inputs, count, **options):
    options = {"do_sample": False, "pad_token_id": 0, **options}
    found = model.generate(**inputs, max_new_tokens=count, **options)
    return found[:, inputs["input_ids"].shape[1] :].cpu()


@pytest.mark.parametrize("batch", (1, 2, 8, 32))
def test_tokens_are_those_of_generate(model, batch):
    inputs = prompt(batch)
    decoder = Decoder(model, batch, 7 + 20, window=16)
    expected = generated(model, inputs, 20)
    assert torch.equal(decoder.generate(inputs, 20), expected)
    # Again, in the memory that the first time left, and fewer: nothing of the first time is seen.
    assert torch.equal(decoder.generate(inputs, 5), expected[:, :5])
    assert torch.equal(decoder.generate(prompt(batch, 4), 5), generated(model, prompt(batch, 4), 5))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_tokens_of_swapped_modules(model, dtype):
    inputs = prompt(2)
    model.to(dtype)
    try:
        expected = generated(model, inputs, 8)
        report = swap_modules(model)
        found = Decoder(model, 2, 7 + 8, window=12).generate(inputs, 8)
        eager = generated(model, inputs, 8)
        report.undo()
        if dtype is torch.float32:
            assert torch.equal(found, expected) and torch.equal(found, eager)
        else:
            assert_best_up_to_ties(model, inputs, found)
    finally:
        model.to(torch.float32)


@torch.no_grad()
def assert_best_up_to_ties(model, inputs, tokens):
    ids = torch.cat((inputs["input_ids"], tokens.to(DEVICE)), 1)
    mask = torch.cat((inputs["attention_mask"], torch.ones_like(tokens, device=DEVICE)), 1)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits[:, -tokens.shape[1] - 1 : -1]
    short = logits.amax(-1) - logits.gather(-1, tokens.to(DEVICE)[..., None])[..., 0]
    assert (short <= 16 * torch.finfo(logits.dtype).eps * logits.abs().max()).all()


def test_ends(model):
    inputs = prompt(3)
    free = generated(model, inputs, 20)
    end, other = int(free[0, 4]), int(free[1, 9])
    decoder = Decoder(model, 3, 27, ends=(end, other), pad=3)
    expected = generated(model, inputs, 20, eos_token_id=[end, other], pad_token_id=3)
    assert torch.equal(decoder.generate(inputs, 20), expected) and (expected == 3).any()
    # All sequences end: so does the loop.
    one = prompt(1)
    assert torch.equal(Decoder(model, 1, 27, ends=(end,)).generate(one, 20), free[:1, :5])


@pytest.mark.parametrize("options", ({"top_k": 5}, {"top_p": 0.7}, {"top_k": 20, "top_p": 0.5}, {"top_p": 1e-9}, {}))
def test_likely_tokens_are_those_of_transformers(options):
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(2)) * 3
    expected = transformers.TemperatureLogitsWarper(0.7)(None, logits)
    if "top_k" in options:
        expected = transformers.TopKLogitsWarper(options["top_k"])(None, expected)
    if "top_p" in options:
        expected = transformers.TopPLogitsWarper(options["top_p"])(None, expected)
    torch.testing.assert_close(likely(logits, Sampling(0.7, **options)), expected)


def test_tokens_are_as_frequent_as_they_are_likely():
    logits, count = torch.tensor([[0.0, 1.0, 2.0, -1.0]]), 20000
    noise = torch.empty(count, 4).exponential_(generator=torch.Generator().manual_seed(3))
    sampling = Sampling(0.5, top_k=3)
    tokens = choose(logits.expand(count, 4), sampling, noise)
    frequencies = tokens.bincount(minlength=4) / count
    torch.testing.assert_close(frequencies, likely(logits, sampling).softmax(-1)[0], atol=0.015, rtol=0)
    assert frequencies[3] == 0


@pytest.mark.parametrize("columns", (1, 7, 200, 1024))
def test_the_first_of_the_largest(columns):
    rows = torch.randint(5, (40, columns), generator=torch.Generator().manual_seed(4)).float()
    rows[3, columns // 2] = float("nan")
    assert torch.equal(largest(rows), rows.argmax(-1))


def test_a_seed_gives_the_same_tokens(swapped):
    inputs = prompt(2)

    def tokens(seed):
        return Decoder(swapped, 2, 17, sampling=Sampling(1.0, seed=seed)).generate(inputs, 4)

    first = tokens(5)
    assert torch.equal(first, tokens(5)) and not torch.equal(first, tokens(6))


def test_tokens_come_while_others_are_made(model):
    steps = []

    def forward(**options):
        steps.append(options["input_ids"].tolist())
        return model(**options)

    decoder = Decoder(model, 1, 27, forward=forward)
    decoder.makes_graphs = False  # Their replays do not come by here.
    stream = decoder.stream(prompt(1), 10)
    seen = []
    for number, tokens in enumerate(stream):
        seen.append(tokens.tolist())
        # The first as soon as it is there; later the GPU is a step ahead of the host.
        assert len(steps) == (0 if number == 0 else min(number + 1, 9))
    assert steps == [[token] for token in seen[:-1]]


def test_attention_is_told_how_many_keys_there_are(swapped, monkeypatch):
    from ninetoothed_ops.modules import attention

    told, attend = [], attention._attend

    def observed(module, query, key, value, mask, is_causal, lengths, *args):
        told.append(None if lengths is None else lengths.tolist())
        return attend(module, query, key, value, mask, is_causal, lengths, *args)

    monkeypatch.setattr(attention, "_attend", observed)
    Decoder(swapped, 1, 27).generate(prompt(1), 4)
    # Two layers each; the prompt has none to leave out.
    assert told == [None] * 2 + [[8]] * 2 + [[9]] * 2 + [[10]] * 2


class Recorded:
    """Stands in for a graph: a replay is the step that was captured, for the window that it had then."""

    def __init__(self, decoder, window, log):
        self.step, self.log, self.window = Decoder._step.__get__(decoder), log, window

    def replay(self):
        self.log.append(self.window)
        self.step(self.window)


def test_each_window_has_one_graph(model, monkeypatch):
    inputs, captured, replayed = prompt(2), [], []
    decoder = Decoder(model, 2, 64, window=16)
    decoder.makes_graphs = True
    monkeypatch.setattr(
        decoder, "_captured", lambda window: (captured.append(window), Recorded(decoder, window, replayed))[1]
    )
    expected = generated(model, inputs, 30)
    assert torch.equal(decoder.generate(inputs, 30), expected)
    assert captured == [16, 32, 48]
    # 29 steps, for tokens 8 to 36: nine fill the first window, sixteen the second, four are in the third.
    assert [replayed.count(window) for window in captured] == [9 - UNCAPTURED, 16 - UNCAPTURED, 4 - UNCAPTURED]
    assert torch.equal(decoder.generate(inputs, 30), expected) and captured == [16, 32, 48]
    assert [replayed.count(window) for window in captured] == [18 - UNCAPTURED, 32 - UNCAPTURED, 8 - UNCAPTURED]


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE != "cuda", reason="captures CUDA graphs")
@pytest.mark.parametrize("sampling", (Sampling(), Sampling(0.8, top_k=20, top_p=0.9, seed=3)))
def test_graphs_give_the_tokens_of_steps_without(swapped, sampling):
    inputs = prompt(2)
    decoders = [Decoder(swapped, 2, 7 + 40, window=16, sampling=sampling) for _ in range(2)]
    decoders[1].makes_graphs = False
    expected = decoders[1].generate(inputs, 40)
    for _ in range(2):
        assert torch.equal(decoders[0].generate(inputs, 40), expected)
    assert set(decoders[0].graphs) == {16, 32, 48}


def test_mistakes_are_told(model):
    decoder = Decoder(model, 2, 64)
    with pytest.raises(ValueError, match="3 sequences, and the decoder is for 2"):
        next(decoder.stream(prompt(3), 1))
    with pytest.raises(ValueError, match="7 tokens in and 58 out: a decoder of length 64 has no room"):
        next(decoder.stream(prompt(2), 58))
    inputs = prompt(2)
    inputs["attention_mask"] = inputs["attention_mask"].flip(-1)
    with pytest.raises(ValueError, match="pad at the left"):
        next(decoder.stream(inputs, 1))


@pytest.mark.parametrize("attribute, value", {"_attn_implementation": "eager", "sliding_window": 8}.items())
def test_models_that_need_other_masks_are_refused(model, monkeypatch, attribute, value):
    config = transformers.LlamaConfig(**{**model.config.to_dict(), "num_hidden_layers": 1})
    other = transformers.LlamaForCausalLM(config)
    setattr(other.config, attribute, value)
    with pytest.raises(ValueError, match="the loop's masks are for"):
        Decoder(other, 1, 8)


@pytest.mark.parametrize(
    "options", ({"temperature": -1.0}, {"temperature": float("nan")}, {"top_k": 0}, {"top_p": 0.0})
)
def test_sampling_out_of_range(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Sampling(**options)
