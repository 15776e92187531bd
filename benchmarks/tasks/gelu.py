import torch.nn.functional as F

from benchmarks.tasks import Task

TASK = Task(
    name="gelu",
    title="(16777216,)",
    eager=F.gelu,
    cases={
        "paper": lambda r: ((r(16777216),), {}),
        "tanh": lambda r: ((r(16777216),), {"approximate": "tanh"}),
        "quick": lambda r: ((r(98432),), {}),
        "cpu": lambda r: ((r(2**21),), {}),
    },
)
