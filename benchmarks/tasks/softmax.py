import torch

from benchmarks.tasks import Task


def rows(size):
    """As many rows of a size as make 2^24 elements."""
    return lambda r: ((r(2**24 // size, size), -1), {})


TASK = Task(
    name="softmax",
    title="(4096, 4096)",
    eager=torch.softmax,
    cases={
        "paper": lambda r: ((r(4096, 4096), -1), {}),
        "quick": lambda r: ((r(128, 781), -1), {}),
        "cpu": lambda r: ((r(512, 4096), -1), {}),
        **{f"rows of {size}": rows(size) for size in (128, 512, 1000, 8192, 32768, 131072)},
    },
)
