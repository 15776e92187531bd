"""Figure 7 of the paper and more: tokens per second of a Llama, by PyTorch's means and with our modules.

    python -m benchmarks.end_to_end [--size SIZE | --model PATH] [--tokens N ...] [--variant NAME ...] [--seconds N]

Two sequences of 32 tokens each, 128, 512 and 2048 new tokens, greedily; without PATH, random weights of the shapes of
an 8B Llama, made on the device. Each variant runs once to compile and to make graphs, then three times (once for 2048),
and gives the time to the first token, the tokens per second after it (the median), and the fraction of the memory
roofline: a step's weights over the bandwidth of a copy, measured in the same run. One step is broken down by kernel,
about half way, unless a run takes more than 20 s. After each variant STEM.json is written: a run that was cut short
goes on where it ended, and `--again` begins anew. After `--seconds` no other variant begins; the exit code 3 says that
some are left. `--picture` draws STEM.png of what is in STEM.json, anywhere.
"""

import argparse
import gc
import json
import os
import pathlib
import platform
import statistics
import sys
import time

import torch

from benchmarks.end_to_end import breakdown, llama
from benchmarks.end_to_end.figure import draw
from benchmarks.end_to_end.variants import VARIANTS
from benchmarks.report import RESULTS, save, slug, table

COUNTS = (128, 512, 2048)
# As many runs of more tokens would take minutes.
LONG = 2048
# Seconds of a run that is not worth another for its kernels.
MUCH = 20
KERNELS = 6


def main(arguments=None):
    options = parse(arguments)
    os.environ["HF_HUB_OFFLINE"] = "1"
    start, device = time.monotonic(), torch.device(options.device)
    if options.picture:
        return draw_kept(stem_of(options, device))
    if device.type == "cpu" and options.size != "tiny":
        print("benchmarks.end_to_end needs a CUDA device for this; --size tiny shows that it runs", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    dtype = getattr(torch, options.dtype)
    model = llama.load(options.model, device, dtype) if options.model else llama.build(options.size, device, dtype)
    bandwidth = copied_bytes(device)
    roofline = options.batch * bandwidth / llama.bytes_of_a_step(model)
    stem = stem_of(options, device)
    path = stem.with_suffix(".json")
    try:
        results = [] if options.again else kept(path, options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{device_name(device)}: {bandwidth / 1e12:.2f} TB/s, roofline {roofline:.0f} tokens/s", flush=True)

    done = {(row["variant"], row["count"]) for row in results if "error" not in row}
    left = [(name, count) for count in options.tokens for name in options.variant if (name, count) not in done]
    while left and not time.monotonic() - start > options.seconds:
        name, count = left.pop(0)
        row = measured(VARIANTS[name], model, options, count, roofline)
        results = [old for old in results if (old["variant"], old["count"]) != (name, count)] + [row]
        results.sort(key=lambda row: (row["count"], list(VARIANTS).index(row["variant"])))
        save(path, {"options": recorded(options), "bandwidth": bandwidth, "roofline": roofline, "rows": results})
        print(f"{count} tokens, {name}: {row.get('error') or format(row['tokens/s'], '.1f')}", flush=True)

    print_results(results)
    if results:
        draw_kept(stem)
    return 1 if any("error" in row for row in results) else 3 if left else 0


def draw_kept(stem):
    """Draw STEM.png of the results in STEM.json; returns an exit code."""
    try:
        found = json.loads(stem.with_suffix(".json").read_text())
        results, of = found["results"], found["results"]["options"]
        title = f"{of['model'] or of['size']}, {found['device']}"
        draw(results["rows"], results["roofline"], stem.with_suffix(".png"), title)
    except FileNotFoundError:
        print(f"{stem}.json is not there: pass --output", file=sys.stderr)
        return 2
    except ImportError:
        print("no picture: pip install matplotlib, and call with --picture")
    return 0


def parse(arguments):
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.end_to_end", description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=llama.SIZES, default="8b", help="of the model with random weights")
    parser.add_argument("--model", type=pathlib.Path, help="a folder with a model, in the place of random weights")
    parser.add_argument("--tokens", type=int, nargs="+", default=COUNTS, help="new tokens of each sequence")
    parser.add_argument("--variant", nargs="+", choices=VARIANTS, default=tuple(VARIANTS))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--dtype", default="bfloat16", choices=("float16", "bfloat16", "float32"))
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--again", action="store_true", help="measure what is in STEM.json too")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no variant after so many")
    parser.add_argument("--picture", action="store_true", help="draw STEM.png of STEM.json, and measure nothing")
    parser.add_argument("--output", type=pathlib.Path, help="STEM; default: benchmarks/results/end-to-end-GPU-SIZE")
    return parser.parse_args(arguments)


def recorded(options):
    """Give what decides the results, as JSON holds it."""
    names = ("size", "batch", "prompt_tokens", "dtype")
    return {"model": options.model and str(options.model), **{name: getattr(options, name) for name in names}}


def stem_of(options, device):
    size = slug(options.model.name) if options.model else options.size
    return options.output or RESULTS / f"end-to-end-{slug(device_name(device))}-{size}"


def device_name(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "CPU"


def kept(path, options):
    """Read the rows of a run that was cut short; raises ValueError where it was of other options."""
    if not path.exists():
        return []
    found = json.loads(path.read_text())["results"]
    if found["options"] != recorded(options):
        raise ValueError(f"{path} is of {found['options']}: pass another --output, or --again to begin it anew")
    return found["rows"]


def measured(variant, model, options, count, roofline):
    """Run one variant: a plain dictionary of what was measured, or of why it failed."""
    inputs = prompt(model, options)
    report, row = None, {"variant": variant.name, "count": count}
    try:
        report = None if variant.swap is None else variant.swap(model)
        run = variant.prepare(model, inputs, count)
        row["warm-up"] = timed(run, model.device)[1]
        runs = [timed(run, model.device) for _ in range(1 if count >= LONG else 3)]
        rates = [options.batch * (count - 1) / (total - first) for first, total in runs]
        row["first"] = statistics.median(first for first, _ in runs)
        row["tokens/s"] = statistics.median(rates)
        row["runs"] = rates
        row["roofline"] = row["tokens/s"] / roofline
        if runs[0][1] <= MUCH:
            row["kernels"] = breakdown.kernels(run, count, model.device)
    except Exception as error:  # Whatever stops a variant is a result to be shown, not the end of the run.
        row["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    finally:
        if report is not None:
            report.undo()
        run = None
        forget(model)
    return row


def forget(model):
    """Free what a variant has kept: compiled code, and the static cache that `generate` leaves in a model."""
    torch.compiler.reset()
    for name in ("_cache", "_compiled_call", "_last_compile_config", "_previous_max_cache_length"):
        vars(model).pop(name, None)
    gc.collect()
    if model.device.type == "cuda":
        torch.cuda.empty_cache()


def prompt(model, options):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(model.config.vocab_size, (options.batch, options.prompt_tokens), generator=generator)
    return {"input_ids": ids.to(model.device), "attention_mask": torch.ones_like(ids).to(model.device)}


def timed(run, device):
    """Give the seconds to the first token, and to the last, without Python's garbage collection, as `timeit` does."""

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    seen = []
    gc.disable()
    try:
        start = wait()
        run(lambda: seen or seen.append(wait()))
        return seen[0] - start, wait() - start
    finally:
        gc.enable()


def copied_bytes(device):
    """Measure the bytes a second of a copy, counting both ways."""
    source = torch.ones(2**29 if device.type == "cuda" else 2**22, device=device)
    target = torch.empty_like(source)

    def copy(at_token):
        at_token()
        target.copy_(source)

    return 2 * source.numel() * source.element_size() / min(timed(copy, device)[1] for _ in range(6))


def print_results(results):
    rows = [
        (
            row["count"],
            row["variant"],
            f"{row['tokens/s']:.1f}",
            f"{row['roofline']:.0%}",
            f"{1e3 * row['first']:.1f}",
            f"{row['warm-up']:.1f}",
        )
        for row in results
        if "error" not in row
    ]
    if rows:
        print(table(("new tokens", "variant", "tokens/s", "of roofline", "first token, ms", "warm-up, s"), rows))
    for row in results:
        if "kernels" in row and "error" not in row:
            print_kernels(f"{row['count']} tokens, {row['variant']}", row["kernels"], KERNELS)


def print_kernels(title, kernels, count):
    """Print the longest kernels of one step."""
    total = sum(kernel["microseconds"] for kernel in kernels)
    print(f"\nOne step, {title}: {total:.0f} us\n")
    lines = [(f"{each['count']:.0f}", f"{each['microseconds']:.1f}", each["name"][:80]) for each in kernels[:count]]
    print(table(("count", "us", "kernel"), lines))


if __name__ == "__main__":
    sys.exit(main())
