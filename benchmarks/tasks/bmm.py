import torch

from benchmarks.tasks import Task


def products(input, mat2):
    (batch, m, k), n = input.shape, mat2.shape[2]
    return 2 * batch * m * n * k


def square(batch, size):
    return lambda r: ((r(batch, size, size), r(batch, size, size)), {})


TASK = Task(
    name="bmm",
    title="4 x 2048^3",
    eager=torch.bmm,
    products=products,
    cases={
        "paper": square(4, 2048),
        "quick": square(2, 256),
        "cpu": square(2, 256),
        "transposed": lambda r: ((r(4, 2048, 2048), r(4, 2048, 2048).mT), {}),
    },
)
