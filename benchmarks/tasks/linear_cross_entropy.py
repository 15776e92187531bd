import torch.nn.functional as F

from benchmarks.tasks import Task


def rows(count, depth, classes):
    """So many rows, the weight of the classes, and a class for each row."""

    def arguments(r):
        input, weight = r(count, depth), r(classes, depth) / depth**0.5
        return (input, weight, (r(count).abs() * classes).long() % classes), {}

    return arguments


def eager(input, weight, target):
    return F.cross_entropy(F.linear(input, weight).float(), target)


TASK = Task(
    name="linear_cross_entropy",
    title="(4096, 4096), (32000, 4096)",
    eager=eager,
    cases={
        "paper": rows(4096, 4096, 32000),
        "quick": rows(64, 96, 781),
        "cpu": rows(256, 256, 4096),
        "128,256 classes": rows(4096, 4096, 128256),
    },
    products=lambda input, weight, target: 2 * input.shape[0] * weight.shape[0] * weight.shape[1],
)
