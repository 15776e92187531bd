import torch.nn.functional as F

from benchmarks.tasks import Task


def images(batch, channels, size, groups=32):
    return lambda r: ((r(batch, channels, size, size), groups, r(channels), r(channels)), {})


TASK = Task(
    name="group_norm",
    title="(32, 256, 28, 28), 32 groups",
    eager=F.group_norm,
    cases={
        "paper": images(32, 256, 28),
        "quick": images(2, 64, 7),
        "cpu": images(4, 64, 28),
        "few large images": images(1, 128, 512),
    },
)
