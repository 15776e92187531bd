import torch.nn.functional as F

from benchmarks.tasks import Task


def rows(count, size):
    return lambda r: ((r(count, size), (size,), r(size), r(size)), {"eps": 1e-5})


TASK = Task(
    name="layer_norm",
    title="(4096, 4096)",
    eager=F.layer_norm,
    cases={
        "paper": rows(4096, 4096),
        "quick": rows(128, 781),
        "cpu": rows(512, 4096),
        **{f"rows of {size}": rows(2**24 // size, size) for size in (128, 768, 1000, 8192, 32768, 131072)},
    },
)
