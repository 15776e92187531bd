"""A training step of a Llama of 1.5B: forward, loss, backward, AdamW; PyTorch's, and with our modules and loss.

    python -m benchmarks.training [--size SIZE] [--layers N] [--checkpoint] [--variant NAME ...] [--output FILE]
    python -m benchmarks.training --size 8b --layers 8 --checkpoint

The gradients of two layers are first compared with those of float64, beside PyTorch's own. Then each variant trains the
same random weights on the same tokens: its losses must be those of the first, and are printed. Of a step it gives the
tokens per second, the median; the most memory that is held, and the memory over a step; the device's time by kernel;
and the host's, for which each of the four parts is issued to a GPU that waits for it. Liger's kernels are a variant
where they are installed; with `--checkpoint` each layer computes its activations again in backward. FILE is written,
and the variant's rows printed, after each variant; a picture is drawn beside FILE, again from what it holds with
`--picture`. A variant that raises is reported, and the next one begins; after `--seconds` none does. The exit status is
1 where ours is less exact, a loss is another or a variant raised, and 3 where variants are left.
"""

import argparse
import contextlib
import gc
import importlib.util
import json
import pathlib
import statistics
import sys
import time
import traceback

import torch

from benchmarks import memory_curve
from benchmarks.end_to_end import breakdown, llama
from benchmarks.end_to_end.__main__ import device_name, print_kernels
from benchmarks.numerics import RATIO
from benchmarks.report import RESULTS, save, slug, table
from benchmarks.resnet import relative_error
from ninetoothed_ops import swap_modules
from ninetoothed_ops.modules.causal_lm import NTCausalLM


def swapped(model):
    """Put our modules into a model, and our loss, which needs no logits."""
    return swap_modules(model, join=True, loss=True)


def by_liger(model):
    """Put Liger's kernels into a model, and into functions of transformers: see `restored`."""
    from liger_kernel.transformers import apply_liger_kernel_to_llama

    apply_liger_kernel_to_llama(model=model)


@contextlib.contextmanager
def restored():
    """Give transformers' module of Llama its functions and classes back at the end."""
    from transformers.models.llama import modeling_llama

    kept = dict(vars(modeling_llama))
    try:
        yield
    finally:
        vars(modeling_llama).update(kept)


# By name: how modules are swapped, if any, and whether layers and loss are compiled.
VARIANTS = {
    "eager": (None, False),
    **({"liger": (by_liger, False)} if importlib.util.find_spec("liger_kernel") else {}),
    "ours, eager": (swapped, False),
    "compiled": (None, True),
    "ours, compiled": (swapped, True),
}
STEPS, WARM_UP = 8, 4
# By how much a loss may differ from the first variant's, relative to it: bfloat16 rounds weights after each step.
# And by how much one near zero may: a large model knows the batch by heart after a few steps.
LOSS, LOSS_NEAR_ZERO = 0.01, 0.001
KERNELS = 12


class Training:
    """The training of a model on one batch of tokens.

    Its layers are compiled, and its loss, and not the whole: a compiled Llama makes a causal mask, which attention
    reads, where another one is told to be causal.
    """

    def __init__(self, model, ids, is_compiled=False):
        self.model, self.ids = model.train().requires_grad_(), ids
        # With its state, a fused step is one launch for many weights.
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        if is_compiled:
            for layer in model.model.layers:
                layer.compile(dynamic=False)
            if not isinstance(model, NTCausalLM):  # whose loss is one operator
                model.loss_function = torch.compile(model.loss_function, dynamic=False)

    def forward(self):
        self.loss = self.model(input_ids=self.ids, labels=self.ids, use_cache=False).loss

    def backward(self):
        self.loss.backward()

    def update(self):
        self.optimizer.step()

    def forget(self):
        self.optimizer.zero_grad()

    def parts(self):
        return self.forward, self.backward, self.update, self.forget

    def step(self):
        for part in self.parts():
            part()
        return self.loss.detach()


def check(size, ids):
    """Give, for PyTorch's model and ours, the loss's error and the gradients' median error, relative to float64."""
    found, expected = {}, None
    for name, swap in (("float64", None), ("eager", None), ("ours, eager", swapped)):
        model = llama.build(size, ids.device, torch.bfloat16, num_hidden_layers=2)
        training = Training(model.double() if expected is None else model, ids)
        if swap is not None:
            swap(model)
        training.forward()
        training.backward()
        values = [training.loss.detach(), *(each.grad for each in model.parameters())]
        if expected is None:
            expected = values
        else:
            off = [relative_error(*pair) for pair in zip(values, expected, strict=True)]
            found[name] = off[0], statistics.median(off[1:])
    return found


def measured(name, options, ids):
    """Train by one variant: a plain dictionary of what was measured."""
    swap, is_compiled = VARIANTS[name]
    model = llama.build(options.size, ids.device, torch.bfloat16, **layers(options))
    if options.checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if swap is not None:
        swap(model)
    training = Training(model, ids, is_compiled)
    start = time.perf_counter()
    losses = [training.step() for _ in range(WARM_UP)]
    row = {"losses": torch.stack(losses).tolist(), "warm-up": time.perf_counter() - start}
    on_gpu = ids.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    steps = [seconds(training.step, on_gpu)[1] for _ in range(STEPS)]
    row["tokens/s"] = ids.numel() / statistics.median(steps)
    if on_gpu:
        row["GiB"] = torch.cuda.max_memory_allocated() / 2**30
    host = [[seconds(part, on_gpu)[0] for part in training.parts()] for _ in range(STEPS)]
    row["host ms"] = [1e3 * statistics.median(times) for times in zip(*host)]

    def run(at_token):
        while True:
            training.step()
            at_token()

    row["kernels"] = breakdown.kernels(run, STEPS, ids.device)
    row["device ms"] = sum(each["microseconds"] for each in row["kernels"]) / 1e3
    held = 0 if on_gpu else sum(each.nbytes for each in kept(training))
    row["memory"] = memory_curve.curve(training.step, on_gpu, held)
    return row


def kept(training):
    """Give the tensors that are kept between two steps: parameters and what the optimiser knows of them."""
    states = training.optimizer.state.values()
    tensors = (value for state in states for value in state.values() if isinstance(value, torch.Tensor))
    return *training.model.parameters(), *tensors


def layers(options):
    """Give the number of layers, where it is not the size's own, as transformers calls it."""
    return {"num_hidden_layers": options.layers} if options.layers else {}


def seconds(function, on_gpu):
    """Call a function: the seconds until the host is back, and until the GPU has done all."""

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    wait()
    start = time.perf_counter()
    function()
    issued = time.perf_counter() - start
    wait()
    return issued, time.perf_counter() - start


def forget():
    """Free what a variant has held."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=llama.SIZES, default="1b")
    parser.add_argument("--layers", type=int, help="fewer layers than the size has")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048, help="tokens of each sequence")
    parser.add_argument("--checkpoint", action="store_true", help="compute activations again in backward")
    parser.add_argument("--variant", nargs="+", choices=VARIANTS, default=tuple(VARIANTS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no other variant begins")
    parser.add_argument("--picture", action="store_true", help="draw what FILE holds, and measure nothing")
    parser.add_argument("--output", type=pathlib.Path, help="FILE; default: benchmarks/results/training-GPU-SIZE.json")
    return parser.parse_args(arguments)


def main(arguments=None):
    options, start = parse(arguments), time.perf_counter()
    device = torch.device(options.device)
    path = options.output or RESULTS / f"training-{slug(device_name(device))}-{named(options)}.json"
    if options.picture:
        print(f"drew {draw(path)}")
        return 0
    if device.type == "cpu" and options.size != "tiny":
        print("benchmarks.training needs a CUDA device for this; --size tiny shows that it runs", file=sys.stderr)
        return 2
    size, generator = llama.SIZES[options.size], torch.Generator().manual_seed(0)
    ids = torch.randint(size["vocab_size"], (options.batch, options.length), generator=generator).to(device)
    off = check(options.size, ids)
    rows = [(name, *(f"{each:.1e}" for each in found)) for name, found in off.items()]
    print(table(("two layers", "error of the loss", "of the gradients"), rows), flush=True)
    forget()

    record = {"size": options.size, **layers(options), "batch": options.batch, "length": options.length}
    record |= {"checkpoint": options.checkpoint, "errors": off, "rows": {}}
    left = list(options.variant)
    while left and time.perf_counter() - start < options.seconds:
        name = left.pop(0)
        record["rows"][name] = row = attempted(name, options, ids)
        forget()
        save(path, record)
        print(f"\n{name}, after {time.perf_counter() - start:.0f} s: {row.get('error', '')}", flush=True)
        print_rows({name: row})
    if record["rows"]:
        print()
        print_rows(record["rows"], by_kernel=False)
        print(f"drew {draw(path)}")

    found = record["rows"].values()
    losses = [torch.tensor(row["losses"]) for row in found if "error" not in row]
    are_alike = all(torch.allclose(each, losses[0], rtol=LOSS, atol=LOSS_NEAR_ZERO) for each in losses)
    is_exact = off["ours, eager"][1] <= RATIO * off["eager"][1]
    is_whole = len(losses) == len(found)
    return 1 if not (are_alike and is_exact and is_whole) else 3 if left else 0


def named(options):
    """Name what is trained, as part of a file's name."""
    fewer = f"-{options.layers}-layers" if options.layers else ""
    return f"{options.size}{fewer}{'-checkpointed' if options.checkpoint else ''}"


def attempted(name, options, ids):
    """Train by one variant: what was measured, or the error, such as one of memory, by which others are not lost."""
    try:
        with restored():
            return measured(name, options, ids)
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def draw(path):
    """Draw what was measured beside its file."""
    found = json.loads(path.read_text())
    results = found["results"]
    checkpointed = ", activation checkpointing" if results.get("checkpoint") else ""
    title = (
        f"A training step of Llama {results['size']}, {results['batch']} x {results['length']} tokens, "
        f"bfloat16, AdamW{checkpointed} ({found['device']}, PyTorch {found['torch']})"
    )
    return memory_curve.draw(results["rows"], path.with_suffix(".png"), title)


def print_rows(rows, by_kernel=True):
    headings = ("", "tokens/s", "GiB", "device ms", "host ms", "losses", "warm-up s")
    rows = {name: row for name, row in rows.items() if "error" not in row}
    if not rows:
        return
    print(table(headings, [
        (
            name,
            f"{row['tokens/s']:.0f}",
            f"{row.get('GiB', 0):.1f}",
            f"{row['device ms']:.1f}",
            f"{sum(row['host ms']):.1f} = {' + '.join(f'{ms:.1f}' for ms in row['host ms'])}",
            " ".join(f"{loss:.4f}" for loss in row["losses"]),
            f"{row['warm-up']:.0f}",
        )
        for name, row in rows.items()
    ]), flush=True)  # fmt: skip
    if by_kernel:
        for name, row in rows.items():
            print_kernels(name, row["kernels"], KERNELS)


if __name__ == "__main__":
    sys.exit(main())
