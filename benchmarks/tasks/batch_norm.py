import torch.nn.functional as F

from benchmarks.tasks import Task


def images(batch, channels, size, training=True):
    """Images, running statistics and parameters."""

    def arguments(r):
        return (r(batch, channels, size, size), r(channels), r(channels).abs(), r(channels), r(channels), training), {}

    return arguments


TASK = Task(
    name="batch_norm",
    title="(64, 256, 28, 28), training",
    eager=F.batch_norm,
    cases={
        "paper": images(64, 256, 28),
        "quick": images(2, 64, 7),
        "cpu": images(4, 64, 28),
        "inference": images(64, 256, 28, False),
    },
)
