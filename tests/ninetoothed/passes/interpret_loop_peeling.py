"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: loops whose last round is done apart, against float64."""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed_ops.kernels import addmm, bmm, mm
from tests.ninetoothed.backends import interpreted


def random(*shape, dtype=torch.float16):
    return torch.randn(shape, dtype=dtype)


def empty(*shape, dtype=torch.float16):
    return torch.full(shape, float("nan"), dtype=dtype)


def check(title, kernel, arguments, output, expected, loops=2, **options):
    emitted = interpreted.interpret(kernel, arguments, **options)
    assert emitted.source.count(" for ") == loops, f"{title}: {emitted.source}"
    error = (output.double() - expected).norm().item() / max(expected.norm().item(), 1e-3)
    assert error <= 1e-3, f"{title}: relative error {error}"


def products():
    for k in (2, 63, 64, 65, 129, 300, 385):
        a, b, c = random(33, 401)[:, :k], random(k, 47), empty(33, 47)
        loops = 2 if k % 16 else 1
        check(f"mm {k}", mm.make(), (a, b, c), c, a.double() @ b.double(), loops)
        a, b, c = (tensor.float() for tensor in (random(33, 400), random(k, 48), empty(33, 48)))
        check(f"mm of float32, {k}", mm.make(), (a[:, :k], b, c), c, a[:, :k].double() @ b.double(), loops)
    a, b, c = random(40, 131), random(131, 64), empty(40, 64)
    check("one operand through a descriptor", mm.make(), (a, b, c), c, a.double() @ b.double())
    a, b, c, x = random(3, 20, 131), random(3, 131, 17), empty(3, 20, 17), random(20, 17)
    check("bmm", bmm.make(), (a, b, c), c, a.double() @ b.double())
    expected = 2 * x.double() + 0.5 * (a[0].double() @ b[0].double())
    check("addmm", addmm.make(), (x, a[0], b[0], 2.0, 0.5, c[0]), c[0], expected)


def chunked(input, output):
    """Chunks of 64 of each row."""

    def chunks(tensor):
        tiled = tensor.tile((1, 64)).tile((1, -1))
        tiled.dtype = tiled.dtype.squeeze(0)
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze(0)
        return tiled

    return chunks(input), chunks(output)


def normalised(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(input.shape[0]):
        total += ntl.sum(ntl.cast(input[i], ntl.float32))
    for i in range(input.shape[0]):
        output[i] = ntl.cast(input[i], ntl.float32) - total


def by_twos(input, output):
    total, first = ntl.zeros((64,), dtype=ntl.float32), ntl.zeros((64,), dtype=ntl.float32)
    for i in range(0, input.shape[0], 2):
        total, first = total + input[i] - input[i + 1], total
    for i in range(input.shape[0]):
        output[i] = total + first


def up_to_a_column(input, output):
    total = ntl.zeros((), dtype=ntl.float32)
    for i in range(min(input.shape[0], 3)):
        total += ntl.sum(ntl.cast(input[i], ntl.float32))
    for i in range(input.shape[0]):
        output[i] = input[i] + total


def from_the_second(input, output):
    total = ntl.zeros((64,), dtype=ntl.float32)
    for i in range(1, input.shape[0]):
        total += input[i]
        total += input[i - 1]
    for i in range(input.shape[0]):
        output[i] = total


def again_and_again(input, output):
    for i in range(2):
        j = 0
        while j < 2:
            for k in range(input.shape[0]):
                output[k] = input[k] + i + j
            j += 1


def differently(input, output):
    for i in range(input.shape[0]):
        if i % 2 == 0:
            output[i] = input[i]
        else:
            output[i] = -input[i]


def in_chunks(x):
    """(rows, chunks, 64), filled up with zeros."""
    return torch.nn.functional.pad(x, (0, -x.shape[1] % 64)).unflatten(1, (-1, 64))


def all_chunks(of, x):
    """What each chunk of a row becomes where all are the same."""
    return of[:, None].expand(-1, -(-x.shape[1] // 64), -1).flatten(1)[:, : x.shape[1]]


def expected_by_twos(x):
    chunks = in_chunks(x)
    signs = torch.tensor([1, -1]).repeat(chunks.shape[1])[: chunks.shape[1], None]
    last = (chunks.shape[1] - 1) // 2 * 2
    total, before = (chunks * signs).sum(1), (chunks * signs)[:, :last].sum(1)
    return all_chunks(total + before, x)


def expected_from_the_second(x):
    chunks = in_chunks(x)
    return all_chunks(chunks[:, 1:].sum(1) + chunks[:, :-1].sum(1), x)


def expected_differently(x):
    chunks = in_chunks(x)
    return (chunks * torch.tensor([1, -1]).repeat(chunks.shape[1])[: chunks.shape[1], None]).flatten(1)[:, : x.shape[1]]


# What each row becomes, and how many loops it takes where its length is unknown, and where it is a multiple of 16.
OWN = (
    (normalised, lambda x: x - x.sum(1, keepdim=True), 4, 2),
    (by_twos, expected_by_twos, 3, 2),
    (up_to_a_column, lambda x: x + x[:, :192].sum(1, keepdim=True), 3, 2),
    (from_the_second, expected_from_the_second, 3, 2),
    (again_and_again, lambda x: x + 2, 3, 2),
    (differently, expected_differently, 1, 1),
)


def own():
    for application, expected, loops, fewest in OWN:
        kernel = ninetoothed.make(chunked, application, (Tensor(2), Tensor(2)))
        for columns in (3, 63, 64, 65, 129, 257, 501):
            x, y = random(3, columns + 1)[:, :columns], empty(3, columns, dtype=torch.float32)
            title = f"{application.__name__} {columns}"
            check(title, kernel, (x, y), y, expected(x.double()), loops if columns % 16 else fewest)


if __name__ == "__main__":
    torch.manual_seed(0)
    for run in (products, own):
        run()
        print(run.__name__)
