"""Exponential moving average.

output[i, j] = (1 - alpha) * output[i, j - 1] + alpha * input[i, j], from output[i, -1] = start[i]

Each program has a block of rows, which lie along a step's columns in memory, and goes through all steps in order: of
many short series that is less work than a scan.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor


def arrangement(input, start, alpha, output, BLOCK=32):
    input, output = (each.tile(None, BLOCK, loop=0).squeeze(0) for each in (input, output))
    return input, start.tile(BLOCK), alpha, output


def application(input, start, alpha, output):
    average = start.to(ntl.float32)

    for t in range(input.shape[0]):
        average += alpha * (input[t].to(ntl.float32) - average)
        output[t] = average


tensors = (Tensor(2), Tensor(1), Tensor(0), Tensor(2))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="moving_average")


def moving_average(input, start, alpha):
    """Average along the first dimension of (steps, series)."""
    output = torch.empty_like(input)
    kernel(input, start, alpha, output)
    return output


def check(device):
    for steps, series, dtype in ((9, 70, torch.float32), (33, 3, torch.float16), (0, 5, torch.float32)):
        input, start = torch.randn(steps, series, device=device).to(dtype), torch.randn(series, device=device)
        expected, average = [input.double()[:0]], start.double()
        for each in input.double():
            average = 0.7 * average + 0.3 * each
            expected.append(average[None])
        yield moving_average(input, start, 0.3), torch.cat(expected)


def timed(device):
    def eager(input, start, alpha):
        """Weight all inputs so far: a product, of as many steps squared."""
        steps = torch.arange(len(input), device=input.device)
        apart = steps[:, None] - steps
        weights = torch.where(apart >= 0, alpha * (1 - alpha) ** apart.clamp(min=0), 0.0)
        return weights @ input + (1 - alpha) ** (steps[:, None] + 1) * start

    input, start = torch.randn(512, 16384, device=device), torch.zeros(16384, device=device)
    return (input, start, 0.1), moving_average, eager
