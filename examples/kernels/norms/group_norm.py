"""Group norm.

output[n, c, p] = (input[n, c, p] - mean) / sqrt(variance + eps) * weight[c] + bias[c]

Mean and variance are of all pixels of the channel's group. Wu and He, "Group Normalization", 2018.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor


def arrangement(input, weight, bias, eps, output):
    def grouped(channels):
        """(groups, channels of one): each program has those of its group."""
        return channels.tile(None, -1).unsqueeze(0).squeeze(2).expand(input.shape[0], -1)

    input, output = (each.tile(None, None, -1, -1).squeeze(2, 3) for each in (input, output))
    return input, grouped(weight), grouped(bias), eps, output


def application(input, weight, bias, eps, output):
    wide = input.to(ntl.float32)
    centred = wide - ntl.mean(wide)
    scale = ntl.rsqrt(ntl.mean(centred * centred) + eps)
    output = centred * scale * weight.to(ntl.float32)[:, None] + bias.to(ntl.float32)[:, None]


tensors = (Tensor(4), Tensor(2), Tensor(2), Tensor(0), Tensor(4))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="group_norm")


def group_norm(input, groups, weight, bias, eps=1e-5):
    output = torch.empty_like(input, memory_format=torch.contiguous_format)
    split = [each.flatten(2).unflatten(1, (groups, -1)) for each in (input, output)]
    kernel(split[0], weight.view(groups, -1), bias.view(groups, -1), eps, split[1])
    return output


def check(device):
    for shape, groups, dtype in (((2, 6, 3, 5), 2, torch.float32), ((3, 21, 9, 7), 7, torch.float16)):
        input = (2 + torch.randn(shape, device=device)).to(dtype)
        weight, bias = torch.randn(2, shape[1], device=device).to(dtype)
        expected = F.group_norm(input.double(), groups, weight.double(), bias.double())
        yield group_norm(input, groups, weight, bias), expected


def timed(device):
    input = torch.randn(32, 256, 28, 28, device=device, dtype=torch.float16)
    weight, bias = torch.randn(2, 256, device=device).half()
    return (input, 32, weight, bias), group_norm, F.group_norm
