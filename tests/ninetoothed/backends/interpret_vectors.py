"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: rows of vectors, anywhere in memory, against float64."""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Tensor, block_size
from ninetoothed.schedule import DataParallel
from ninetoothed_ops.kernels import long_rows, rms_norm, softmax
from tests.ninetoothed.backends import interpreted

SIZE = block_size()


def arranged(x, y):
    return x.flatten().tile((SIZE,)), y.flatten().tile((SIZE,))


def arranged_in_eights(x, y):
    return x.tile((1, 8)), y.tile((1, 8))


def twice(x, y):
    y = x + x


def at(offset, rows, columns, stride):
    """Random rows `offset` elements into their memory."""
    return torch.randn(offset + rows * stride)[offset:].as_strided((rows, columns), (stride, 1), offset)


def check(title, kernel, output, expected, *arguments, coarsening=1):
    interpreted.interpret(kernel, arguments, sharing=DataParallel(coarsening))
    error = ((output.double() - expected).norm() / expected.norm()).item()
    assert error <= 1e-5, f"{title}: relative error {error}"


def rows_of(columns, offset, stride):
    x, w = at(offset, 5, columns, stride), torch.randn(columns)
    title = f"{columns} of {stride} at {offset}"
    for coarsening in (1, 4):
        o = torch.full((5, columns), float("nan"))
        check(f"softmax {title}", softmax.make(2), o, x.double().softmax(-1), x, o, coarsening=coarsening)
        o, expected = torch.full_like(o, float("nan")), F.rms_norm(x.double(), (columns,), w.double(), 1e-5)
        check(f"rms_norm {title}", rms_norm.make(2), o, expected, x, w, 1e-5, o, True, coarsening=coarsening)
    for arrangement in (arranged, arranged_in_eights):
        kernel = ninetoothed.make(arrangement, twice, (Tensor(2), Tensor(2)))
        # What lies beside the rows stays as it is.
        memory = torch.full((5, stride), 7.0)
        o = memory[:, :columns]
        check(f"{arrangement.__name__} {title}", kernel, o, 2 * x.double(), x, o)
        assert (memory[:, columns:] == 7).all()


def long_rows_of(columns):
    x = torch.randn(2, columns)
    o = torch.full_like(x, float("nan"))
    check(f"softmax {columns}", long_rows.make_softmax(2), o, x.double().softmax(-1), x, o)


if __name__ == "__main__":
    torch.manual_seed(0)
    for columns in (8, 24, 40, 1000, 1016):
        for offset, more in ((0, 0), (1, 0), (8, 8), (3, 5)):
            rows_of(columns, offset, columns + more)
    long_rows_of(16392)
