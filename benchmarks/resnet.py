"""A ResNet-50 on a GPU: its convolutions, swapped, beside cuDNN's.

    python -m benchmarks.resnet [--batch N] [--dtype TYPE] [--output FILE]

The swapped model's outputs and gradients are first compared with those of float64, beside the errors of the other: with
two blocks of each stage, which have every convolution that the whole model has. Then both are timed in turns, images
with their channels last, then first: the device's time in CUDA graphs, of inference and of forward with backward, and
the host's for a step that is not in a graph. FILE is written. The exit status is 1 where ours is less exact.
"""

import argparse
import copy
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F

from benchmarks import measure
from benchmarks.numerics import RATIO
from benchmarks.report import RESULTS, save, slug, table
from ninetoothed_ops.modules import NTConv2d, swap_modules

CLASSES = 1000
# Halves lose what is smaller than they can tell from 0: the loss is scaled, as a GradScaler does.
SCALE = 256
LAYOUTS = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}
# As many blocks of each stage as have all of its convolutions.
FEW_BLOCKS = {"depths": [2, 2, 2, 2]}


def models(dtype, device, memory_format=torch.channels_last, **config):
    """Make `{name: model}` of random weights: with cuDNN's convolutions, and swapped."""
    import transformers

    torch.manual_seed(0)
    config = transformers.ResNetConfig(num_labels=CLASSES, **config)
    with torch.device(device):
        plain = transformers.ResNetForImageClassification(config).to(dtype=dtype, memory_format=memory_format)
    swapped = copy.deepcopy(plain)
    swap_modules(swapped)
    left = [name for name, module in swapped.named_modules() if type(module) is torch.nn.Conv2d]
    assert not left and any(isinstance(module, NTConv2d) for module in swapped.modules()), left
    return {"cuDNN": plain, "ours": swapped}


def examples(batch, size, dtype, device, memory_format=torch.channels_last):
    """Make random images, and the classes that they should be told to have."""
    images = torch.randn(batch, 3, size, size, device=device).to(dtype).to(memory_format=memory_format)
    return images, torch.arange(batch, device=device) % CLASSES


def compile_all(given):
    """Run each of our different convolutions in threads, so that all is compiled, `given` `(models, images)`."""
    calls = {}
    for models, images in given:
        # Ours would compile one after another here.
        for name, input in inputs(models["cuDNN"], images):
            of_images = images is input
            layer = models["ours"].get_submodule(name)
            key = repr(layer), input.shape, input.stride(), of_images
            calls[key] = layer, input.detach().requires_grad_(not of_images)

    def run(call):
        layer, input = call
        # In the thread that calls it, and not in the one that autograd has for the GPU.
        with torch.autograd.set_multithreading_enabled(False):
            layer(input).sum().backward()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, calls.values()))
    for models, _ in given:
        models["ours"].zero_grad()


def inputs(model, images):
    """List the names of the convolutions of a model, each with its input."""
    found, layers = [], [(name, each) for name, each in model.named_modules() if isinstance(each, torch.nn.Conv2d)]
    hooks = [
        layer.register_forward_hook(lambda layer, args, _, name=name: found.append((name, args[0])))
        for name, layer in layers
    ]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    return found


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

    both = {name: graphed(training(model)) for name, model in models.items()}
    found = {"forward with backward": measure.device_times(both, rounds=5)}
    host = measure.host_times({name: training(model) for name, model in models.items()}, rounds=3, repetitions=2)
    forward = {name: graphed(inference(model)) for name, model in models.items()}

    return {
        **found,
        "forward": measure.device_times(forward, rounds=5),
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
    start, dtype = time.perf_counter(), getattr(torch, options.dtype)
    given = {
        layout: examples(options.batch, 224, dtype, "cuda", memory_format) for layout, memory_format in LAYOUTS.items()
    }
    few = {layout: models(dtype, "cuda", each, **FEW_BLOCKS) for layout, each in LAYOUTS.items()}
    compile_all([(few[layout], given[layout][0]) for layout in LAYOUTS])
    compiled = time.perf_counter() - start
    off = {layout: errors(few.pop(layout), *given[layout]) for layout in LAYOUTS}
    rows = [(layout, who, *(f"{e:.1e}" for e in each)) for layout, found in off.items() for who, each in found.items()]
    print(table(("", "", "error of outputs", "of gradients"), rows), flush=True)
    print(f"compiled after {compiled:.0f} s, checked after {time.perf_counter() - start:.0f} s", flush=True)

    record = {"dtype": options.dtype, "batch": options.batch, "errors": off, "milliseconds": {}}
    path = options.output or RESULTS / f"resnet-{slug(torch.cuda.get_device_name())}-{options.dtype}.json"
    for layout, memory_format in LAYOUTS.items():
        found = record["milliseconds"][layout] = times(models(dtype, "cuda", memory_format), *given[layout])
        rows = [(what, *(f"{ms[k]:.3f}" for k in ms), f"{ms['ours'] / ms['cuDNN']:.2f}") for what, ms in found.items()]
        print(table((f"milliseconds, {layout}", "cuDNN", "ours", "ours / cuDNN"), rows))
        # After each layout, lest a run that is cut short leave nothing.
        print(f"written to {save(path, record)} after {time.perf_counter() - start:.0f} s", flush=True)

    return 0 if all(a <= RATIO * b for each in off.values() for a, b in zip(each["ours"], each["cuDNN"])) else 1


if __name__ == "__main__":
    sys.exit(main())
