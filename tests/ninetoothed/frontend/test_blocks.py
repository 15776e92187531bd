"""What names stand for, and what is known of memory, across loops and branches: each of these was wrong once."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from tests.conftest import DEVICE


def randn(*shape):
    return torch.randn(shape, device=DEVICE)


def nans(*shape):
    return torch.full(shape, float("nan"), device=DEVICE)


def over(application, n, *tensors, whole=False):
    """Run an application of a number and vectors, cut in eights: a tile a program, or all of them in one."""

    def arrangement(n, *tensors):
        tiles = tuple(tensor.tile((8,)) for tensor in tensors)
        return n, *(tile.tile((-1,)) if whole else tile for tile in tiles)

    ninetoothed.make(arrangement, application, (Tensor(0), *(Tensor(1) for _ in tensors)))(n, *tensors)
    return tensors[-1]


def counted(count=13):
    return torch.arange(float(count), device=DEVICE)


def test_a_mask_outlasts_those_of_a_loop_before_it():
    """What is asked before a branch, for use in it, has a name that no loop of that branch has."""

    def application(x, z, flag, y):
        if flag > 0:
            total = ntl.zeros(x.dtype.shape, dtype=ntl.float32)
            for k in range(x.shape[1]):
                total += x[0, k] * z[0, k]
            y[0, 0] = y[0, 0] + total

    def arrangement(x, z, flag, y):
        x, z, y = (tensor.tile((1, 32)).tile((1, -1)) for tensor in (x, z, y))
        return x, z, flag, y

    x, z, y = randn(5, 70), randn(5, 70), randn(5, 70)
    expected = y.clone()
    expected[:, :32] += sum(torch.nn.functional.pad(x * z, (0, 26)).split(32, 1))
    ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(0), Tensor(2)))(x, z, 1, y)
    torch.testing.assert_close(y, expected)


def test_a_mask_of_one_branch_outlasts_a_loop_of_the_other():
    def application(x, z, flag, y, w):
        if flag > 0:
            for k in range(x.shape[1]):
                w[0, k] = x[0, k] * z[0, k]
        else:
            y[0, 0] = y[0, 0] + 1.0
        y[0, 0] = y[0, 0] * 2.0

    def arrangement(x, z, flag, y, w):
        x, z, y, w = (tensor.tile((1, 32)).tile((1, -1)) for tensor in (x, z, y, w))
        return x, z, flag, y, w

    tensors = (Tensor(2), Tensor(2), Tensor(0), Tensor(2), Tensor(2))
    for flag in (0, 1):
        x, z, y, w = randn(5, 70), randn(5, 70), randn(5, 70), nans(5, 70)
        expected = y.clone()
        expected[:, :32] = (y[:, :32] + 1 - flag) * 2
        ninetoothed.make(arrangement, application, tensors)(x, z, flag, y, w)
        torch.testing.assert_close(y, expected)
        assert torch.equal(w, x * z) if flag else w.isnan().all()


def test_a_loop_leaves_the_counter_of_another_alone():
    def application(n, x, y):
        for i in range(x.shape[0]):
            p = i
            for _ in range(n):
                p = p + 1
            y[i] = x[i] + p

    x = counted()
    assert torch.equal(over(application, 3, x, nans(13), whole=True), x + 3 + x // 8)


def test_a_loop_leaves_a_shared_index_alone():
    def raised(offsets, n):
        for _ in range(n):
            offsets = offsets + 1
        return offsets

    def application(n, x, y):
        y = raised(x.offsets(0), n) + x

    assert torch.equal(over(application, 3, counted(), nans(13)), 2 * counted() + 3)


@pytest.mark.parametrize("n", (0, 1))
def test_two_results_of_a_branch_are_two_variables(n):
    def application(n, x, y):
        pair = (x, x + 1)
        if n > 0:
            pair = (x * 2, x * 3)
        a, b = pair
        y = a * 100 + b

    x = counted()
    assert torch.equal(over(application, n, x, nans(13)), x * 203 if n else x * 101 + 1)


def test_the_mask_of_a_while_loop_outlasts_those_of_its_condition():
    def below(y, n):
        most = 0.0
        for i in range(n):
            most = most + ntl.max(y[i])
            y[i] = y[i] * 1
        return most

    def application(n, y):
        c = 0
        while below(y, n) < 100 and c < 3:
            y[0] = y[0] + 1
            c += 1

    y = over(application, 2, counted(), whole=True)
    assert torch.equal(y[:8], counted(8) + 3) and torch.equal(y[8:], counted()[8:])


def test_what_only_later_rounds_store_is_loaded_again():
    def application(n, y):
        w = 0
        t = y[1] * 0
        for _ in range(n):
            t += y[0]
            if w > 0:
                y[0] = y[0] + 100
            w = 1
        y[1] = t

    y = over(application, 3, counted(16), whole=True)
    assert torch.equal(y, torch.cat((counted(8) + 200, 3 * counted(8) + 100)))


def test_what_a_condition_stores_is_loaded_again():
    def stored(p, v):
        p = v
        return v

    def application(n, y):
        t = y[0] * 0
        c = 0
        while c < n and ntl.max(stored(y[0], y[0] + 1)) < 120:
            t += y[0]
            c += 1
        y[1] = t

    with pytest.warns(ninetoothed.HelperAssignmentWarning, match="'stored' returns a value, and stores"):
        y = over(application, 3, counted(16), whole=True)
    assert torch.equal(y, torch.cat((counted(8) + 3, 3 * counted(8) + 6)))


@pytest.mark.parametrize("n", (0, 2, 9))
def test_what_a_condition_assigns_is_there_after_the_loop(n):
    def application(n, x, y):
        m = n * 1
        c = 0
        while (m := m + 1) < 5:
            c += 1
        y = x * 0 + m * 100 + c

    assert over(application, n, counted(), nans(13)).unique().tolist() == [max(5, n + 1) * 100 + max(4 - n, 0)]


def test_what_a_condition_assigns_first_is_there_after_the_loop():
    def application(n, x, y):
        c = 0
        while (m := n * 2) < c:
            c -= 1
        y = x * 0 + m + c

    assert over(application, 3, counted(), nans(13)).unique().tolist() == [6]


def known_on_entry(n, x, y):
    c = 5
    while c > 0:
        c -= 1
        x = x + n
    y = x + c


def runs_once(n, x, y):
    going = True
    while going:
        going = False
        x = x + n
    y = x


def goes_on_for_ever_once_entered(n, x, y):
    going = n > 3
    while going:
        going = True
        x = x + n
    y = x


def never_changes(n, x, y):
    going = n > 3
    while going:
        x = x + n
    y = x


def is_what_the_round_before_left(n, x, y):
    going = n > 0
    while going:
        x = x + 1
        going = ntl.max(x) < 20
    y = x


@pytest.mark.parametrize(
    "application, added",
    (
        (known_on_entry, 5 * 3),
        (runs_once, 3),
        (goes_on_for_ever_once_entered, 0),
        (never_changes, 0),
        (is_what_the_round_before_left, torch.tensor([13.0] * 8 + [8.0] * 5)),  # until the greatest, 7 or 12, is 20
    ),
)
def test_a_condition_known_before_or_after_a_round(application, added):
    assert torch.equal(over(application, 3, counted(), nans(13)), counted() + torch.as_tensor(added, device=DEVICE))


def test_a_counter_becomes_a_tile():
    def application(n, x, y):
        for t in range(n):
            y[t] = x[t]
        for i in range(n):
            t = x[i] * 2
            y[i] = t + t

    assert torch.equal(over(application, 2, counted(), nans(13), whole=True), 4 * counted())


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.int8, torch.float32))
def test_extrema_with_numbers_keep_the_type(dtype):
    def application(n, x, y):
        t = ntl.maximum(x, 0)
        for _ in range(n):
            t = ntl.minimum(t, 25)
        y = t

    x = torch.tensor([-3, 50, 100, 1], device=DEVICE).to(dtype)
    expected = x.clamp(0, 25).to(torch.float32)
    assert torch.equal(over(application, 1, x, nans(4)), expected)


def test_a_loop_may_name_a_tile_of_tiles():
    def application(x, y):
        for i in range(x.shape[0]):
            tiles, results = x[i], y[i]
            for j in range(tiles.shape[0]):
                results[j] = tiles[j] + 1

    def arrangement(x, y):
        return tuple(tensor.tile((8,)).tile((2,)).tile((2,)) for tensor in (x, y))

    x, y = randn(70), nans(70)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    torch.testing.assert_close(y, x + 1)
