"""Train a small Llama that reads bytes on Python's own documentation, on PyTorch's modules and on NineToothed's.

python examples/train.py [--device cpu|cuda] [--size small|large] [--steps N] [--lora] [--folder FOLDER]

Nothing is downloaded: the text is the documentation strings of the standard library. Both models begin with the same
weights and see the same bytes, so that their losses are one curve (FOLDER/losses.png). Checkpoints are of either, for
either: the last one is loaded into the other kind of model, and resumed to the same bits as the run that went on. At
the end the model writes. `--lora` then adapts it to Python's source, by adapters of peft, in the same two ways.

On one core of a CPU the small model, its default, takes some five minutes. A GPU gets the large one, whose products are
in bfloat16, by autocast.
"""

import argparse
import ast
import pathlib
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ninetoothed_ops import swap_modules

# By name: the model, bytes of a sequence, sequences of a batch.
SIZES = {
    "tiny": ({"hidden_size": 32, "num_hidden_layers": 1}, 32, 2),
    "small": ({"hidden_size": 128, "num_hidden_layers": 2}, 128, 8),
    "large": ({"hidden_size": 512, "num_hidden_layers": 6}, 256, 128),
}
# Of the large model the CPU's part of a step takes longest: its batches are as large as the GPU works on meanwhile.
STEPS = {"tiny": 100, "small": 600, "large": 600}
RATE = {"tiny": 3e-3, "small": 3e-3, "large": 1e-3}
# A large model in bfloat16 that is hurried goes another way with every rounding.
WARM_UP = {"tiny": 20, "small": 20, "large": 100}
# How far the smoothed losses may be apart, relative to them.
NOISE = 0.02
PROMPT = "Return a list of the "
# Their files have no documentation to learn from, or are not of the library.
LEFT_OUT = {"test", "site-packages", "dist-packages"}


def gather(limit: int, is_source: bool = False) -> torch.Tensor:
    """Gather up to `limit` bytes of the standard library: its documentation strings, or its source."""
    parts, size = [], 0
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    modules = [path for pattern in ("*.py", "*/*.py") for path in sorted(root.glob(pattern))]
    for path in (each for each in modules if each.parent.name not in LEFT_OUT):
        source = path.read_text(encoding="utf-8", errors="replace")
        found = [source] if is_source else documentation(ast.parse(source))
        parts += found
        size += sum(map(len, found))
        if size >= limit:
            break
    text = "\n\n".join(parts).encode("ascii", errors="replace")[:limit]
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def documentation(tree: ast.Module) -> list[str]:
    """List the documentation strings of a module, its classes and its functions."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(tree) if isinstance(node, documented))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def llama(size: str) -> nn.Module:
    """Make a Llama of 256 tokens, the bytes, with the random weights of seed 0."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shapes, length, _ = SIZES[size]
    hidden, layers = shapes["hidden_size"], shapes["num_hidden_layers"]
    config = LlamaConfig(
        vocab_size=256, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4 * length,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    return LlamaForCausalLM(config)


@dataclass
class Run:
    """A model on its way through a text, and where on it."""

    model: Any
    text: torch.Tensor
    size: str
    steps: int
    is_mixed: bool = False
    step: int = 0
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model.train()
        trained = [each for each in self.model.parameters() if each.requires_grad]
        self.device = trained[0].device
        self.optimizer = torch.optim.AdamW(trained, lr=RATE[self.size], fused=self.device.type == "cuda")

    def batch(self) -> torch.Tensor:
        """Choose sequences by the number of the step alone, so that a run that is resumed sees the same."""
        _, length, count = SIZES[self.size]
        generator = torch.Generator().manual_seed(self.step)
        starts = torch.randint(len(self.text) - length, (count, 1), generator=generator)
        return self.text[starts + torch.arange(length)].to(self.device)

    def advance(self) -> float:
        """Make one step of training, as any model of PyTorch is trained."""
        warm, left = (self.step + 1) / WARM_UP[self.size], 1 - self.step / self.steps
        for group in self.optimizer.param_groups:
            group["lr"] = RATE[self.size] * min(1.0, warm) * max(0.1, left)
        ids = self.batch()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_mixed):
            loss = self.model(input_ids=ids, labels=ids, use_cache=False).loss
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        self.losses.append(loss.item())
        return self.losses[-1]

    def save(self, path: pathlib.Path) -> None:
        """Write all that a run needs to go on: a swapped model's weights have the names that they had."""
        torch.save({
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step,
            "losses": self.losses,
        }, path)  # fmt: skip

    def load(self, path: pathlib.Path) -> "Run":
        """Go on where the run that wrote a file was, whether its model was swapped or not."""
        kept = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        self.step, self.losses = kept["step"], list(kept["losses"])
        return self


def train(run: Run, path: pathlib.Path, name: str) -> Run:
    """Train to the end, under a progress bar; leave a checkpoint at `path` shortly before it."""
    from tqdm import tqdm

    _, length, count = SIZES[run.size]
    checkpoint = run.steps - max(1, run.steps // 20)
    if run.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with tqdm(total=run.steps * length * count, unit="tokens", unit_scale=True, desc=name) as bar:
        while run.step < run.steps:
            loss = run.advance()
            bar.set_postfix_str(f"loss {loss:.3f}, {memory(run.device):.2f} GiB", refresh=False)
            bar.update(length * count)
            if run.step == checkpoint:
                run.save(path)
    return run


def memory(device: torch.device) -> float:
    """Give the most memory that was held, in GiB: by tensors of a GPU, or by the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    try:
        import resource
    except ImportError:  # on Windows
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def smoothed(losses: list[float]) -> torch.Tensor:
    """Average losses over ten steps."""
    values = torch.tensor(losses, dtype=torch.float64)
    return values.unfold(0, min(10, len(values)), 1).mean(-1)


def compare(losses: dict[str, list[float]], path: pathlib.Path, title: str) -> bool:
    """Plot two curves of losses, tell how far they are apart, and whether that is noise."""
    first, second = (smoothed(each) for each in losses.values())
    apart = ((first - second).abs() / first).max().item()
    scatter = torch.tensor(next(iter(losses.values()))[-50:]).std().item() / first[-1].item()
    print(f"losses are at most {apart:.2%} apart; those of the last batches scatter by {scatter:.2%}")
    is_noise = apart < NOISE
    try:
        import matplotlib
    except ImportError:
        print("the curves are not drawn: matplotlib is not installed")
        return is_noise
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(7, 5), height_ratios=(3, 1), sharex=True, layout="constrained"
    )
    for (name, values), style in zip(losses.items(), ("-", "--")):
        above.plot(values, style, label=name, linewidth=1, alpha=0.8)
    below.plot([ours - theirs for theirs, ours in zip(*losses.values())], linewidth=0.8, color="C2")
    above.set(ylabel="loss (nats a byte)", title=title)
    above.legend()
    below.set(xlabel="step", ylabel="difference")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return is_noise


def write(model: Any, prompt: str, count: int) -> str:
    """Let a model go on with a text."""
    device = next(model.parameters()).device
    ids = torch.tensor([list(prompt.encode())], device=device)
    torch.manual_seed(0)
    found = model.eval().generate(input_ids=ids, do_sample=True, temperature=0.6, max_new_tokens=count)
    return bytes(found[0].tolist()).decode("ascii", errors="replace")


def with_adapters(model: Any) -> Any:
    """Give a model low-rank adapters, which alone are trained; their random weights are of seed 1."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    names = ["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"]
    return get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=names, task_type="CAUSAL_LM"))


def both(make: Any, text: torch.Tensor, options: argparse.Namespace, name: str) -> tuple[dict[str, Run], bool]:
    """Train what `make()` gives as it is and swapped; tell whether they learn alike and resume to the same bits."""
    runs: dict[str, Run] = {}
    paths = {kind: options.folder / f"{name}-{kind.lower()}.pt" for kind in ("PyTorch", "NineToothed")}

    def begin(kind: str) -> Run:
        model = make().to(options.device)
        if kind == "NineToothed":
            # The gradient of PyTorch's own embedding has other bits in each run on a GPU.
            swap_modules(model, join=True, loss=True, also=[nn.Embedding])
        is_mixed = torch.device(options.device).type == "cuda" if options.bfloat16 is None else options.bfloat16
        return Run(model, text, options.size, options.steps, is_mixed)

    for kind, path in paths.items():
        start = time.perf_counter()
        runs[kind] = train(begin(kind), path, kind)
        print(f"{kind}: loss {smoothed(runs[kind].losses)[-1]:.4f} after {time.perf_counter() - start:.0f} s")
    title = f"Llama on {len(text):,} bytes, {options.device}, {name}"
    is_fine = compare({kind: run.losses for kind, run in runs.items()}, options.folder / f"{name}.png", title)

    (theirs, ours), (their_path, our_path) = runs.values(), paths.values()
    again = train(begin("NineToothed").load(our_path), our_path, "resumed")
    is_same = again.losses == ours.losses and same_bits(again.model, ours.model)
    print(f"resumed from its checkpoint, NineToothed's model has {'the same bits' if is_same else 'OTHER BITS'}")
    for kind, path, expected in (("NineToothed", their_path, theirs), ("PyTorch", our_path, ours)):
        crossed = begin(kind).load(path)
        loss, of_other = crossed.advance(), expected.losses[crossed.step - 1]
        print(f"{path.name} loaded into {kind}'s model: loss {loss:.4f}, where the other's was {of_other:.4f}")
        is_fine &= abs(loss - of_other) < NOISE * of_other
    return runs, is_fine and is_same


def same_bits(model: nn.Module, other: nn.Module) -> bool:
    pairs = zip(model.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == named and torch.equal(value, found) for (name, value), (named, found) in pairs)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    parser.add_argument("--size", choices=SIZES, help="small; on a GPU large")
    parser.add_argument("--steps", type=int, help="of training: of the small and the large model 600")
    parser.add_argument("--bytes", type=int, default=2_000_000, help="of text, where there are as many")
    parser.add_argument("--written", type=int, default=300, help="bytes that the model writes at the end")
    parser.add_argument("--bfloat16", action=argparse.BooleanOptionalAction, help="autocast; the default on a GPU")
    parser.add_argument("--lora", action="store_true", help="adapt the model to Python's source, too")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/train"), help="for what is written")
    options = parser.parse_args(arguments)
    options.size = options.size or ("large" if torch.device(options.device).type == "cuda" else "small")
    options.steps = STEPS[options.size] if options.steps is None else options.steps
    if options.steps < 1:
        parser.error(f"--steps must be 1 or more, not {options.steps}")
    options.folder.mkdir(parents=True, exist_ok=True)

    runs, is_fine = both(lambda: llama(options.size), gather(options.bytes), options, "losses")
    model = runs["NineToothed"].model
    print(f"\n{write(model, PROMPT, options.written)}\n")
    if options.lora:
        weights = {name: value.detach().clone() for name, value in model.state_dict().items()}

        def adapted() -> Any:
            base: Any = llama(options.size)
            base.load_state_dict(weights)
            return with_adapters(base)

        runs, is_alike = both(adapted, gather(options.bytes, is_source=True), options, "lora")
        print(f"\n{write(runs['NineToothed'].model, 'def ', options.written)}\n")
        is_fine &= is_alike
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
