"""Generate text with a Llama whose modules run on NineToothed's kernels, and with PyTorch's, and compare.

    python examples/generate.py                             # a small Llama with random weights
    python examples/generate.py --model PATH --device cuda --dtype bfloat16 --prompt "Nine teeth"
    python examples/generate.py --model PATH --temperature 0.8 --top-p 0.9 --seed 7 --batch 8
    python examples/generate.py --backend torch             # first the model as transformers runs it

The text is printed as it comes (token ids where there is no tokenizer), then the time to the first token, the tokens
per second after it, and whether both backends choose the same tokens. The loop is that of decoding.py: on a GPU, one
CUDA graph a step. A CPU checks the kernels and says nothing of their speed: they are made for GPUs. Nothing is ever
downloaded: PATH is a folder that transformers' `save_pretrained` wrote.
"""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ninetoothed_ops import swap_modules

try:
    from examples.decoding import Decoder, Sampling
    from examples.loading import Task, prepare
except ImportError:  # In a script's own folder, modules have no package.
    from decoding import Decoder, Sampling
    from loading import Task, prepare

BACKENDS = ("ninetoothed", "torch")
# How far, in units of the type's precision and of the largest logit, the logit of a token that the two backends do not
# agree on may lie below the best one. Llamas in halves lose a few digits on the way to their logits.
SLACK = 16


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example, and return the exit status: 1 where the backends disagree, 2 where it cannot run."""
    options = parse(arguments)
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        sampling_of(options)
        task = prepare(options)
    except (ImportError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    introduce(task)
    tokens = {options.backend: run(task, options.backend, shows=True)}
    if options.no_check:
        return 0
    for other in set(BACKENDS) - {options.backend}:
        tokens[other] = run(task, other, shows=False)
    return compare(task, tokens["ninetoothed"], tokens["torch"])


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


# -- What is to be done --


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--backend", choices=BACKENDS, default="ninetoothed", help="the one that is timed first")
    add("--model", type=Path, help="a folder with a model; without it, a small one with random weights")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    add("--prompt", help="for a model whose folder holds a tokenizer; without it, random tokens")
    add("--batch", type=positive, default=1, help="how many sequences at once")
    add("--prompt-tokens", type=positive, default=16, help="how many random tokens to begin with")
    add("--tokens", type=positive, default=32, help="how many tokens to generate")
    add("--temperature", type=float, default=0.0, help="0, the default, takes the likeliest token")
    add("--top-k", type=int, help="choose among so many tokens")
    add("--top-p", type=float, help="choose among the tokens that make up so much of the probability")
    add("--seed", type=int, default=0, help="of random weights, of random tokens, and of sampling")
    add("--join", action="store_true", help="make one product of q, k and v, and one of gate and up")
    add("--compile", action="store_true", help="run the steps after the prompt under torch.compile")
    add("--no-check", action="store_true", help="do not run the other backend")
    add("--report", action="store_true", help="print which modules were swapped")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    """Convert to an int above 0, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def sampling_of(options: argparse.Namespace) -> Sampling:
    """Tell how tokens are chosen; raises ValueError for numbers out of range."""
    return Sampling(options.temperature, options.top_k, options.top_p, options.seed)


def introduce(task: Task) -> None:
    """Say what is about to happen, and what a CPU shows."""
    options, model = task.options, task.model
    say("Generating text with NineToothed's kernels and with PyTorch's, to see that both choose the same tokens.")
    if model.device.type == "cpu":
        say("This is a CPU, which is for writing and debugging kernels: expect right results here, and speed on a GPU.")
    size = f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()):,} parameters"
    say(f"{size}, {options.dtype} on {options.device}, {options.batch} x {options.tokens} tokens")


# -- Generating --


def run(task: Task, backend: str, *, shows: bool) -> torch.Tensor:
    """Generate with one of the backends, tell how fast it was, and give the tokens, `(batch, count)`."""
    count, streamer, steps, times = task.options.tokens, streamer_for(task.tokenizer) if shows else None, [], []
    with swapped(task) if backend == "ninetoothed" else unchanged():
        decoder = decoder_for(task)
        if task.model.device.type == "cuda":
            say("a first run builds kernels and graphs, a second is timed")
            for _ in progress(decoder.stream(task.inputs, count), count):
                pass
        start = time.perf_counter()
        for step in decoder.stream(task.inputs, count):
            times.append(time.perf_counter() - start)
            steps.append(step)
            if streamer is not None:
                streamer.put(step[:1])
        if streamer is not None:
            streamer.end()
    tokens = torch.stack(steps, 1)
    say(speed(backend, times[0], times[-1], made(tokens, task.ends)))
    return tokens


@contextlib.contextmanager
def swapped(task: Task) -> Iterator[None]:
    """Let the model's modules run on NineToothed's kernels."""
    report = swap_modules(task.model, join=True) if task.options.join else swap_modules(task.model)
    say(f"ninetoothed: {len(report.swapped)} modules run on its kernels")
    if task.options.report:
        print(report)
    try:
        yield
    finally:
        report.undo()


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Leave the model as transformers runs it."""
    say("torch: the model as transformers runs it")
    yield


def decoder_for(task: Task) -> Decoder:
    """Make the loop, for the modules as they are now: its graphs, and compiled code, know their classes."""
    model, (batch, length) = task.model, task.inputs["input_ids"].shape
    forward = torch.compile(model, dynamic=True) if task.options.compile else None
    sampling, length = sampling_of(task.options), length + task.options.tokens
    return Decoder(model, batch, length, sampling=sampling, ends=task.ends, pad=task.pad, forward=forward)


class IdStreamer:
    """Prints token ids as they come, as transformers' TextStreamer prints text."""

    def put(self, token: torch.Tensor) -> None:
        print(token.item(), end=" ", flush=True)

    def end(self) -> None:
        say("")


def streamer_for(tokenizer: Any) -> Any:
    """Choose what prints one sequence as it comes."""
    if tokenizer is None:
        return IdStreamer()
    from transformers import TextStreamer

    return TextStreamer(tokenizer, skip_special_tokens=True)


def progress(steps: Iterable[torch.Tensor], count: int) -> Iterator[torch.Tensor]:
    """Pass steps on, and count them on the terminal."""
    is_seen = sys.stderr.isatty()
    for number, step in enumerate(steps, 1):
        if is_seen:
            print(f"\rtoken {number} of {count}", end="", file=sys.stderr, flush=True)
        yield step
    if is_seen:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def made(tokens: torch.Tensor, ends: Sequence[int]) -> torch.Tensor:
    """Tell of each of `(batch, count)` tokens whether it was generated: whether no end came before it."""
    is_end = torch.isin(tokens, torch.tensor(ends, dtype=tokens.dtype))
    return is_end.cumsum(-1) - is_end.long() == 0


def speed(backend: str, first: float, total: float, is_made: torch.Tensor) -> str:
    """Say how many seconds the first token took, and how many tokens a second came after it."""
    after = int(is_made[:, 1:].sum())
    text = f"{backend}: {int(is_made.sum())} tokens in {total:.3f} s, the first after {first:.3f} s"
    return f"{text}, then {after / (total - first):.1f} tokens/s" if after else text


# -- Comparing --


def compare(task: Task, ours: torch.Tensor, theirs: torch.Tensor) -> int:
    """Print whether the backends agree; return 0 where they do, up to choices that rounding decides."""
    is_made = made(ours, task.ends)
    count, width = int(is_made.sum()), min(ours.shape[1], theirs.shape[1])
    if torch.equal(ours, theirs):
        print(f"the backends agree on all {count} tokens")
        return 0
    same = int((is_made[:, :width] & (ours[:, :width] == theirs[:, :width])).sum())
    print(f"the backends agree on {same} of {count} tokens; ", end="")
    if task.options.temperature:
        print("with another token by rounding, everything after it is chosen anew")
        return 0
    slack, worst = shortfall(task, ours.to(task.model.device), is_made.to(task.model.device))
    print(f"given ninetoothed's tokens, torch would choose each of them within {worst:.2g} of its best logit", end="")
    print(f" (rounding explains {slack:.2g})")
    return 0 if worst <= slack else 1


@torch.no_grad()
def shortfall(task: Task, tokens: torch.Tensor, is_made: torch.Tensor) -> tuple[float, float]:
    """Give (what rounding explains, how far a chosen token's logit falls short of the best at most), under PyTorch."""
    ids, mask = task.inputs["input_ids"], task.inputs["attention_mask"]
    mask = torch.cat((mask, torch.ones_like(tokens)), 1)
    logits = task.model(input_ids=torch.cat((ids, tokens), 1), attention_mask=mask).logits[:, ids.shape[1] - 1 : -1]
    chosen = logits.gather(-1, tokens[..., None])[..., 0]
    slack = SLACK * torch.finfo(logits.dtype).eps * logits.abs().max()
    return slack.item(), (logits.amax(-1) - chosen)[is_made].max().item()


if __name__ == "__main__":
    sys.exit(main())
