import torch.nn.functional as F

from benchmarks.tasks import Task


def rows(count, classes):
    """Logits of so many rows, and a class for each."""

    def arguments(r):
        logits = r(count, classes)
        return (logits, (r(count).abs() * classes).long() % classes), {}

    return arguments


TASK = Task(
    name="cross_entropy",
    title="(4096, 32000)",
    eager=F.cross_entropy,
    cases={
        "paper": rows(4096, 32000),
        "quick": rows(128, 781),
        "cpu": rows(512, 4096),
        "128,256 classes": rows(2048, 128256),
        "1000 classes": rows(8192, 1000),
    },
)
