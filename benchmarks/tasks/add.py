import torch

from benchmarks.tasks import Task

TASK = Task(
    name="add",
    title="(16777216,) x2",
    eager=torch.add,
    cases={
        "paper": lambda r: ((r(16777216), r(16777216)), {}),
        "quick": lambda r: ((r(98432), r(98432)), {}),
        "cpu": lambda r: ((r(2**21), r(2**21)), {}),
        "broadcast": lambda r: ((r(4096, 4096), r(4096)), {}),
    },
)
