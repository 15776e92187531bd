import torch

from benchmarks.tasks import Task


def products(input, mat1, mat2, *, beta=1, alpha=1):
    (m, k), n = mat1.shape, mat2.shape[1]
    return 2 * m * n * k


def square(size):
    return lambda r: ((r(size, size), r(size, size), r(size, size)), {"beta": 0.7, "alpha": 1.3})


TASK = Task(
    name="addmm",
    title="4096^3, alpha, beta",
    eager=torch.addmm,
    products=products,
    cases={
        "paper": square(4096),
        "quick": square(512),
        "cpu": square(512),
        "size 4095": square(4095),
        "row": lambda r: ((r(4096), r(4096, 4096), r(4096, 4096)), {}),
    },
)
