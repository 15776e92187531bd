"""Batch norm with the statistics of training, for inference.

output[n, c, p] = (input[n, c, p] - mean[c]) / sqrt(variance[c] + eps) * weight[c] + bias[c]

Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training", 2015.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(input, mean, variance, weight, bias, eps, output, BLOCK=block_size()):
    input, output = (each.tile(None, None, BLOCK) for each in (input, output))

    def shared(channels):
        return channels.tile(None).unsqueeze(0).unsqueeze(2).expand(input.shape)

    return input, shared(mean), shared(variance), shared(weight), shared(bias), eps, output


def application(input, mean, variance, weight, bias, eps, output):
    scale = ntl.rsqrt(variance.to(ntl.float32) + eps) * weight.to(ntl.float32)
    output = (input.to(ntl.float32) - mean.to(ntl.float32)) * scale + bias.to(ntl.float32)


tensors = (Tensor(3), *(Tensor(1) for _ in range(4)), Tensor(0), Tensor(3))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="batch_norm")


def batch_norm(input, mean, variance, weight, bias, eps=1e-5):
    output = torch.empty_like(input, memory_format=torch.contiguous_format)
    kernel(input.flatten(2), mean, variance, weight, bias, eps, output.flatten(2))
    return output


def check(device):
    for shape, dtype in (((2, 3, 5, 7), torch.float32), ((3, 17, 9, 31), torch.float16), ((0, 3, 2, 2), torch.float32)):
        input, channels = torch.randn(shape, device=device).to(dtype), torch.randn(3, shape[1], device=device)
        variance = torch.rand(shape[1], device=device) + 0.1
        given = (channels[0], variance, *channels[1:])
        yield batch_norm(input, *given), F.batch_norm(input.double(), *(each.double() for each in given))


def timed(device):
    input = torch.randn(64, 256, 28, 28, device=device, dtype=torch.float16)
    mean, variance, weight, bias = torch.rand(4, 256, device=device)
    return (input, mean, variance, weight, bias), batch_norm, F.batch_norm
