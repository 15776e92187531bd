"""Leaky ReLU.

output = input where input > 0, else slope * input, element by element

Maas, Hannun and Ng, "Rectifier Nonlinearities Improve Neural Network Acoustic Models", 2013.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, slope, output):
    output = ntl.where(input > 0, input, slope * input)


kernel = ninetoothed.make(arrange.blocks, application, (Tensor(2), Tensor(0), Tensor(2)), kernel_name="leaky_relu")


def leaky_relu(input, slope=0.01):
    output = torch.empty_like(input)
    kernel(input, slope, output)
    return output


def check(device):
    for rows, columns, slope, dtype in ((5, 27, 0.01, torch.float32), (211, 3, 0.3, torch.bfloat16)):
        input = torch.randn(columns, rows, device=device).to(dtype).T
        yield leaky_relu(input, slope), F.leaky_relu(input.double(), slope)
    input = torch.tensor([[-torch.inf, -0.0, torch.nan]], device=device)
    yield leaky_relu(input), F.leaky_relu(input.double())


def timed(device):
    return (torch.randn(4096, 4096, device=device, dtype=torch.float16),), leaky_relu, F.leaky_relu
