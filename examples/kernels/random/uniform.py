"""Uniform numbers, as weights are initialised with.

output[i, j] = low + (high - low) * u(seed, i * columns + j), with u uniform in [0, 1)

The counter is the place, so that the numbers depend on seed and shape alone, not on blocks, strides or GPU. Salmon and
others, "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(low, high, seed, output, M=block_size(), N=block_size()):
    return low, high, seed, output.tile(M, N)


def application(low, high, seed, output):
    places = output.offsets(0)[:, None] * output.source.shape[1] + output.offsets(1)[None, :]
    output = low + (high - low) * ntl.rand(seed, places)


tensors = (Tensor(0), Tensor(0), Tensor(0), Tensor(2))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="uniform")


def uniform(output, low, high, seed):
    kernel(low, high, seed, output)
    return output


def check(device):
    for rows, columns, dtype in ((20, 130, torch.float32), (300, 101, torch.float32)):
        output = uniform(torch.empty(columns, rows, device=device, dtype=dtype).T, -1.0, 3.0, 5)
        yield uniform(torch.empty_like(output, memory_format=torch.contiguous_format), -1.0, 3.0, 5), output.double()
        yield (output >= -1).all() & (output < 3).all(), torch.tensor(True, device=device)
        # Kolmogorov: how far the share below each number is from what it should be.
        share = (output.double().flatten().sort().values + 1) / 4
        far = (share - torch.linspace(0, 1, len(share), device=device)).abs().max()
        yield far < 2 / len(share) ** 0.5, torch.tensor(True, device=device)


def timed(device):
    output = torch.empty(4096, 8192, device=device)
    return (output,), lambda output: uniform(output, -1.0, 1.0, 5), lambda output: output.uniform_(-1.0, 1.0)
