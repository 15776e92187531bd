"""Reductions by functions of the user's keep the order where it matters, and places of extrema order NaN."""

import ast
import contextlib

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.errors import CompilationError
from ninetoothed.passes import workarounds
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE


def reduced(function, count=1):
    """The kernel of a reduction of the columns of tiles, `count` tiles of which the last result counts."""

    def application(x, y):
        parts = [x * (k + 1) + k for k in range(count)]
        result = ntl.reduce(parts, 1, function, keep_dims=True) if count > 1 else ntl.reduce(x, 1, function, True)
        y = (result[count - 1] if count > 1 else result) + ntl.zeros(x.shape, dtype=x.dtype)

    arrangement = lambda x, y: (x.tile((4, -1)), y.tile((4, -1)))  # noqa: E731
    return ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)))


def affine(a, b, c, d):
    return a * c, b * c + d


def variances(count, mean, square, other_count, other_mean, other_square):
    total = count + other_count
    mean_of_both = (count * mean + other_count * other_mean) / total
    between = count * other_count / total * ((mean - other_mean) * (other_mean - mean))
    return total, mean_of_both, square + other_square - between


COMMUTATIVE = (
    (lambda a, b: a + b, 1),
    (lambda a, b: ntl.maximum(b, a) * 2, 1),
    (lambda a, b: ntl.where(a == b, a * b, (1 + a) * (b + 1)), 1),
    (lambda a, b: ntl.where((a > b) | (b > a), a + b, 1.0), 1),
    (lambda a, i, b, j: (a + b, i * j), 2),
    (variances, 3),
)
ORDERED = (
    (lambda a, b: a, 1),
    (lambda a, b: a - b, 1),
    (lambda a, b: ntl.where(a > b, a, b), 1),
    (lambda a, i, b, j: (ntl.maximum(a, b), ntl.where(a > b, i, j)), 2),
    (lambda a, i, b, j: (a + j, b + i), 2),
    (affine, 2),
)


@pytest.mark.parametrize("function, count, is_kept", [(*f, False) for f in COMMUTATIVE] + [(*f, True) for f in ORDERED])
def test_functions_that_are_not_proved_commutative_keep_the_order(function, count, is_kept):
    x = torch.randn(4, 8)
    assert ("tl.associative_scan" in str(reduced(function, count).source(x, x, gpu="h100"))) == is_kept


@pytest.mark.parametrize("shape", ((4, 64), (7, 37), (4, 1), (5, 1000)))
def test_every_lane_has_what_the_elements_make_in_order(shape):
    x, y = (
        torch.randint(-3, 4, shape, dtype=torch.int32, device=DEVICE),
        torch.zeros(shape, dtype=torch.int32, device=DEVICE),
    )
    reduced(affine, 2)(x, y)
    a, b = torch.ones_like(x[:, 0]), torch.zeros_like(x[:, 0])
    for column in x.unbind(1):
        a, b = affine(a, b, column, column * 2 + 1)
    assert torch.equal(y, b[:, None].expand(shape))


def test_all_axes_are_in_row_major_order():
    def application(x, y, z):
        y = ntl.reduce((x, x + 1), None, affine)[1]
        z = ntl.reduce((x, x + 1), None, affine, keep_dims=True)[1]

    x = torch.randint(-3, 4, (5, 6), dtype=torch.int32, device=DEVICE)
    y, z = torch.zeros(1, 1, dtype=torch.int32, device=DEVICE), torch.zeros(1, 1, dtype=torch.int32, device=DEVICE)
    whole = lambda *tensors: tuple(tensor.tile((-1, -1)) for tensor in tensors)  # noqa: E731
    ninetoothed.make(whole, application, (Tensor(2), Tensor(2), Tensor(2)))(x, y, z)
    a, b = 1, 0
    for number in x.flatten().tolist():
        a, b = affine(a, b, number, number + 1)
    assert y.item() == z.item() == (b + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("size", (8, 13))
@pytest.mark.parametrize("name", ("argmax", "argmin"))
def test_the_first_nan_is_the_place_of_an_extremum(name, size):
    find = getattr(ntl, name)

    def application(x, y, z):
        y = find(x, 1, keep_dims=True) + ntl.zeros(x.shape, dtype=ntl.int32)
        z = find(x, None, keep_dims=True)

    x = torch.randn(4, size, device=DEVICE)
    x[1, 5:], x[2], x[2, ::2], x[3, 3], x[3, -1] = torch.nan, -0.0, 0.0, torch.nan, torch.nan
    y, z = torch.empty(4, size, dtype=torch.int32, device=DEVICE), torch.empty(1, 1, dtype=torch.int32, device=DEVICE)
    whole = lambda *tensors: tuple(tensor.tile((-1, -1)) for tensor in tensors)  # noqa: E731
    kernel = ninetoothed.make(whole, application, (Tensor(2), Tensor(2), Tensor(2)))
    kernel(x, y, z)
    assert torch.equal(y, getattr(torch, name)(x, 1, keepdim=True).expand_as(y).int())
    assert z.item() == size + 5
    assert f"tl.{name}" not in str(kernel.source(x, y, z, gpu="h100"))


def test_an_extremum_is_found_once_however_often_it_is_asked_for():
    def application(x, y):
        value, place = ntl.max(x, 0, return_indices=True)
        again, other = ntl.max(x, 0, return_indices=True)
        y = ntl.join(value + again, place + other) * (ntl.argmax(x, 0) + 1)

    kernel = ninetoothed.make(lambda x, y: (x.tile((8,)), y.tile((2,))), application, (Tensor(1), Tensor(1)))
    x, y = torch.tensor([3.0, 1, 9, 2, 9, 4, 0, 7], device=DEVICE), torch.zeros(2, device=DEVICE)
    assert kernel.source(x, y, gpu="h200").text.count("tl.reduce(") == 1
    kernel(x, y)
    assert y.tolist() == [54, 12]


def test_scans_leave_out_axes_of_one_lane():
    def application(x, y, z):
        y = ntl.cumsum(ntl.sum(x, 1, keep_dims=True), 0) + x
        z = ntl.cumsum(ntl.sum(x, 0, keep_dims=True), 0) + ntl.associative_scan(x, 1, affine_sum, reverse=True)

    def affine_sum(a, b):
        return a + b

    x = torch.randint(-3, 4, (4, 6), dtype=torch.int32, device=DEVICE)
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    whole = lambda *tensors: tuple(tensor.tile((-1, -1)) for tensor in tensors)  # noqa: E731
    kernel = ninetoothed.make(whole, application, (Tensor(2), Tensor(2), Tensor(2)))
    kernel(x, y, z)
    assert torch.equal(y, x.sum(1, keepdim=True).cumsum(0).int() + x)
    assert z[:, -1].tolist() == (x.sum(0)[-1] + x[:, -1]).tolist()
    text = str(kernel.source(x, y, z, gpu="h100"))
    assert (
        "tl.cumsum(tl.reshape(tl.sum(x, axis=1, keep_dims=True), (4,)), axis=0)" in text
        and text.count("tl.cumsum") == 1
    )


def test_triton_before_3_7_cannot_scan_along_an_axis_beside_one_of_one_lane(monkeypatch):
    triton = pytest.importorskip("triton")
    monkeypatch.setattr(workarounds, "_without_unit_axes", lambda scan: (scan,))

    def application(x, y):
        y = ntl.cumsum(ntl.sum(x, 1, keep_dims=True), 0) + x

    whole = lambda *tensors: tuple(tensor.tile((-1, -1)) for tensor in tensors)  # noqa: E731
    kernel = ninetoothed.make(whole, application, (Tensor(2), Tensor(2)))
    variant = dispatch.launcher_of(kernel).trace((torch.empty(64, 128), torch.empty(64, 128)), {}, machine.H200)
    is_needed = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7)
    with pytest.raises(CompilationError) if is_needed else contextlib.nullcontext():
        executable.compile_for_gpu(kernel.definition, variant)


@pytest.mark.parametrize("shape", ((8,), (1, 13), (4, 8)))
def test_several_tiles_are_never_flattened_each_in_an_order_of_its_own(shape):
    """Overhang is told by a second tile: (1, 13) has one tile in the text of the user, and two in ours."""

    def application(x, y):
        y = ntl.reduce((x, x * 2), None, lambda a, i, b, j: (a + b, i + j))[0] + ntl.reduce(x, None, lambda a, b: a + b)

    def arrangement(x, y):
        return x.tile((-1,) * len(shape)), y.tile((1,))

    kernel = ninetoothed.make(arrangement, application, (Tensor(len(shape)), Tensor(1)))
    x, y = torch.randn(shape, device=DEVICE), torch.empty(1, device=DEVICE)
    kernel(x, y)
    torch.testing.assert_close(y[0], x.double().sum().float() * 2)
    calls = [node for node in ast.walk(ast.parse(str(kernel.source(x, y, gpu="h100")))) if isinstance(node, ast.Call)]
    joint = [node for node in calls if ast.unparse(node.func) == "tl.reduce" and isinstance(node.args[0], ast.Tuple)]
    assert joint and all(ast.unparse(node.args[1]) != "None" for node in joint)


def test_extrema_of_short_rows_are_found_for_several_rows_in_one_program():
    def application(x, y):
        y = ntl.argmax(x, 1)

    x, y = torch.empty(100000, 37), torch.empty(100000, dtype=torch.int32)
    arrangement = lambda x, y: (x.tile((1, -1)).squeeze(1), y.tile((1,)))  # noqa: E731
    kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)))
    assert "pid * 32 + tl.arange(0, 32)" in str(kernel.source(x, y, gpu="h100"))
