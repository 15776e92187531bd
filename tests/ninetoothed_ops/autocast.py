"""`torch.autocast` for GPUs, without one: what it casts can be told by fakes."""

import contextlib

import torch


@contextlib.contextmanager
def autocast_on_gpus(dtype=torch.bfloat16):
    """Do as `torch.autocast("cuda", dtype)`, which does nothing where there is no GPU."""
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])
