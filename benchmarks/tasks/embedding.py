import torch
import torch.nn.functional as F

from benchmarks.tasks import Task


def tokens(count, rows, columns):
    """So many numbers of rows, and a table."""

    def arguments(r):
        table = r(rows, columns)
        return (torch.randint(rows, (count,), device=table.device), table), {}

    return arguments


TASK = Task(
    name="embedding",
    title="8192 tokens of (128256, 4096)",
    eager=F.embedding,
    cases={"paper": tokens(8192, 128256, 4096), "quick": tokens(33, 100, 70), "cpu": tokens(512, 1000, 256)},
)
