"""The statistics of a batch norm in training.

mean[c] = mean over n, p of input[n, c, p]; variance[c] = mean over n, p of (input[n, c, p] - mean[c])^2

And running averages of both, in place: running = (1 - momentum) * running + momentum * own, where the variance counts
with its correction n p / (n p - 1), as PyTorch has it. Ioffe and Szegedy, "Batch Normalization", 2015.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(input, momentum, mean, variance, running_mean, running_variance, BLOCK=block_size(lower_bound=512)):
    input = input.permute(1, 0, 2).tile(None, None, BLOCK, loop=(1, 2)).squeeze(1, 2)  # (channels,), (n, blocks)
    numbers = (each.tile(None) for each in (mean, variance, running_mean, running_variance))
    return input, momentum, *numbers


def application(input, momentum, mean, variance, running_mean, running_variance):
    count = input.source.shape[0] * input.source.shape[2]
    pivot = ntl.mean(input[0, 0].to(ntl.float32))  # near the mean, so that little cancels
    total, squares = 0.0, 0.0

    for n in range(input.shape[0]):
        for i in range(input.shape[1]):
            shifted = input[n, i].to(ntl.float32) - pivot
            total += ntl.sum(shifted)
            squares += ntl.sum(shifted * shifted)

    apart = total / count
    spread = squares / count - apart * apart
    mean = pivot + apart
    variance = spread
    running_mean = running_mean + momentum * (pivot + apart - running_mean)
    running_variance = running_variance + momentum * (spread * count / (count - 1) - running_variance)


tensors = (Tensor(3), Tensor(0), *(Tensor(1) for _ in range(4)))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="batch_norm_statistics")


def batch_norm_statistics(input, running_mean, running_variance, momentum=0.1):
    mean, variance = torch.empty_like(running_mean), torch.empty_like(running_mean)
    kernel(input.flatten(2), momentum, mean, variance, running_mean, running_variance)
    return mean, variance, running_mean, running_variance


def check(device):
    for shape, dtype in (((2, 3, 5, 7), torch.float32), ((3, 5, 40, 31), torch.float16)):
        input = (3 + torch.randn(shape, device=device)).to(dtype)
        running = torch.rand(2, shape[1], device=device)
        expected = [0.9 * each + 0.1 * own for each, own in zip(running.double(), statistics(input.double(), 1))]
        yield from zip(batch_norm_statistics(input, *running), (*statistics(input.double(), 0), *expected))


def statistics(input, correction):
    return input.mean((0, 2, 3)), input.var((0, 2, 3), correction=correction)


def timed(device):
    def eager(input, *running):
        mean, variance = statistics(input.float(), 0)
        count = input.numel() // input.shape[1]
        unbiased = variance * count / (count - 1)
        return mean, variance, *(each.lerp_(own, 0.1) for each, own in zip(running, (mean, unbiased)))

    input = torch.randn(64, 256, 28, 28, device=device, dtype=torch.float16)
    return (input, *torch.rand(2, 256, device=device)), batch_norm_statistics, eager
