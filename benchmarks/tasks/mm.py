import torch

from benchmarks.tasks import Task


def products(input, mat2):
    (m, k), n = input.shape, mat2.shape[1]
    return 2 * m * n * k


def square(size):
    return lambda r: ((r(size, size), r(size, size)), {})


def linear(rows, columns, depth):
    """Inputs times weights, whose rows are the columns of the result."""
    return lambda r: ((r(rows, depth), r(columns, depth).T), {})


TASK = Task(
    name="mm",
    title="4096^3",
    eager=torch.mm,
    products=products,
    cases={
        "paper": square(4096),
        "quick": square(512),
        "cpu": square(512),
        **{f"size {size}": square(size) for size in (1000, 1024, 1536, 2048, 3000, 3072, 4088, 4095, 4104, 5120, 8192)},
        "128 rows": linear(128, 4096, 4096),
        "512 rows": linear(512, 4096, 4096),
        "1024 rows": linear(1024, 4096, 4096),
        "1032 rows": linear(1032, 4096, 4096),
        "1280 rows": linear(1280, 4096, 4096),
        "1024 rows, 14336 deep": linear(1024, 4096, 14336),
        "long sums": linear(512, 512, 8192),
        "transposed": lambda r: ((r(4096, 4096), r(4096, 4096).T), {}),
        "sliced": lambda r: ((r(4096, 8192)[:, :4096], r(4096, 8192)[:, :4096]), {}),
    },
)
