"""Attention of sequences of unequal length on a GPU, forward and backward alone, beside PyTorch's ways to compute it.

    python -m benchmarks.jagged [--dtype TYPE] [--depth N] [--not-causal] [--output FILE]

Three distributions of lengths: all equal, drawn uniformly, and one long beside many short. Ours takes nested tensors;
so does PyTorch's `scaled_dot_product_attention`, `varlen_attn` takes packed rows and where they begin, and equal
lengths are dense tensors, too. Results and gradients are compared with float64 first. The GPU's time is measured with
the host ahead of it; the host's with short sequences, which no GPU is waited for: PyTorch's own work on nested tensors,
views and their gradients, is in it. FILE is written. The exit status is 1 where ours failed.
"""

import argparse
import functools
import pathlib
import random
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from benchmarks import measure, tasks
from benchmarks.report import RESULTS, save, slug, table

OURS, DENSE, VARLEN = "ninetoothed", "ninetoothed, dense", "varlen_attn"
PEERS = (OURS, DENSE, "sdpa, dense", VARLEN, "sdpa, nested")
HEADS = 16
_DRAW = random.Random(0)
LENGTHS = {
    "equal": (2048,) * 16,
    "uniform": tuple(_DRAW.randrange(1, 4096) for _ in range(16)),
    "skewed": (16384, *[256] * 63),
}
# Of so short sequences the host's time is measured.
SHORTEST = 16
# Longer entries are not compared with float64, for which a GPU has no memory.
LONGEST_COMPARED = 2048
CLOCK = {"rounds": 5, "burst": 20.0}


@dataclass(frozen=True)
class Sequences:
    """Packed queries, keys and values, (rows, heads, D), that have gradients, and where their entries are."""

    lengths: tuple[int, ...]
    offsets: torch.Tensor
    packed: tuple[torch.Tensor, ...]
    grad: torch.Tensor
    is_causal: bool

    @classmethod
    def make(cls, lengths, depth, dtype, is_causal, device="cuda"):
        generator = torch.Generator(device).manual_seed(0)
        rows = (torch.randn(sum(lengths), HEADS, depth, generator=generator, device=device) for _ in range(4))
        *packed, grad = (each.to(dtype) for each in rows)
        offsets = torch.tensor([0, *lengths], device=device).cumsum(0)
        return cls(tuple(lengths), offsets, tuple(each.requires_grad_() for each in packed), grad, is_causal)

    @property
    def nested(self):
        """Nested tensors (batch, heads, jagged, D) of which PyTorch knows the longest entry."""
        ends = {"min_seqlen": min(self.lengths), "max_seqlen": max(self.lengths)}
        make = torch.nested.nested_tensor_from_jagged
        return [make(each, self.offsets, **ends).transpose(1, 2) for each in self.packed]

    @property
    def dense(self):
        """Views (batch, heads, rows, D), of entries of one length."""
        batch = len(self.lengths)
        return [each.unflatten(0, (batch, -1)).transpose(1, 2) for each in self.packed]

    @property
    def operations(self):
        """Count the operations of the forward: a product for scores, and one for results, of what is seen."""
        seen = sum(length * (length + 1) // 2 if self.is_causal else length**2 for length in self.lengths)
        return 4 * seen * HEADS * self.packed[0].shape[-1]


def functions(given):
    """`{peer: function of no arguments}`: those that there are; each gives rows (rows, heads, D)."""
    import ninetoothed_ops

    nested, options = given.nested, {"is_causal": given.is_causal}

    def rows(function, tensors):
        return function(*tensors, **options).values().transpose(0, 1)

    def batched(function, tensors):
        return function(*tensors, **options).transpose(1, 2).flatten(0, 1)

    found = {OURS: functools.partial(rows, ninetoothed_ops.sdpa, nested)}
    if len(set(given.lengths)) == 1:
        found[DENSE] = functools.partial(batched, ninetoothed_ops.sdpa, given.dense)
        found["sdpa, dense"] = functools.partial(batched, F.scaled_dot_product_attention, given.dense)
    varlen = _varlen(given)
    if varlen is not None:
        found[VARLEN] = varlen
    found["sdpa, nested"] = functools.partial(rows, F.scaled_dot_product_attention, nested)
    return found


def _varlen(given):
    """PyTorch's attention of packed rows; None where it is not there."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    starts, longest = given.offsets.to(torch.int32), max(given.lengths)
    window = (-1, 0) if given.is_causal else (-1, -1)
    return functools.partial(varlen_attn, *given.packed, starts, starts, longest, longest, window_size=window)


def reference(given):
    """`{entry: (rows, output and gradients in float64)}` of the first entries that are short enough."""
    found, start = {}, 0
    for entry, length in enumerate(given.lengths[:8]):
        rows, start = slice(start, start + length), start + length
        if length > LONGEST_COMPARED:
            continue
        leaves = [each.detach()[rows].double().requires_grad_() for each in given.packed]
        query, key, value = (each.transpose(0, 1) for each in leaves)
        scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
        if given.is_causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        output = (scores.softmax(-1) @ value).transpose(0, 1)
        grads = torch.autograd.grad(output, leaves, given.grad[rows].double())
        found[entry] = rows, (output.detach(), *grads)
    return found


def errors(function, given, expected):
    """The largest relative errors of a peer: of the result, and of gradients."""
    output = function()
    found = output.detach(), *torch.autograd.grad(output, given.packed, given.grad)
    if not expected:
        return [float("nan")] * 2
    pairs = []
    for index, tensor in enumerate(found):
        parts = ((tensor[rows], wanted[index]) for rows, wanted in expected.values())
        pairs.append(map(torch.cat, zip(*parts, strict=True)))
    forward, *backward = (tasks.relative_error(*pair) for pair in pairs)
    return [forward, max(backward)]


def compare(name, lengths, depth, dtype, is_causal, device="cuda", clock=CLOCK):
    """Measure one distribution; yields a plain dictionary for the forward and for the backward."""
    given = Sequences.make(lengths, depth, dtype, is_causal, device)
    short = Sequences.make([SHORTEST] * len(lengths), depth, dtype, is_causal, device)
    expected, found, failed = reference(given), functions(given), {}
    for peer in list(found):
        try:
            failed[peer] = errors(found[peer], given, expected)
        except Exception as error:  # Whatever stops a peer is a result to be shown, not the end of the run.
            failed[peer] = [f"{type(error).__name__}: {error}".splitlines()[0]] * 2
            del found[peer]
    of_host = {peer: call for peer, call in functions(short).items() if peer in found}
    case = f"{name}{' causal' if is_causal else ''}, depth {depth}"
    for index, (op, factor) in enumerate((("sdpa", 1), ("sdpa backward", 2.5))):
        times, host = measured(found, of_host, given, short, index > 0, clock)
        errors_ = {peer: each[index] for peer, each in failed.items()}
        rate = factor * given.operations / (times.get(OURS, float("nan")) / 1e3) / 1e12
        yield {
            "op": op, "case": case, "milliseconds": times, "host microseconds": host, "errors": errors_, "TFLOP/s": rate
        }  # fmt: skip


def measured(found, of_host, given, short, is_backward, clock):
    """(milliseconds of the GPU, microseconds of the host) of each peer, forward or backward alone."""
    if is_backward:
        of_host = backwards(of_host, short)
        return measure.device_times(backwards(found, given), **clock), measure.host_times(of_host, 5, 20)
    with torch.no_grad():
        return measure.device_times(found, **clock), measure.host_times(of_host, 5, 20)


def backwards(calls, given):
    """`{peer: function of no arguments}` that does the backward alone, over and over."""

    def backward(output):
        return lambda: torch.autograd.grad(output, given.packed, given.grad, retain_graph=True)

    return {peer: backward(call()) for peer, call in calls.items()}


def row(result):
    times, host = result["milliseconds"], result["host microseconds"]
    ours, missing = times.get(OURS, float("nan")), float("nan")
    ratios = (ours / times.get(peer, missing) for peer in (DENSE, VARLEN))
    error = result["errors"][OURS]
    return (
        result["op"],
        result["case"],
        *(f"{times[peer]:.4f}" if peer in times else "-" for peer in PEERS),
        *(f"{ratio:.3f}" if ratio == ratio else "-" for ratio in ratios),
        f"{result['TFLOP/s']:.0f}",
        *(f"{host[peer]:.0f}" if peer in host else "-" for peer in PEERS),
        error if isinstance(error, str) else f"{error:.1e}",
    )


def headings():
    ratios = "ours / dense", "ours / varlen"
    return (
        "operation",
        "case",
        *(f"{peer}, ms" for peer in PEERS),
        *ratios,
        "TFLOP/s",
        *(f"{peer}, host us" for peer in PEERS),
        "error",
    )


def main(arguments=None, distributions=LENGTHS, device="cuda"):
    """Print what was measured, and write it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jagged", description=__doc__.partition("\n")[0])
    parser.add_argument("--dtype", default="bfloat16", choices=("float16", "bfloat16", "float32"))
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--not-causal", action="store_true")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args(arguments)
    path = options.output or RESULTS / f"jagged-{slug(torch.cuda.get_device_name())}-{options.dtype}.json"
    results, dtype = [], getattr(torch, options.dtype)
    for name, lengths in distributions.items():
        for found in compare(name, lengths, options.depth, dtype, not options.not_causal, device):
            results.append(found)
            save(path, {"dtype": options.dtype, "lengths": distributions, "kernels": results})
            print("  ".join(row(found)), flush=True)
    print(f"\n{table(headings(), list(map(row, results)))}\n\nwritten to {path}")
    return int(any(isinstance(result["errors"][OURS], str) for result in results))


if __name__ == "__main__":
    sys.exit(main())
