"""A training step of a Llama of 1.5B: forward, loss, backward, AdamW; PyTorch's, and with our modules and loss.

    python -m benchmarks.training [--size SIZE] [--batch N] [--length N] [--variant NAME ...] [--output FILE]

The gradients of two layers are first compared with those of float64, beside PyTorch's own. Then each variant trains the
same random weights on the same tokens: its losses must be those of the first, and are printed. Of a step it gives the
tokens per second, the median; the most memory that is held; the device's time by kernel; and the host's, for which each
of the four parts is issued to a GPU that waits for it. FILE is written after each variant. The exit status is 1 where
ours is less exact, or a loss is another.
"""

import argparse
import gc
import importlib.util
import statistics
import sys
import time

import torch

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
    """Put Liger's kernels into a model. It changes functions of transformers, so that no variant may follow."""
    from liger_kernel.transformers import apply_liger_kernel_to_llama

    apply_liger_kernel_to_llama(model=model)


# By name: how modules are swapped, if any, and whether layers and loss are compiled.
VARIANTS = {
    "eager": (None, False),
    "ours, eager": (swapped, False),
    "compiled": (None, True),
    "ours, compiled": (swapped, True),
    **({"liger": (by_liger, False)} if importlib.util.find_spec("liger_kernel") else {}),
}
STEPS, WARM_UP = 8, 4
# By how much a loss may differ from the first variant's, relative to it: bfloat16 rounds weights after each step.
LOSS = 0.01
KERNELS = 7


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


def measured(name, size, ids):
    """Train by one variant: a plain dictionary of what was measured."""
    swap, is_compiled = VARIANTS[name]
    model = llama.build(size, ids.device, torch.bfloat16)
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
    return row


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
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048, help="tokens of each sequence")
    parser.add_argument("--variant", nargs="+", choices=VARIANTS, default=tuple(VARIANTS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", help="the file written; default: benchmarks/results/training-GPU-SIZE.json")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    device = torch.device(options.device)
    if device.type == "cpu" and options.size != "tiny":
        print("benchmarks.training needs a CUDA device for this; --size tiny shows that it runs", file=sys.stderr)
        return 2
    start = time.perf_counter()
    size, generator = llama.SIZES[options.size], torch.Generator().manual_seed(0)
    ids = torch.randint(size["vocab_size"], (options.batch, options.length), generator=generator).to(device)
    off = check(options.size, ids)
    rows = [(name, *(f"{each:.1e}" for each in found)) for name, found in off.items()]
    print(table(("two layers", "error of the loss", "of the gradients"), rows), flush=True)
    forget()

    path = options.output or RESULTS / f"training-{slug(device_name(device))}-{options.size}.json"
    record = {"size": options.size, "batch": options.batch, "length": options.length, "errors": off, "rows": {}}
    for name in options.variant:
        row = record["rows"][name] = measured(name, options.size, ids)
        forget()
        save(path, record)
        print(f"{name}: {row['tokens/s']:.0f} tokens/s after {time.perf_counter() - start:.0f} s", flush=True)
    print_rows(record["rows"])

    first, *others = (torch.tensor(row["losses"]) for row in record["rows"].values())
    are_alike = all(torch.allclose(each, first, rtol=LOSS, atol=0.0) for each in others)
    is_exact = off["ours, eager"][1] <= RATIO * off["eager"][1]
    return 0 if are_alike and is_exact else 1


def print_rows(rows):
    headings = ("", "tokens/s", "GiB", "device ms", "host ms", "losses", "warm-up s")
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
    ]))  # fmt: skip
    for name, row in rows.items():
        print_kernels(name, row["kernels"], KERNELS)


if __name__ == "__main__":
    sys.exit(main())
