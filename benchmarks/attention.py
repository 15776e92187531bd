"""Attention on a GPU, forward and backward alone, beside cuDNN's and FlashAttention's: see `benchmarks.kernels`."""

import functools
import pathlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from benchmarks import measure, tasks
from benchmarks.figure import draw
from benchmarks.report import RESULTS, save, slug, table

OURS = "ninetoothed"
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
# Batch, heads, heads of keys, length, depth, and whether it is causal.
SHAPES = (
    (4, 48, 48, 1024, 64, False),
    (4, 48, 48, 1024, 64, True),
    (2, 32, 8, 4096, 64, True),
    (2, 16, 16, 8192, 64, False),
    (2, 16, 16, 2048, 96, True),
    (4, 16, 16, 1024, 128, False),
    (4, 32, 8, 1024, 128, True),
    (4, 32, 8, 2048, 128, True),
    (4, 16, 16, 4096, 128, False),
    (2, 16, 16, 8192, 128, True),
    (1, 64, 8, 8192, 128, True),
    (1, 64, 8, 8192, 128, False),
    (2, 16, 16, 2048, 256, True),
)
CLOCK = {"rounds": 5, "burst": 20.0}
# Longer ones are not compared with float64, for which a GPU has no memory.
LONGEST_COMPARED = 2048


def functions():
    """`{peer: function}`, each of the arguments of PyTorch's."""
    import ninetoothed_ops  # noqa: F401  (registers torch.ops.ninetoothed)

    def restricted(backend, *args, **kwargs):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*args, **kwargs)

    others = {name: functools.partial(restricted, backend) for name, backend in BACKENDS.items()}
    return {OURS: torch.ops.ninetoothed.sdpa, **others}


def compare(shape, dtype, device="cuda"):
    """Time one shape, forward and backward alone: a plain dictionary of what was measured for each."""
    batch, heads, groups, length, depth, is_causal = shape
    generator = torch.Generator(device).manual_seed(0)

    def random(count):
        return torch.randn(batch, count, length, depth, generator=generator, device=device).to(dtype)

    given, grad = [random(count) for count in (heads, groups, groups)], random(heads)
    options = {"is_causal": is_causal, "enable_gqa": heads != groups}
    forward, backward, errors = {}, {}, {}
    expected = None
    if length <= LONGEST_COMPARED:
        expected = both(F.scaled_dot_product_attention, [each.double() for each in given], grad.double(), options)
    for peer, function in functions().items():
        try:
            found = both(function, given, grad, options)
        except Exception as error:  # Whatever stops a peer is a result to be shown, not the end of the run.
            errors[peer] = [f"{type(error).__name__}: {error}".splitlines()[0]] * 2
            continue
        forward[peer] = functools.partial(function, *given, **options)
        backward[peer] = backward_of(function, given, grad, options)
        if expected is not None:
            errors[peer] = [tasks.relative_error(*pair) for pair in zip(found, expected, strict=True)]
    with torch.no_grad():
        times = measure.device_times(forward, **CLOCK)
    work = tasks.load("sdpa").products(*given, is_causal=is_causal)
    case = f"({batch}, {heads}/{groups}, {length}, {depth}){' causal' if is_causal else ''}"
    results = []
    # A product for the scores and one for the result; in the backward two for the scores and theirs, and three beside.
    parts = ("sdpa", times, work), ("sdpa backward", measure.device_times(backward, **CLOCK), work * 5 // 2)
    for index, (op, milliseconds, operations) in enumerate(parts):
        rate = operations / (milliseconds.get(OURS, float("nan")) / 1e3) / 1e12
        found = {peer: error[index] for peer, error in errors.items()}
        results.append({"op": op, "case": case, "milliseconds": milliseconds, "errors": found, "TFLOP/s": rate})
    return results


def both(function, given, grad, options):
    """The output, and the gradients of what was given."""
    leaves = [each.detach().requires_grad_() for each in given]
    output = function(*leaves, **options)

    return output.detach(), torch.autograd.grad(output, leaves, grad)


def backward_of(function, given, grad, options):
    """A function of no arguments that does the backward alone, over and over."""
    leaves = [each.detach().requires_grad_() for each in given]
    output = function(*leaves, **options)

    return lambda: torch.autograd.grad(output, leaves, grad, retain_graph=True)


def row(result):
    times, errors = result["milliseconds"], result["errors"]
    ours = times.get(OURS, float("nan"))
    best = min((value for peer, value in times.items() if peer != OURS), default=float("nan"))
    shown = (errors.get(peer, "-") for peer in (OURS, *BACKENDS))
    return (
        result["op"],
        result["case"],
        *(f"{times[peer]:.4f}" if peer in times else "-" for peer in (OURS, *BACKENDS)),
        f"{ours / best:.3f}",
        f"{result['TFLOP/s']:.0f}",
        *(error if isinstance(error, str) else f"{error:.1e}" for error in shown),
    )


def main(dtype, output=None, shapes=SHAPES, device="cuda"):
    """Print the sweep, and write it as JSON and as a picture; returns the exit status."""
    peers, name, kind = (OURS, *BACKENDS), torch.cuda.get_device_name(), str(dtype).removeprefix("torch.")
    stem = output or str(RESULTS / f"attention-{slug(name)}-{kind}")
    results = []
    for shape in tqdm(shapes, disable=None, leave=False):
        found = compare(shape, dtype, device)
        results += found
        save(f"{stem}.json", {"dtype": kind, "kernels": results})  # A sweep that is cut off leaves what it measured.
        for each in found:
            tqdm.write("  ".join(row(each)))
    headings = "operation", "case", *(f"{peer}, ms" for peer in peers), "ours / best", "TFLOP/s"
    print(table((*headings, *(f"{peer}, error" for peer in peers)), list(map(row, results))))
    figure = draw(results, pathlib.Path(f"{stem}.png"), f"{name}, {kind}, attention", "cudnn")
    print(f"\nwritten to {stem}.json and {figure}")
    return int(any(isinstance(result["errors"].get(OURS), str) for result in results))
