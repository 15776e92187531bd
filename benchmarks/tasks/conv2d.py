import math

import torch.nn.functional as F

from benchmarks.tasks import Task


def products(input, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    sides = zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    pixels = math.prod((size + 2 * pad - d * (kernel - 1) - 1) // step + 1 for size, kernel, step, pad, d in sides)
    return 2 * input.shape[0] * pixels * weight.numel()


TASK = Task(
    name="conv2d",
    title="(4, 512, 14, 14) by (512, 512, 3, 3)",
    note="ninetoothed and the twin had the filter repacked before, once; PyTorch converts it at every call, and so "
    "does ninetoothed where channels are not last",
    eager=F.conv2d,
    products=products,
    cases={
        "paper": lambda r: ((r(4, 512, 14, 14), r(512, 512, 3, 3)), {}),
        "quick": lambda r: ((r(2, 32, 14, 14), r(32, 32, 3, 3)), {}),
        "cpu": lambda r: ((r(1, 64, 14, 14), r(64, 64, 3, 3)), {}),
        "padded": lambda r: ((r(16, 128, 56, 56), r(128, 128, 3, 3)), {"padding": (1, 1)}),
        "pointwise": lambda r: ((r(16, 256, 56, 56), r(64, 256, 1, 1)), {}),
    },
)
