"""Hard swish.

output = input * clamp(input + 3, 0, 6) / 6, element by element

Howard and others, "Searching for MobileNetV3", 2019.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, output):
    wide = input.to(ntl.float32)
    output = wide * ntl.clamp(wide + 3, 0.0, 6.0) / 6


kernel = ninetoothed.make(arrange.blocks, application, (Tensor(4), Tensor(4)), kernel_name="hardswish")


def hardswish(input):
    output = torch.empty_like(input)
    kernel(input, output)
    return output


def check(device):
    for shape, dtype in (((2, 3, 5, 7), torch.float32), ((1, 17, 9, 31), torch.float16), ((2, 0, 4, 4), torch.float32)):
        input = (4 * torch.randn(shape, device=device)).to(dtype).permute(0, 3, 1, 2)
        yield hardswish(input), F.hardswish(input.double())


def timed(device):
    return (torch.randn(64, 96, 56, 56, device=device, dtype=torch.float16),), hardswish, F.hardswish
