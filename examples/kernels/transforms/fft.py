"""A Fourier transform of rows of N1 times N2 numbers, by products with the matrices of shorter ones.

y[k1 + N1 * k2] = sum over n2 of w(N2)^(n2 k2) * w(N1 N2)^(n2 k1) * sum over n1 of w(N1)^(n1 k1) * x[N2 * n1 + n2]

With w(N) = exp(-2 pi i / N). Real and imaginary parts are tensors of their own: views of a complex one. Source: Bailey,
"FFTs in external or hierarchical memory", 1990, of which two of the four steps are products here.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor


def arrangement(real, imaginary, real_out, imaginary_out):
    """(rows, N1, N2): each program has a row of x as a matrix, and y as one, transposed."""
    given = (each.tile(None, -1, -1) for each in (real, imaginary))
    return *given, *(each.permute(0, 2, 1).tile(None, -1, -1) for each in (real_out, imaginary_out))


def roots(rows, columns, size):
    """The powers w(size)^(row * column), whose angles are taken from whole numbers."""
    power = ntl.arange(0, rows)[:, None] * ntl.arange(0, columns)[None, :] % size
    angle = power * (-6.283185307179586 / size)
    return ntl.cos(angle), ntl.sin(angle)


def application(real, imaginary, real_out, imaginary_out):
    n1, n2 = real.shape
    c, s = roots(n1, n1, n1)
    a = ntl.dot(c, real) - ntl.dot(s, imaginary)
    b = ntl.dot(c, imaginary) + ntl.dot(s, real)
    c, s = roots(n1, n2, n1 * n2)
    a, b = a * c - b * s, a * s + b * c
    c, s = roots(n2, n2, n2)
    real_out = ntl.dot(a, c) - ntl.dot(b, s)
    imaginary_out = ntl.dot(a, s) + ntl.dot(b, c)


known = (None, {"constexpr": True}, {"constexpr": True})
tensors = tuple(Tensor(3, shape_options=known) for _ in "abcd")
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="fft")


def fft(x):
    first = max(d for d in (1, 2, 3, 4, 5, 7, 8, 12, 16, 32, 64) if x.shape[1] % d == 0 and d * d <= x.shape[1])
    y = torch.empty_like(x)
    given = torch.view_as_real(x).unflatten(1, (first, -1)).unbind(3)
    kernel(*given, *torch.view_as_real(y).unflatten(1, (-1, first)).unbind(3))
    return y


def check(device):
    for rows, size in ((3, 60), (2, 256), (1, 1), (5, 7), (0, 16)):
        x = torch.randn(rows, size, device=device, dtype=torch.complex64)
        expected = torch.fft.fft(x.to(torch.complex128)) if rows else x.to(torch.complex128)
        yield torch.view_as_real(fft(x)), torch.view_as_real(expected)


def timed(device):
    return (torch.randn(16384, 1024, device=device, dtype=torch.complex64),), fft, torch.fft.fft
