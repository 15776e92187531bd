"""The time of long chains of meta-operations: `python -m benchmarks.long_chains [--steps 8 16 32]`.

Each chain repeats one step. Printed are the seconds that making a kernel of it takes, and its first call on the CPU:
twice the steps are to take about twice as long, and never the square of it.
"""

import argparse
import time

import torch

import ninetoothed
from ninetoothed import Tensor

SIZE = 100

# Each takes a tensor of one dimension to such a tensor, and does not make it grow without bounds.
CHAINS = {
    "pad": lambda x: x.pad(((1, 2),)),
    "pad and slice": lambda x: x.pad(((2, 1),))[1:-1],
    "slice from the start": lambda x: x[1:],
    "slice from the end": lambda x: x[:-1],
    "slice at both ends": lambda x: x[1:-1],
    "last elements": lambda x: x[-20:],
    "between both ends": lambda x: x[-20:18],
    "reversed": lambda x: x[-2::-1],
    "every third of more": lambda x: x.tile((1,)).expand((-1,)).ravel().expand((-1, 3)).flatten()[::3],
    "unsqueeze and flatten": lambda x: x.unsqueeze(0).flatten(),
    "permute and squeeze": lambda x: x.unsqueeze(0).permute((1, 0)).squeeze(1),
    "expand and index": lambda x: x.unsqueeze(0).expand((3, -1))[1],
    "expand and flatten": lambda x: x.unsqueeze(0).expand((3, -1)).flatten()[:40],
    "tile and flatten": lambda x: x.tile((2,)).ravel().flatten(),
    "tile the whole": lambda x: x.tile((-1,)).ravel().squeeze(0),
    "windows and index": lambda x: x.tile((3,), strides=(1,), floor_mode=True).ravel()[:, 1],
}
# Of these an index stands twice in the one before, and is written twice as long with each step: 8 of them at most.
DOUBLING = {
    "tile and transpose": lambda x: x.tile((3,)).ravel().permute((1, 0)).flatten()[:SIZE],
    "windows and flatten": lambda x: x.tile((3,), strides=(2,)).ravel().flatten()[:40],
}


def chain(name, steps, x):
    """Apply a step so many times."""
    for _ in range(steps):
        x = (CHAINS | DOUBLING)[name](x)
    return x


def copy(x, y):
    y = x + 0


def make(name, steps):
    """Make a kernel that copies what a chain leaves of a tensor, in tiles of 5."""
    return ninetoothed.make(lambda x, y: (chain(name, steps, x).tile((5,)), y.tile((5,))), copy, (Tensor(1), Tensor(1)))


def measure(name, steps):
    """Time `make` and the first call; the seconds of each."""
    source = Tensor(1)
    size = ninetoothed.eval(chain(name, steps, source), {source: {"shape": (SIZE,)}}).size
    x, y = torch.arange(float(SIZE)), torch.empty(size)
    start = time.perf_counter()
    kernel = make(name, steps)
    made = time.perf_counter()
    kernel(x, y)
    return made - start, time.perf_counter() - made


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_chains", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="+", default=(8, 16, 32), help="lengths; default: 8 16 32")
    parser.add_argument("--chain", choices=CHAINS | DOUBLING, action="append", help="only this chain (may be repeated)")
    options = parser.parse_args(arguments)
    measure("pad", 1)  # what the first call of a process imports
    print(f"{'seconds of make + first call':30}", *(f"{steps:>8} steps" for steps in options.steps))
    for name in options.chain or CHAINS:
        print(f"{name:30}", end="", flush=True)
        for steps in options.steps:
            made, called = measure(name, steps)
            print(f"   {made:4.2f} + {called:4.2f}", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
