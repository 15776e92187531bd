"""Generate text with a Llama whose modules run on NineToothed's kernels, and with PyTorch's, and compare.

    python examples/generate.py                             # a small Llama with random weights
    python examples/generate.py --model PATH --device cuda --dtype bfloat16 --prompt "Nine teeth"
    python examples/generate.py --model PATH --temperature 0.8 --top-p 0.9 --seed 7 --batch 8
    python examples/generate.py --backend torch             # first the model as transformers runs it

It says what it does while it works, prints the text as it comes (token ids where there is no tokenizer), the time to
the first token and the tokens per second after it, and whether both backends choose the same tokens. The loop is that
of decoding.py: on a GPU, one CUDA graph a step. On a CPU this checks the kernels and says nothing of their speed: they
are made for GPUs. Nothing is ever downloaded: PATH is a folder that transformers' `save_pretrained` wrote.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ninetoothed_ops import swap_modules

try:
    from examples.decoding import Decoder, Sampling
except ImportError:  # In a script's own folder, modules have no package.
    from decoding import Decoder, Sampling

BACKENDS = ("ninetoothed", "torch")
# How far, in units of the type's precision and of the largest logit, the logit of a token that the two backends do not
# agree on may lie below the best one. Llamas in halves lose a few digits on the way to their logits.
SLACK = 16


@dataclass(frozen=True)
class Run:
    """The tokens that a backend made, `(batch, count)`, and the seconds to the first of them and to the last."""

    tokens: torch.Tensor
    first: float
    total: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example, and return the exit status: 1 where the backends disagree, 2 where it cannot run."""
    options = parse(arguments)
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        check(options.device)
        sampling = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
        torch.manual_seed(options.seed)
        model, tokenizer = load(options)
        inputs = encode(options, model, tokenizer)
    except (ImportError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    say(introduction(options))
    say(f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()):,} parameters, {describe(options)}")

    tokens = {}
    for backend in (options.backend, *(other for other in BACKENDS if other != options.backend)):
        if backend == options.backend or not options.no_check:
            is_shown = backend == options.backend
            found = run(model, inputs, backend, options, sampling, Printer(tokenizer) if is_shown else None)
            say(speed(backend, found, made(found.tokens, ends(model))))
            tokens[backend] = found.tokens
    if options.no_check:
        return 0
    return compare(model, inputs, tokens, options)


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def introduction(options: argparse.Namespace) -> str:
    """Say what is about to happen, and what a CPU shows."""
    task = "Generating text with NineToothed's kernels and with PyTorch's, to see that both choose the same tokens."
    if torch.device(options.device).type == "cuda":
        return task
    where = "This is a CPU, which is for writing and debugging kernels: expect right results here, and speed on a GPU."
    return f"{task}\n{where}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=BACKENDS, default="ninetoothed", help="the one that is timed first")
    parser.add_argument("--model", type=Path, help="a folder with a model; without it, a small one with random weights")
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--prompt", help="for a model whose folder holds a tokenizer; without it, random tokens")
    parser.add_argument("--batch", type=positive, default=1, help="how many sequences at once")
    parser.add_argument("--prompt-tokens", type=positive, default=16, help="how many random tokens to begin with")
    parser.add_argument("--tokens", type=positive, default=32, help="how many tokens to generate")
    parser.add_argument("--temperature", type=float, default=0.0, help="0, the default, takes the likeliest token")
    parser.add_argument("--top-k", type=int, help="choose among so many tokens")
    parser.add_argument("--top-p", type=float, help="choose among the tokens that make up so much of the probability")
    parser.add_argument("--join", action="store_true", help="make one product of q, k and v, and one of gate and up")
    parser.add_argument("--compile", action="store_true", help="run the steps after the prompt under torch.compile")
    parser.add_argument("--no-check", action="store_true", help="do not run the other backend")
    parser.add_argument("--report", action="store_true", help="print which modules were swapped")
    parser.add_argument("--seed", type=int, default=0, help="of random weights, of random tokens, and of sampling")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    """Convert to an int above 0, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def check(device: str) -> None:
    """Raise ValueError for a device that the kernels do not run on, or that is not there."""
    try:
        kind, index = torch.device(device).type, torch.device(device).index or 0
    except RuntimeError:
        kind, index = None, 0
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"--device {device}: the kernels run on cpu and on cuda")
    if kind == "cuda" and index >= torch.cuda.device_count():
        raise ValueError(f"--device {device}: PyTorch finds {torch.cuda.device_count()} CUDA devices here")


def describe(options: argparse.Namespace) -> str:
    """Name type, device and size of the task."""
    return f"{options.dtype} on {options.device}, {options.batch} x {options.tokens} tokens"


def load(options: argparse.Namespace):
    """Load (model, tokenizer or None) from the folder, or make up a model."""
    try:
        import transformers
    except ImportError as error:
        raise ImportError("This example needs transformers: pip install 'ninetoothed[transformers]'") from error

    if options.model is None:
        model, tokenizer = transformers.LlamaForCausalLM(small_config(transformers)), None
        model.to(getattr(torch, options.dtype))
    else:
        if not (options.model / "config.json").is_file():
            raise FileNotFoundError(
                f"{options.model} holds no config.json: --model takes a folder, and downloads nothing"
            )
        model = transformers.AutoModelForCausalLM.from_pretrained(
            options.model, local_files_only=True, dtype=getattr(torch, options.dtype)
        )
        tokenizer = None
        if any(options.model.glob("tokenizer*")):
            tokenizer = transformers.AutoTokenizer.from_pretrained(options.model, local_files_only=True)
    model.eval().to(options.device)
    return model, tokenizer


def small_config(transformers):
    """Describe a Llama of a few million parameters."""
    return transformers.LlamaConfig(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=None,
        # Larger than usual: weights this random choose one token over the others by more than rounding.
        initializer_range=0.1,
    )


def encode(options: argparse.Namespace, model, tokenizer) -> dict[str, torch.Tensor]:
    """Make the model's inputs, of the prompt or of random tokens."""
    if options.prompt is not None:
        if tokenizer is None:
            raise ValueError("--prompt needs a tokenizer, and this model has none: use --model, or --prompt-tokens")
        return dict(tokenizer([options.prompt] * options.batch, return_tensors="pt").to(options.device))
    tokens = torch.randint(model.config.vocab_size, (options.batch, options.prompt_tokens))
    return {"input_ids": tokens.to(options.device), "attention_mask": torch.ones_like(tokens).to(options.device)}


def run(
    model: Any,
    inputs: dict[str, torch.Tensor],
    backend: str,
    options: argparse.Namespace,
    sampling: Sampling,
    printer: "Printer | None",
) -> Run:
    """Generate with one of the backends: on a GPU twice, since the first time compiles kernels and makes graphs."""
    if backend == "torch":
        say("torch: the model as transformers runs it")
        return timed(model, inputs, options, sampling, printer)

    report = swap_modules(model, join=True) if options.join else swap_modules(model)
    say(f"ninetoothed: {len(report.swapped)} modules run on its kernels")
    if options.report:
        print(report)
    try:
        return timed(model, inputs, options, sampling, printer)
    finally:
        report.undo()


def timed(
    model: Any,
    inputs: dict[str, torch.Tensor],
    options: argparse.Namespace,
    sampling: Sampling,
    printer: "Printer | None",
) -> Run:
    """Generate, and take the time as a user sees it; the printer gets the tokens as they come."""
    batch, length = inputs["input_ids"].shape
    # Compiled code knows the classes of the modules: after a swap, or its undoing, it is made anew.
    forward = torch.compile(model, dynamic=True) if options.compile else None
    decoder = Decoder(
        model,
        batch,
        length + options.tokens,
        sampling=sampling,
        ends=ends(model),
        pad=padding(model),
        forward=forward,
    )
    if model.device.type == "cuda":
        say("a first run builds kernels and graphs, a second is timed")
        for _ in progress(decoder.stream(inputs, options.tokens), options.tokens):
            pass
    start, first, tokens = time.perf_counter(), 0.0, []
    for step in decoder.stream(inputs, options.tokens):
        first = first or time.perf_counter() - start
        tokens.append(step)
        if printer is not None:
            printer.put(step)
    total = time.perf_counter() - start
    if printer is not None:
        printer.end()
    return Run(torch.stack(tokens, 1), first, total)


class Printer:
    """Prints the first of several sequences as it comes: its text, or its token ids where there is no tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.streamer = None
        if tokenizer is not None:
            from transformers import TextStreamer

            self.streamer = TextStreamer(tokenizer, skip_special_tokens=True)

    def put(self, tokens: torch.Tensor) -> None:
        """Print one token of each sequence."""
        if self.streamer is not None:
            self.streamer.put(tokens[:1])
        else:
            print(tokens[0].item(), end=" ", flush=True)

    def end(self) -> None:
        """End the line."""
        if self.streamer is not None:
            self.streamer.end()
        else:
            say("")


def progress(steps: Iterable[torch.Tensor], count: int) -> Iterator[torch.Tensor]:
    """Pass steps on, and count them on the terminal."""
    shown = sys.stderr.isatty()
    for number, step in enumerate(steps, 1):
        if shown:
            print(f"\rtoken {number} of {count}", end="", file=sys.stderr, flush=True)
        yield step
    if shown:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def speed(backend: str, found: Run, is_made: torch.Tensor) -> str:
    """Say how long the first token took, and how many tokens a second came after it."""
    count, after = int(is_made.sum()), int(is_made[:, 1:].sum())
    text = f"{backend}: {count} tokens in {found.total:.3f} s, the first after {found.first:.3f} s"
    return f"{text}, then {after / (found.total - found.first):.1f} tokens/s" if after else text


def ends(model: Any) -> tuple[int, ...]:
    """Give the tokens that end a sequence."""
    found = model.generation_config.eos_token_id
    return () if found is None else (found,) if isinstance(found, int) else tuple(found)


def padding(model: Any) -> int:
    """Give the token that follows the end of a sequence in a batch."""
    found = model.generation_config.pad_token_id
    return next(iter(ends(model)), 0) if found is None else found


def made(tokens: torch.Tensor, ends: Sequence[int]) -> torch.Tensor:
    """Tell of each of `(batch, count)` tokens whether it was generated: whether no end came before it."""
    is_end = torch.isin(tokens, torch.tensor(ends, dtype=tokens.dtype))
    return is_end.cumsum(-1) - is_end.long() == 0


def compare(
    model: Any, inputs: dict[str, torch.Tensor], tokens: dict[str, torch.Tensor], options: argparse.Namespace
) -> int:
    """Print whether the backends agree; return 0 where they do, up to choices that rounding decides."""
    ours, theirs = tokens["ninetoothed"], tokens["torch"]
    is_made = made(ours, ends(model))
    count = int(is_made.sum())
    if torch.equal(ours, theirs):
        print(f"the backends agree on all {count} tokens")
        return 0
    width = min(ours.shape[1], theirs.shape[1])
    same = int((is_made[:, :width] & (ours[:, :width] == theirs[:, :width])).sum())
    print(f"the backends agree on {same} of {count} tokens; ", end="")
    if options.temperature:
        print("with another token by rounding, everything after it is chosen anew")
        return 0
    slack, worst = shortfall(model, inputs, ours.to(model.device), is_made.to(model.device))
    print(f"given ninetoothed's tokens, torch would choose each of them within {worst:.2g} of its best logit", end="")
    print(f" (rounding explains {slack:.2g})")
    return 0 if worst <= slack else 1


@torch.no_grad()
def shortfall(
    model: Any, inputs: dict[str, torch.Tensor], tokens: torch.Tensor, is_made: torch.Tensor
) -> tuple[float, float]:
    """Give (what rounding explains, how far a chosen token's logit falls short of the best at most), under PyTorch."""
    mask = torch.cat((inputs["attention_mask"], torch.ones_like(tokens)), 1)
    logits = model(input_ids=torch.cat((inputs["input_ids"], tokens), 1), attention_mask=mask).logits
    logits = logits[:, inputs["input_ids"].shape[1] - 1 : -1]
    chosen = logits.gather(-1, tokens[..., None])[..., 0]
    slack = SLACK * torch.finfo(logits.dtype).eps * logits.abs().max()
    return slack.item(), (logits.amax(-1) - chosen)[is_made].max().item()


if __name__ == "__main__":
    sys.exit(main())
