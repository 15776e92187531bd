"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: rows done side by side, against float64."""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.schedule import DataParallel
from ninetoothed_ops.kernels import rms_norm, softmax
from tests.ninetoothed.backends import interpreted


def rows(tensor):
    tiled = tensor.tile((1, -1))
    tiled.dtype = tiled.dtype.squeeze(0)
    return tiled


def check(title, kernel, arguments, output, expected, coarsening=8, is_coarsened=True):
    emitted = interpreted.interpret(kernel, arguments, sharing=DataParallel(coarsening))
    assert (emitted.coarsening > 1) == is_coarsened, f"{title}: coarsening {emitted.coarsening}"
    error = ((output.double() - expected).norm() / expected.norm()).item()
    assert error <= 1e-3, f"{title}: relative error {error}"


def empty(*shape):
    return torch.full(shape, float("nan"), dtype=torch.float16)


def library_rows():
    for shape in ((37, 100), (32, 128), (1, 7), (9, 1)):
        x, w = torch.randn(shape).half(), torch.randn(shape[-1]).half()
        o = empty(*shape)
        check(f"softmax {shape}", softmax.make(2), (x, o), o, x.double().softmax(-1))
        for weighted in (True, False):
            o = empty(*shape)
            expected = F.rms_norm(x.double(), shape[-1:], w.double() if weighted else None, 1e-5)
            check(f"rms {shape}", rms_norm.make(2), (x, w, 1e-5, o, weighted), o, expected)
    x = torch.randn(3, 5, 4, 33).half().transpose(1, 2)
    o = empty(3, 5, 4, 33).transpose(1, 2)
    check("strided", softmax.make(4), (x, o), o, x.double().softmax(-1))


def arranged(input, output):
    return rows(input), rows(output)


def running(input, output):
    """Scans, tiles with more axes, indices, and what all programs share."""
    wide = ntl.cast(input, ntl.float32)
    outer = wide[:, None] * ntl.cast(ntl.arange(0, 4), ntl.float32)[None, :]
    own = ntl.cast(input.offsets(0), ntl.float32)
    output = ntl.cumsum(ntl.sum(outer, axis=1), axis=0) + own - ntl.max(wide, axis=0, keep_dims=True)


def rearranged(input, output):
    """Lanes that move about, and functions of the user's: each row by itself."""
    wide = ntl.cast(input, ntl.float32)
    turned = ntl.flip(ntl.reshape(ntl.trans(ntl.reshape(wide, (4, 4))), (16,)))
    evens, odds = ntl.split(ntl.reshape(turned, (8, 2)))
    swapped = ntl.reshape(ntl.join(odds, evens), (16,))
    smallest = ntl.reduce(wide, 0, lesser, keep_dims=True)
    output = swapped + 10 * ntl.sort(wide) + 100 * ntl.associative_scan(wide, 0, lesser) + 1000 * smallest


def lesser(a, b):
    return ntl.minimum(a, b)


def looping(input, output):
    total = ntl.cast(input, ntl.float32)
    for _ in range(3):
        total = total + 1.0
    output = total


def own_rows():
    x = torch.randn(21, 16).half()
    wide, number = x.double(), torch.arange(21).double()[:, None]
    swapped = wide.view(21, 4, 4).mT.flatten(1).flip(1).view(21, 8, 2).flip(2).flatten(1)
    smallest = 100 * wide.cummin(-1).values + 1000 * wide.amin(-1, keepdim=True)
    for application, expected in (
        (running, (wide * 6).cumsum(-1) + number - wide.amax(-1, keepdim=True)),
        (rearranged, swapped + 10 * wide.sort(-1).values + smallest),
        (looping, wide + 3),
    ):
        kernel = ninetoothed.make(arranged, application, (Tensor(2), Tensor(2)))
        o = empty(21, 16)
        check(application.__name__, kernel, (x, o), o, expected, is_coarsened=application is not looping)


if __name__ == "__main__":
    torch.manual_seed(0)
    for run in (library_rows, own_rows):
        run()
        print(run.__name__)
