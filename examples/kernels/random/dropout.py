"""Dropout with a seed.

output[i] = input[i] / (1 - rate) where u(seed, i) >= rate, else 0, with u uniform in [0, 1)

The mask is a function of seed and place (Philox), and never stored: the gradient's kernel draws it again. Srivastava
and others, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014; Salmon and others, "Parallel
random numbers: as easy as 1, 2, 3", 2011.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, rate, seed, output):
    is_kept = ntl.rand(seed, input.offsets(0)) >= rate
    output = ntl.where(is_kept, input.to(ntl.float32) / (1 - rate), 0.0)


tensors = (Tensor(1), Tensor(0), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrange.blocks, application, tensors, kernel_name="dropout")


def dropout(input, rate, seed):
    output = torch.empty_like(input)
    kernel(input, rate, seed, output)
    return output


def check(device):
    for size, rate, dtype in ((2000, 0.5, torch.float32), (40000, 0.1, torch.float16), (0, 0.3, torch.float32)):
        input = 1 + torch.rand(2 * size, device=device).to(dtype)[::2]
        output = dropout(input, rate, 7)
        is_kept = output != 0
        yield output, torch.where(is_kept, input.double() / (1 - rate), 0)
        yield dropout(input, rate, 7), output.double()
        if size:
            share = is_kept.double().mean(0, keepdim=True)
            yield (share - (1 - rate)).abs() < 4 * (rate / size) ** 0.5, torch.tensor([True], device=device)
            yield (dropout(input, rate, 8) != output).any(), torch.tensor(True, device=device)


def timed(device):
    input = torch.randn(2**25, device=device, dtype=torch.float16)
    return (input,), lambda input: dropout(input, 0.1, 7), lambda input: F.dropout(input, 0.1)
