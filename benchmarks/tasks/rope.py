import torch

from benchmarks.tasks import Task


def rope(input, sin, cos, interleaved=True):
    """Rotary position embedding in plain PyTorch; input (B, S, H, D), tables (S, D/2) or (B, S, D/2)."""
    sin, cos = sin.unsqueeze(-2), cos.unsqueeze(-2)
    if interleaved:
        even, odd = input[..., 0::2], input[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
    first, second = input.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


TASK = Task(
    name="rope",
    title="(4, 1024, 48, 64)",
    eager=rope,
    cases={
        "paper": lambda r: ((r(4, 1024, 48, 64), r(1024, 32), r(1024, 32)), {}),
        "quick": lambda r: ((r(2, 64, 8, 64), r(64, 32), r(64, 32)), {}),
        "cpu": lambda r: ((r(1, 256, 8, 64), r(256, 32), r(256, 32)), {}),
        "halves": lambda r: ((r(4, 1024, 48, 64), r(1024, 32), r(1024, 32)), {"interleaved": False}),
    },
)
