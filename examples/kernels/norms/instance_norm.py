"""Instance norm.

output[n, c, p] = (input[n, c, p] - mean) / sqrt(variance + eps) * weight[c] + bias[c]

Mean and variance are of all pixels of one channel of one image, in blocks: the first loop finds them, the second
writes. Ulyanov, Vedaldi and Lempitsky, "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(input, weight, bias, eps, output, BLOCK=block_size(lower_bound=512)):
    input, output = (each.tile(None, None, BLOCK, loop=2).squeeze(2) for each in (input, output))
    weight, bias = (each.tile(None).unsqueeze(0).expand(input.shape[0], -1) for each in (weight, bias))
    return input, weight, bias, eps, output


def application(input, weight, bias, eps, output):
    pixels = input.source.shape[2]
    pivot = ntl.mean(input[0].to(ntl.float32))  # near the mean, so that little cancels
    total, squares = 0.0, 0.0

    for i in range(input.shape[0]):
        shifted = input[i].to(ntl.float32) - pivot
        total += ntl.sum(shifted)
        squares += ntl.sum(shifted * shifted)

    mean = total / pixels
    scale = ntl.rsqrt(squares / pixels - mean * mean + eps) * weight.to(ntl.float32)

    for i in range(input.shape[0]):
        output[i] = (input[i].to(ntl.float32) - pivot - mean) * scale + bias.to(ntl.float32)


tensors = (Tensor(3), Tensor(1), Tensor(1), Tensor(0), Tensor(3))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="instance_norm")


def instance_norm(input, weight, bias, eps=1e-5):
    output = torch.empty_like(input, memory_format=torch.contiguous_format)
    kernel(input.flatten(2), weight, bias, eps, output.flatten(2))
    return output


def check(device):
    for shape, dtype in (((2, 3, 5, 7), torch.float32), ((3, 5, 40, 31), torch.float16), ((0, 4, 3, 3), torch.float32)):
        input = (3 + torch.randn(shape, device=device)).to(dtype)
        weight, bias = torch.randn(2, shape[1], device=device).to(dtype)
        centred = input.double() - input.double().mean((2, 3), keepdim=True)
        normal = centred / (centred.pow(2).mean((2, 3), keepdim=True) + 1e-5).sqrt()
        expected = normal * weight.double()[:, None, None] + bias.double()[:, None, None]
        yield instance_norm(input, weight, bias), expected


def timed(device):
    input = torch.randn(16, 64, 128, 128, device=device, dtype=torch.float16)
    weight, bias = torch.randn(2, 64, device=device).half()
    return (input, weight, bias), instance_norm, lambda input, *affine: F.instance_norm(input, None, None, *affine)
