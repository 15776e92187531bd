import torch.nn.functional as F

from benchmarks.tasks import Task


def rows(count, classes):
    return lambda r: ((r(count, classes).log_softmax(-1), r(count, classes).softmax(-1)), {"reduction": "batchmean"})


TASK = Task(
    name="kl_div",
    title="(4096, 32000)",
    eager=F.kl_div,
    cases={"paper": rows(4096, 32000), "quick": rows(128, 781), "cpu": rows(512, 4096)},
)
