"""A decoding loop for causal language models of transformers: on a GPU one CUDA graph a step.

    decoder = Decoder(model, batch=2, length=512)
    for tokens in decoder.stream(tokenizer(["Nine", "Teeth"], return_tensors="pt", padding=True), count=100):
        print(tokens)  # one token of each sequence, on the CPU

A step of a large model is some hundreds of short kernels, and launching them one by one takes the host longer than
running them takes the GPU. The loop therefore keeps all that a step reads and writes in tensors that stay where they
are, and replays one graph that holds the whole step: the model, the choice of the token, and the counters. Nothing
in it knows whether the model's modules were swapped.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

# Attention reads the cache up to a multiple of this many tokens: a graph has fixed shapes, and there is one for each.
WINDOW = 256
# So many steps at each window run without a graph first: kernels are compiled and loaded in them.
UNCAPTURED = 3
ALIGNMENT = 64


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen: the best one at temperature 0, else by chance, seeded, among the likeliest.

    `top_k` keeps so many tokens, `top_p` the fewest whose probabilities sum to at least so much, the best always.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature={self.temperature}: pass a finite number, 0 for the best token each time")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k}: pass at least 1, or None to keep all tokens")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p}: pass a number above 0 and at most 1, or None to keep all tokens")


GREEDY = Sampling()


def choose(logits: torch.Tensor, sampling: Sampling, noise: torch.Tensor | None = None) -> torch.Tensor:
    """Choose one token of each row of `(batch, vocabulary)` logits: `(batch,)`.

    `noise`, of the logits' shape, holds samples of the exponential distribution of rate 1. The largest of
    `probabilities / noise` is a sample of the probabilities, and finding it needs no answer from the GPU.
    """
    return largest(logits if noise is None else likely(logits, sampling).softmax(-1) / noise)


def largest(rows: torch.Tensor) -> torch.Tensor:
    """Find the place of the first largest element of each of `(rows, columns)`, as `argmax` does.

    PyTorch reduces a row on one multiprocessor, which takes 37 us for two rows of 128256: parts of it share the work.
    """
    width = rows.shape[1] // math.gcd(rows.shape[1], 256)
    values, places = rows.unflatten(1, (-1, width)).max(-1)
    part = values.argmax(-1, keepdim=True)
    return torch.add(places.gather(1, part), part, alpha=width)[:, 0]


def likely(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Divide logits by the temperature, in float32, and set those of tokens that may not be chosen to -inf."""
    logits = logits.float() / sampling.temperature
    if sampling.top_k is not None:
        least = logits.topk(min(sampling.top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    if sampling.top_p is not None:
        ordered, order = logits.sort(-1, descending=True)
        probabilities = ordered.softmax(-1)
        # A token is left out where those before it suffice.
        left_out = probabilities.cumsum(-1) - probabilities >= sampling.top_p
        left_out[:, 0] = False
        logits = logits.masked_fill(left_out.scatter(-1, order, left_out), -math.inf)
    return logits


@dataclass(frozen=True)
class WindowedLayer:
    """The keys and values of a layer, `(batch, heads, length, D)`, and how many of them are written, on the device.

    The names are those of transformers' static layers: attention that reads no more keys than there are finds the
    count by them.
    """

    keys: torch.Tensor
    values: torch.Tensor
    cumulative_length: torch.Tensor
    is_sliding: bool = False


class WindowedCache:
    """The cache of a model while it decodes: written at `slot`, and read up to `window`.

    It has the method of transformers' caches that attention modules call for a token, and that by which NTAttention
    learns where to write by itself. Slot and count are tensors of one element, which the loop counts once a step, and
    not each layer.
    """

    def __init__(self, layers: list[WindowedLayer], slot: torch.Tensor) -> None:
        self.layers = layers
        self.slot = slot
        self.window = layers[0].keys.shape[2]

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the key and the value of one token, and give those of the window."""
        keys, values, slot = self.writable(layer, 1)
        keys.index_copy_(2, slot, key)
        values.index_copy_(2, slot, value)
        return keys, values

    def writable(self, layer: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Give the keys and values of the window, and the slot of the token; the loop gives one at a time."""
        assert tokens == 1
        keys, values = self.layers[layer].keys, self.layers[layer].values
        return keys[:, :, : self.window], values[:, :, : self.window], self.slot


class Decoder:
    """Generates tokens with a model for `batch` sequences of at most `length` tokens, the prompt's among them.

    `ends` are the tokens that end a sequence, after which it gives `pad`. `forward` is called for a step in the
    model's place, as `torch.compile(model)` may be. A decoder keeps its memory and its graphs: what it has generated
    once it generates faster the next time. Graphs hold the kernels that ran when they were made: after a swap of the
    model's modules, or its undoing, make another decoder.
    """

    def __init__(
        self,
        model: Any,
        batch: int,
        length: int,
        *,
        sampling: Sampling = GREEDY,
        ends: Collection[int] = (),
        pad: int = 0,
        window: int = WINDOW,
        forward: Callable[..., Any] | None = None,
    ) -> None:
        check(model)
        self.model, self.forward = model, model if forward is None else forward
        self.device = model.device
        self.makes_graphs = self.device.type == "cuda"
        self.sampling, self.pad, self.window = sampling, pad, window
        # Rows of the mask begin where vectors can be read.
        self.length = -(-length // ALIGNMENT) * ALIGNMENT
        self.ends = torch.tensor(sorted(ends), dtype=torch.int64)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.uncaptured: dict[int, int] = {}
        self.cache: WindowedCache | None = None
        self.filled = 0

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=self.device)

        # All that a step reads and writes. `visible` says of each slot of the cache whether it holds a token.
        # In a step, `slot` is the place of its token, and `held` the number of tokens with it.
        self.tokens = zeros(batch)
        # In one tensor, which one launch counts on; its rows begin where vectors can be read.
        self.counters = zeros(3, -(-batch // 2) * 2)
        self.positions, self.slot, self.held = self.counters[0, :batch], self.counters[1, :1], self.counters[2, :1]
        self.visible = zeros(batch, self.length, dtype=torch.bool)
        self.ended = zeros(batch, dtype=torch.bool)
        self.ends_there = self.ends.to(self.device)
        self.noise: torch.Tensor | None = None
        if sampling.temperature:
            vocabulary = model.get_output_embeddings().weight.shape[0]
            self.noise = torch.empty(batch, vocabulary, device=self.device)
            self.generator = torch.Generator(self.device)

    @torch.no_grad()
    def stream(self, inputs: Mapping[str, torch.Tensor], count: int) -> Iterator[torch.Tensor]:
        """Give `count` tokens of each sequence, `(batch,)` on the CPU at a time, as soon as they are known.

        `inputs` holds `input_ids`, `(batch, length)`, and may hold an `attention_mask` that is 0 where a sequence is
        padded, at its left. It ends early when all sequences have ended.
        """
        self._check(inputs, count)
        self._prefill(inputs)
        tokens = _arrived(self._fetch())
        ended = torch.isin(tokens, self.ends)
        yield tokens
        # The GPU works on a step while the host hands out the tokens of the one before.
        pending = None
        for _ in range(1, count):
            if ended.all():
                return
            self._advance()
            previous, pending = pending, self._fetch()
            if previous is not None:
                tokens = _arrived(previous)
                ended |= torch.isin(tokens, self.ends)
                yield tokens
        if pending is not None and not ended.all():
            yield _arrived(pending)

    def generate(self, inputs: Mapping[str, torch.Tensor], count: int) -> torch.Tensor:
        """Give the new tokens of all sequences at once: `(batch, at most count)`, on the CPU."""
        return torch.stack(list(self.stream(inputs, count)), 1)

    def _check(self, inputs: Mapping[str, torch.Tensor], count: int) -> None:
        batch, length = inputs["input_ids"].shape
        if batch != len(self.tokens):
            raise ValueError(f"input_ids holds {batch} sequences, and the decoder is for {len(self.tokens)}")
        if count < 1 or length + count > self.length:
            raise ValueError(f"{length} tokens in and {count} out: a decoder of length {self.length} has no room")
        mask = inputs.get("attention_mask")
        if mask is not None and not mask[:, -1].all():
            raise ValueError("attention_mask hides last tokens: pad at the left, tokenizer.padding_side = 'left'")

    def _prefill(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Run the model on the prompt, choose the first token, and set all that a step reads."""
        import transformers

        ids = inputs["input_ids"].to(self.device)
        mask = inputs.get("attention_mask")
        mask = torch.ones_like(ids) if mask is None else mask.to(self.device)
        cache: Any = transformers.DynamicCache()
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self.filled = ids.shape[1]
        self._fill(cache.layers)
        self.visible.zero_()
        self.visible[:, : self.filled] = mask.bool()
        self.slot.fill_(self.filled - 1)
        self.held.fill_(self.filled)
        self.positions.copy_(mask.sum(-1) - 1)
        self.ended.zero_()
        if self.noise is not None:
            self.generator.manual_seed(self.sampling.seed)
        self._refill()
        self._choose(output.logits[:, -1])

    def _fill(self, layers: list[Any]) -> None:
        """Copy keys and values of the prompt to the cache, which the first prompt makes."""
        if self.cache is None:
            made = [WindowedLayer(self._room(each.keys), self._room(each.values), self.held) for each in layers]
            self.cache = WindowedCache(made, self.slot)
        for target, source in zip(self.cache.layers, layers):
            target.keys[:, :, : self.filled] = source.keys
            target.values[:, :, : self.filled] = source.values

    def _room(self, tensor: torch.Tensor) -> torch.Tensor:
        # Zeros: attention that weights what is hidden by 0 must not meet NaN there.
        return tensor.new_zeros((*tensor.shape[:2], self.length, tensor.shape[3]))

    def _refill(self) -> None:
        if self.noise is not None:
            self.noise.exponential_(generator=self.generator)

    def _choose(self, logits: torch.Tensor) -> None:
        """Choose the next tokens and count on, in place."""
        tokens = choose(logits, self.sampling, self.noise)
        if len(self.ends):
            tokens = torch.where(self.ended, self.pad, tokens)
            self.ended |= torch.isin(tokens, self.ends_there)
        self.tokens.copy_(tokens)
        self.counters += 1

    def _advance(self) -> None:
        """Make one more token of every sequence: without a graph at first, then by replaying one."""
        self._refill()
        self.filled += 1
        window = min(self.length, -(-self.filled // self.window) * self.window)
        done = self.uncaptured.get(window, 0)
        if not self.makes_graphs or done < UNCAPTURED:
            self._step(window)
            self.uncaptured[window] = done + 1
            return
        if window not in self.graphs:
            self.graphs[window] = self._captured(window)
        self.graphs[window].replay()

    def _captured(self, window: int) -> torch.cuda.CUDAGraph:
        # Graphs that never run at once share their memory.
        pool = next(iter(self.graphs.values())).pool() if self.graphs else None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._step(window)
        return graph

    def _step(self, window: int) -> None:
        """Run the model on the last tokens, and choose the next."""
        assert self.cache is not None, "the prompt comes first"
        self.cache.window = window
        self.visible.index_fill_(1, self.slot, True)
        output = self.forward(
            input_ids=self.tokens[:, None],
            attention_mask=self.visible[:, None, None, :window],
            position_ids=self.positions[:, None],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._choose(output.logits[:, -1])

    def _fetch(self) -> tuple[torch.Tensor, torch.cuda.Event | None]:
        """Begin to copy the tokens to the host; gives the copy, and the event after which it is there."""
        if self.device.type != "cuda":
            return self.tokens.clone(), None
        host = torch.empty(self.tokens.shape, dtype=torch.int64, pin_memory=True)
        host.copy_(self.tokens, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return host, event


def _arrived(fetched: tuple[torch.Tensor, torch.cuda.Event | None]) -> torch.Tensor:
    tokens, event = fetched
    if event is not None:
        event.synchronize()
    return tokens


def check(model: Any) -> None:
    """Raise ValueError for a model that the loop's masks are not made for."""
    config = model.config.get_text_config(decoder=True)
    if config._attn_implementation != "sdpa":
        raise ValueError(
            f"the model's attention implementation is {config._attn_implementation!r}, and the loop's masks are for "
            "'sdpa': model.set_attn_implementation('sdpa') first"
        )
    kinds = set(getattr(config, "layer_types", None) or ("full_attention",))
    if kinds != {"full_attention"} or getattr(config, "sliding_window", None) is not None:
        raise ValueError("the loop's masks are for attention to all tokens, and the model has sliding windows")
