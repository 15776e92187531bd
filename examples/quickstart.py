"""The first steps: write a kernel, run it, read what was generated, make it an operator, compile what uses it.

python examples/quickstart.py [--device cpu|cuda]
"""

import argparse
import sys

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
import ninetoothed_ops
from ninetoothed import Tensor, block_size


# The arrangement says which tiles belong together: block i of each of the three vectors is one program's.
def arrangement(gate, up, output, BLOCK_SIZE=block_size()):
    return gate.tile((BLOCK_SIZE,)), up.tile((BLOCK_SIZE,)), output.tile((BLOCK_SIZE,))


# The application says, as plain serial code, what one program does with its tiles.
def application(gate, up, output):
    output = gate * ntl.sigmoid(gate) * up


kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)), kernel_name="swiglu")


def allocate(gate, up):
    """Make the operator's result, not yet filled; this also runs where there is no data, under `torch.compile`."""
    if gate.shape != up.shape:
        raise ValueError(f"swiglu: the shapes {tuple(gate.shape)} and {tuple(up.shape)} differ")
    return torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)


def launch(output, gate, up):
    """Fill the operator's result."""
    kernel(gate.flatten(), up.flatten(), output.view(-1))


def error(actual, expected):
    """Return the distance of `actual` from `expected`, relative to the size of `expected`."""
    return ((actual.double() - expected.double()).norm() / expected.double().norm()).item()


def main(arguments=None):
    """Take the four steps; return 2 for a device that is not there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    devices = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)
    parser.add_argument("--device", default=devices[0])
    device = parser.parse_args(arguments).device
    if device.partition(":")[0] not in devices:
        print(f"--device {device}: here the kernels run on {' and on '.join(devices)}", file=sys.stderr)
        return 2

    # A kernel is called with tensors; the result is in the last of them.
    gate, up = torch.randn(98432, device=device), torch.randn(98432, device=device)
    output = torch.empty_like(gate)
    kernel(gate, up, output)
    print(f"1. the kernel on {device}: relative error {error(output, F.silu(gate) * up):.1e}")

    # The text that a GPU gets, and the configuration chosen for it.
    print(f"2. what was generated:\n\n{kernel.source(gate, up, output)}")

    # An operator allocates its output, and PyTorch knows its shapes without running it.
    ninetoothed_ops.register("quickstart::swiglu(Tensor gate, Tensor up) -> Tensor", allocate, launch)
    gate, up = torch.randn(4, 7, 100, device=device), torch.randn(4, 7, 100, device=device)
    print(f"3. the operator: relative error {error(torch.ops.quickstart.swiglu(gate, up), F.silu(gate) * up):.1e}")

    # In a compiled function it stays one node, and what is around it is fused as always.
    compiled = torch.compile(lambda gate, up: torch.ops.quickstart.swiglu(gate, up) * 2 + 1, fullgraph=True)
    print(f"4. under torch.compile: relative error {error(compiled(gate, up), F.silu(gate) * up * 2 + 1):.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
