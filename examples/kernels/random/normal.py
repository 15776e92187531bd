"""Normal numbers, as weights are initialised with.

output[i] = mean + deviation * n(seed, i), with n normal of mean 0 and variance 1

Box and Muller's transform makes them of pairs of uniform numbers: "A Note on the Generation of Random Normal
Deviates", 1958.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(mean, deviation, seed, output):
    output = mean + deviation * ntl.randn(seed, output.offsets(0))


tensors = (Tensor(0), Tensor(0), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrange.blocks, application, tensors, kernel_name="normal")


def normal(output, mean, deviation, seed):
    kernel(mean, deviation, seed, output)
    return output


def check(device):
    for size in (2500, 30001):
        output = normal(torch.empty(2 * size, device=device)[::2], 1.0, 0.5, 11)
        yield normal(torch.empty(size, device=device), 1.0, 0.5, 11), output.double()
        # Kolmogorov: how far the share below each number is from what it should be.
        share = torch.special.ndtr((output.double().sort().values - 1) / 0.5)
        far = (share - torch.linspace(0, 1, size, device=device)).abs().max()
        yield far < 2 / size**0.5, torch.tensor(True, device=device)


def timed(device):
    output = torch.empty(2**25, device=device)
    return (output,), lambda output: normal(output, 0.0, 0.02, 5), lambda output: output.normal_(0.0, 0.02)
