import torch.nn.functional as F

from benchmarks.tasks import Task

TASK = Task(
    name="silu",
    title="(16777216,)",
    eager=F.silu,
    cases={
        "paper": lambda r: ((r(16777216),), {}),
        "quick": lambda r: ((r(98432),), {}),
        "cpu": lambda r: ((r(2**21),), {}),
        "sliced": lambda r: ((r(4096, 8192)[:, :4096],), {}),
    },
)
