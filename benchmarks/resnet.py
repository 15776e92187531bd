"""A ResNet-50 on a GPU: its convolutions, swapped, beside cuDNN's.

    python -m benchmarks.resnet [--batch N] [--dtype TYPE] [--output FILE]

The swapped model's outputs and gradients are first compared with those of float64, beside the errors of the other.
Then both are timed in turns, images with their channels last: the device's time in CUDA graphs, of inference and of
forward with backward, and the host's for a step that is not in a graph. FILE is written. The exit status is 1 where
ours is less exact.
"""

import argparse
import copy
import statistics
import sys

import torch
import torch.nn.functional as F

from benchmarks import measure
from benchmarks.numerics import RATIO
from benchmarks.report import RESULTS, save, slug, table
from ninetoothed_ops.modules import NTConv2d, swap_modules

CLASSES = 1000
# Halves lose what is smaller than they can tell from 0: the loss is scaled, as a GradScaler does.
SCALE = 256


def models(dtype, device, **config):
    """Make `{name: model}` of random weights: with cuDNN's convolutions, and swapped."""
    import transformers

    torch.manual_seed(0)
    config = transformers.ResNetConfig(num_labels=CLASSES, **config)
    plain = transformers.ResNetForImageClassification(config).to(device, dtype, memory_format=torch.channels_last)
    swapped = copy.deepcopy(plain)
    swap_modules(swapped)
    left = [name for name, module in swapped.named_modules() if type(module) is torch.nn.Conv2d]
    assert not left and any(isinstance(module, NTConv2d) for module in swapped.modules()), left
    return {"cuDNN": plain, "ours": swapped}


def examples(batch, size, dtype, device):
    """Make random images, and the classes that they should be told to have."""
    images = torch.randn(batch, 3, size, size, device=device).to(dtype).to(memory_format=torch.channels_last)
    return images, torch.arange(batch, device=device) % CLASSES


def step(model, images, labels):
    """Forward with backward; the outputs and the gradients."""
    logits = model(images).logits
    grads = torch.autograd.grad(SCALE * F.cross_entropy(logits, labels), list(model.parameters()))

    return logits, *grads


def errors(models, images, labels):
    """`{name: (error of the outputs, median error of the gradients)}`, relative to float64."""
    wide = copy.deepcopy(models["cuDNN"]).double()
    expected = step(wide, images.double(), labels)
    found = {}
    for name, model in models.items():
        off = [relative_error(*pair) for pair in zip(step(model, images, labels), expected, strict=True)]
        found[name] = off[0], statistics.median(off[1:])
    return found


def relative_error(actual, expected):
    # Before a norm, the gradient of a bias is 0, and all that is computed of it is rounding.
    return ((actual.double() - expected).norm() / expected.norm().clamp(min=1e-6)).item()


def graphed(function):
    """Capture a function of no arguments; return what replays it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        graph.kept = function()
    return graph.replay


def times(models, images, labels):
    """`{what: {name: milliseconds}}`."""

    def training(model):
        model.train()
        return lambda: step(model, images, labels)

    def inference(model):
        model.eval()

        def call():
            with torch.no_grad():
                return model(images).logits

        return call

    small = images[:1], labels[:1]
    host = measure.host_times(
        {name: lambda model=model: step(model, *small) for name, model in models.items()}, rounds=5, repetitions=3
    )
    return {
        "forward with backward": measure.device_times({name: graphed(training(m)) for name, m in models.items()}),
        "forward": measure.device_times({name: graphed(inference(m)) for name, m in models.items()}),
        "host, forward with backward": {name: value / 1e3 for name, value in host.items()},
    }


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resnet", description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32, help="how many images")
    parser.add_argument("--dtype", default="float16", choices=("float16", "bfloat16", "float32"))
    parser.add_argument("--output", help="the file written; default: benchmarks/results/resnet-GPU-TYPE.json")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    if not torch.cuda.is_available():
        print("benchmarks.resnet needs a CUDA device.", file=sys.stderr)
        return 2
    dtype = getattr(torch, options.dtype)
    both, given = models(dtype, "cuda"), examples(options.batch, 224, dtype, "cuda")
    off = errors(both, *given)
    print(
        table(("", "error of outputs", "of gradients"), [(k, *(f"{e:.1e}" for e in off[k])) for k in off]), flush=True
    )
    found = times(both, *given)
    print()
    rows = [(what, *(f"{ms[k]:.3f}" for k in off), f"{ms['ours'] / ms['cuDNN']:.2f}") for what, ms in found.items()]
    print(table(("milliseconds", *off, "ours / cuDNN"), rows))
    default = RESULTS / f"resnet-{slug(torch.cuda.get_device_name())}-{options.dtype}.json"
    record = {"dtype": options.dtype, "batch": options.batch, "errors": off, "milliseconds": found}
    print(f"\nwritten to {save(options.output or default, record)}")

    return 0 if all(a <= RATIO * b for a, b in zip(off["ours"], off["cuDNN"], strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
