"""Where the seconds of attention's first call go, in a new process with empty caches.

Imports and the CUDA context are apart.

    python -m benchmarks.first_call                    # on a GPU: forward, and with backward, a process each
    python -m benchmarks.first_call --gpu h200         # without one: kernels are compiled, and not launched

The time of a part is its own: what it calls that is a part, too, is left out of it. Kernels of a backward are compiled
by threads, whose times add up: "rest" is less by what they overlap, and may be below zero.
"""

import argparse
import collections
import functools
import importlib
import json
import logging
import os
import sys
import tempfile
import threading
import time

import torch

from benchmarks import cold
from benchmarks.report import table

# Batch, heads, heads of keys, length, depth, and whether it is causal.
SHAPES = ((4, 48, 48, 1024, 64, False), (4, 16, 16, 4096, 128, True))
MODES = ("forward", "with backward")
# Each part with what does it: a module, and a name in it.
PARTS = (
    ("selection", "ninetoothed.runtime.selection.ranking", "candidates"),
    ("tracing", "ninetoothed.runtime.variants", "trace"),
    ("tracing", "ninetoothed.runtime.executable", "trace"),
    ("passes", "ninetoothed.passes", "run"),
    ("text", "ninetoothed.backends.triton", "print_kernel"),
    ("text", "ninetoothed.backends.gluon", "print_kernel"),
    ("Triton", "triton", "compile"),
    ("ptxas", "triton.backends.nvidia.compiler", "CUDABackend.make_cubin"),
    ("ptxas", "ninetoothed.runtime.compilation.assembler", "Assembler.assemble"),
    ("loading", "ninetoothed.runtime.compilation.compile", "CompiledKernel.on"),
)
COLUMNS = (*dict.fromkeys(label for label, *_ in PARTS), "rest", "all")


class Parts:
    """Adds up the time of each part, without that of the parts within."""

    def __init__(self):
        self.seconds = collections.Counter()
        self._stacks = threading.local()

    @property
    def inner(self):
        """The parts that this thread is in, the seconds of what is within each."""
        return self._stacks.__dict__.setdefault("inner", [])

    def timed(self, label, function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            self.inner.append(0.0)
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                taken, within = time.perf_counter() - began, self.inner.pop()
                self.seconds[label] += taken - within
                if self.inner:
                    self.inner[-1] += taken

        return run

    def watch(self):
        """Time the functions of all parts, in this process."""
        for label, module, name in PARTS:
            *owners, last = name.split(".")
            owner = functools.reduce(getattr, owners, importlib.import_module(module))
            setattr(owner, last, self.timed(label, getattr(owner, last)))


class Compiled(logging.Handler):
    """Counts the kernels that were compiled, by their names."""

    def __init__(self):
        super().__init__()
        self.names = collections.Counter()

    def emit(self, record):
        if record.msg.startswith("compiled kernel"):
            self.names[record.args[0]] += 1


def measure(mode, shape, gpu=None):
    """Call attention once: the seconds of each part, and how many kernels of each name were compiled."""
    import torch.fx.experimental.symbolic_shapes  # noqa: F401  (the first torch.autograd.grad imports it: two seconds)

    import ninetoothed_ops  # noqa: F401  (registers torch.ops.ninetoothed)

    parts, compiled, log = Parts(), Compiled(), logging.getLogger("ninetoothed")
    log.setLevel("INFO")
    log.addHandler(compiled)
    log.propagate = False
    call = _compiling(mode, shape, gpu) if gpu else _calling(mode, shape)
    parts.watch()
    began = time.perf_counter()
    call()
    seconds = dict(parts.seconds, all=time.perf_counter() - began)
    seconds["rest"] = seconds["all"] - sum(parts.seconds.values())
    return {"seconds": seconds, "compiled": compiled.names}


def _calling(mode, shape):
    batch, heads, groups, length, depth, is_causal = shape
    given = [torch.randn(batch, n, length, depth, device="cuda", dtype=torch.float16) for n in (heads, groups, groups)]
    grad, needs = torch.randn_like(given[0]), mode == "with backward"
    given = [each.requires_grad_(needs) for each in given]
    torch.cuda.synchronize()

    def call():
        output = torch.ops.ninetoothed.sdpa(*given, is_causal=is_causal, enable_gqa=heads != groups)
        if needs:
            torch.autograd.grad(output, given, grad)
        torch.cuda.synchronize()

    return call


def _compiling(mode, shape, gpu):
    """Compile what a call would, by what its operators launch."""
    from ninetoothed.runtime import dispatch
    from ninetoothed.runtime.selection import machine
    from ninetoothed_ops.kernels import sdpa, sdpa_backward_key_value, sdpa_backward_query, sdpa_with_lse

    batch, heads, groups, length, depth, is_causal = shape
    query, *keys = (torch.empty(batch, n, length, depth, dtype=torch.float16) for n in (heads, groups, groups))
    row, mask = torch.empty(batch, heads, length, 1), torch.empty(1, dtype=torch.float16)
    by_rows, by_columns = (mask.expand(batch, heads, *sizes) for sizes in ((length, 1), (1, length)))
    more = torch.empty(batch, dtype=torch.float16), 0, 0.1, 0.0
    shared, flags = (query, row, row, row), (sdpa.NO_MASK, is_causal, False, False)
    calls = [(sdpa.make(), (query, *keys, by_rows, 0.1, query, *flags[:2]))]
    if mode == "with backward":
        calls = [
            (sdpa_with_lse.make(), (query, *keys, by_rows, *more, query, row, row, *flags[:2], False, *flags[2:])),
            (sdpa_backward_query.make(), (query, *keys, by_rows, *more, *shared, query, *flags)),
            (sdpa_backward_key_value.make(), (query, *keys, by_columns, *more, *shared, *keys, *flags)),
        ]

    def call():
        # A backward's are compiled once the forward is.
        for together in (calls[:1], calls[1:]):
            new = [(dispatch.Launcher(kernel.definition), values) for kernel, values in together]
            dispatch.compile_together(new, machine.named(gpu))

    return call


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_call", description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", help="compile for a GPU that need not be there, such as h200, and launch nothing")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        mode, index = options.only
        print(json.dumps(measure(mode, SHAPES[int(index)], options.gpu)))
        return
    rows = []
    for index, shape in enumerate(SHAPES):
        for mode in MODES:
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, **{name: os.path.join(folder, name.lower()) for name in cold.CACHES}}
                command = [sys.executable, "-m", "benchmarks.first_call", "--only", mode, str(index)]
                found = cold.run(command + (["--gpu", options.gpu] if options.gpu else []), environment)
            batch, heads, groups, *sizes, is_causal = shape
            case = f"({batch}, {heads}/{groups}, {', '.join(map(str, sizes))}){' causal' if is_causal else ''}"
            seconds = (f"{found['seconds'].get(column, 0.0):.2f}" for column in COLUMNS)
            rows.append((f"{case} {mode}", *seconds, str(sum(found["compiled"].values()))))
            print("  ".join(rows[-1]), flush=True)
    print(table(("attention", *(f"{column}, s" for column in COLUMNS), "compiled"), rows))


if __name__ == "__main__":
    main()
