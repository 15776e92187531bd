import torch.nn.functional as F

from benchmarks.tasks import Task


def rows(size):
    """As many rows of a size as make 2^24 elements."""
    return lambda r: ((r(2**24 // size, size), (size,)), {"eps": 1e-6})


TASK = Task(
    name="rms_norm",
    title="(4096, 4096)",
    eager=F.rms_norm,
    cases={
        # The eps is given so that every precision computes the same function.
        "paper": lambda r: ((r(4096, 4096), (4096,)), {"eps": 1e-6}),
        "quick": lambda r: ((r(128, 781), (781,)), {"eps": 1e-6}),
        "cpu": lambda r: ((r(512, 4096), (4096,)), {"eps": 1e-6}),
        "weight": lambda r: ((r(4096, 4096), (4096,), r(4096)), {"eps": 1e-6}),
        **{f"rows of {size}": rows(size) for size in (128, 512, 1000, 8192, 32768, 131072)},
    },
)
