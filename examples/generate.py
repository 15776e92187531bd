"""Generate text with a Llama whose modules run on NineToothed's kernels.

    python examples/generate.py                             # a small Llama with random weights
    python examples/generate.py --model PATH --device cuda --dtype bfloat16 --prompt "Nine teeth"
    python examples/generate.py --backend torch             # the same model, as transformers runs it

It says what it does while it works, prints how many tokens a second each backend makes, and whether both choose the
same tokens. On a CPU that checks the kernels and says nothing of their speed: they are made for GPUs. Nothing is ever
downloaded: PATH is a folder that transformers' `save_pretrained` wrote.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from ninetoothed_ops import swap_modules

BACKENDS = ("ninetoothed", "torch")
# How far, in units of the type's precision and of the largest logit, the logit of a token that the two backends do not
# agree on may lie below the best one. Llamas in halves lose a few digits on the way to their logits.
SLACK = 16


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example, and return the exit status: 1 where the backends disagree, 2 where it cannot run."""
    options = parse(arguments)
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        check(options.device)
        torch.manual_seed(options.seed)
        model, tokenizer = load(options)
        inputs = encode(options, model, tokenizer)
    except (ImportError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    say(introduction(options))
    say(f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()):,} parameters, {describe(options)}")

    tokens, seconds = {}, {}
    for backend in (options.backend, *(other for other in BACKENDS if other != options.backend)):
        if backend == options.backend or not options.no_check:
            tokens[backend], seconds[backend] = run(model, inputs, backend, options)
            made = tokens[backend].numel()
            say(f"{backend}: {made} tokens in {seconds[backend]:.3f} s, {made / seconds[backend]:.1f} tokens/s")
    if tokenizer is not None:
        print(tokenizer.batch_decode(tokens[options.backend], skip_special_tokens=True)[0])
    return 0 if options.no_check else compare(model, inputs, tokens)


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
    parser.add_argument("--compile", action="store_true", help="run the model under torch.compile")
    parser.add_argument("--no-check", action="store_true", help="do not run the other backend")
    parser.add_argument("--report", action="store_true", help="print which modules were swapped")
    parser.add_argument("--seed", type=int, default=0)
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
    if options.compile:
        # Compiled code knows the classes of the modules: after a swap, or its undoing, it is made anew.
        model.compile(dynamic=True)
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


def run(model, inputs: dict[str, torch.Tensor], backend: str, options: argparse.Namespace):
    """Give (the new tokens, the seconds they took) after a first run that compiles what is to be compiled."""
    if backend == "torch":
        say("torch: the model as transformers runs it")
        return timed(model, inputs, options)

    report = swap_modules(model)
    say(f"ninetoothed: {len(report.swapped)} modules run on its kernels; a first run builds these, a second is timed")
    if options.report:
        print(report)
    try:
        return timed(model, inputs, options)
    finally:
        report.undo()


def timed(model, inputs: dict[str, torch.Tensor], options: argparse.Namespace) -> tuple[torch.Tensor, float]:
    """Generate twice, and return the tokens and the seconds of the second time."""
    generate(model, inputs, options.tokens)
    synchronise(options.device)
    start = time.perf_counter()
    tokens = generate(model, inputs, options.tokens)
    synchronise(options.device)
    return tokens, time.perf_counter() - start


def generate(model, inputs: dict[str, torch.Tensor], count: int) -> torch.Tensor:
    """Generate `count` tokens greedily, and return those alone."""
    length = inputs["input_ids"].shape[1]
    padding = model.generation_config.pad_token_id
    tokens = model.generate(
        **inputs,
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
        pad_token_id=0 if padding is None else padding,
    )
    return tokens[:, length:]


def synchronise(device: str) -> None:
    """Wait until a GPU has finished."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def compare(model, inputs: dict[str, torch.Tensor], tokens: dict[str, torch.Tensor]) -> int:
    """Print whether the backends agree; return 0 where they do, up to choices that rounding decides."""
    ours, theirs = tokens["ninetoothed"], tokens["torch"]
    if torch.equal(ours, theirs):
        print(f"the backends agree on all {ours.numel()} tokens")
        return 0
    slack, worst = shortfall(model, inputs, ours)
    same = int((ours == theirs).sum())
    print(f"the backends agree on {same} of {ours.numel()} tokens; ", end="")
    print(f"given ninetoothed's tokens, torch would choose each of them within {worst:.2g} of its best logit", end="")
    print(f" (rounding explains {slack:.2g})")
    return 0 if worst <= slack else 1


@torch.no_grad()
def shortfall(model, inputs: dict[str, torch.Tensor], tokens: torch.Tensor) -> tuple[float, float]:
    """Give (what rounding explains, how far a chosen token's logit falls short of the best at most), under PyTorch."""
    mask = torch.cat((inputs["attention_mask"], torch.ones_like(tokens)), 1)
    logits = model(input_ids=torch.cat((inputs["input_ids"], tokens), 1), attention_mask=mask).logits
    logits = logits[:, inputs["input_ids"].shape[1] - 1 : -1]
    chosen = logits.gather(-1, tokens[..., None])[..., 0]
    slack = SLACK * torch.finfo(logits.dtype).eps * logits.abs().max()
    return slack.item(), (logits.amax(-1) - chosen).max().item()


if __name__ == "__main__":
    sys.exit(main())
