"""Outputs that share memory with other elements of an argument are refused, in every call; in place is not."""

import linecache
import re
import warnings

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import AliasingWarning, ArgumentError, Tensor
from ninetoothed.runtime.dispatch import launcher_of
from tests.conftest import DEVICE, needs_triton


def kernel(ndim=1, count=2):
    def application(x, y):
        y = x + 1

    def third(x, unused, y):
        y = x + 1

    def arrangement(*tensors):
        return tuple(tensor.tile((4,) * tensor.ndim) for tensor in tensors)

    tensors = tuple(Tensor(ndim) for _ in range(count))
    return ninetoothed.make(arrangement, application if count == 2 else third, tensors)


def square():
    return torch.randn(8, 8, device=DEVICE)


REFUSED = {
    "shifted": lambda m: (m.view(-1)[:-1], m.view(-1)[1:]),
    "shifted back": lambda m: (m.view(-1)[1:], m.view(-1)[:-1]),
    "transposed": lambda m: (m.T, m),
    "columns": lambda m: (m[:, :5], m[:, 3:]),
    "every second": lambda m: (m.view(-1)[::2], m.view(-1)[:32]),
    "repeated": lambda m: (m[:1].expand(8, 8), m),
    "narrower": lambda m: (m[:4], m.view(torch.float16)[:4, :8]),
    "aligned": lambda m: (m[:-2], m[2:]),
}
TAKEN = {
    "in place": lambda m: (m, m),
    "in place, another view": lambda m: (m[:], m),
    "in place, transposed": lambda m: (m.T, m.T),
    "halves": lambda m: (m[:4], m[4:]),
    "columns": lambda m: (m[:, :4], m[:, 4:]),
    "every second": lambda m: (m.view(-1)[::2], m.view(-1)[1::2]),
    "other bits": lambda m: (m.view(torch.int32), m),
    "empty": lambda m: (m[:0], m[:0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_shared_memory_is_refused_in_every_call(name):
    x, y = REFUSED[name](m := square())
    before, own = m.clone(), kernel(x.ndim)
    for _ in range(3):
        own(x, torch.empty(x.shape, dtype=y.dtype, device=DEVICE))
        with pytest.raises(ArgumentError, match="`y` is written to, and shares memory with elements of `x`"):
            own(x, y)
    assert torch.equal(m, before)


@pytest.mark.parametrize("name", TAKEN)
def test_memory_that_is_apart_or_the_same_is_taken(name):
    own = None
    for _ in range(4):
        x, y = TAKEN[name](square())
        own = own or kernel(x.ndim)
        expected = (x + 1).to(y.dtype)
        own(x, y)
        torch.testing.assert_close(y, expected)


def test_a_parameter_that_is_never_touched_may_share():
    m = square()
    kernel(2, count=3)(m[:-1], m[1:], out := torch.empty_like(m[1:]))
    kernel(2, count=3)(out, m[1:], m[:-1])
    assert torch.equal(m[:-1], out + 1)


def plus_one(x, y):
    y = x + 1


def total(x, y):
    y = ntl.sum(x, 1, keep_dims=True) + ntl.zeros((4, 4), ntl.float32)


def by_source(x, y):
    y = x.source[x.offsets(0)[:, None], x.offsets(1)[None, :]] + 1


def mirrored(x, y):
    y = x.source[x.source.shape[0] - 1 - x.offsets(0)[:, None], x.offsets(1)[None, :]] + 1


def tiles(tensor):
    return tensor.tile((4, 4))


def transposed(tensor):
    return tensor.permute((1, 0)).tile((4, 4))


def overlapping(tensor):
    return tensor.tile((4, 5), strides=(4, 4))


def flat(tensor):
    return tensor.flatten().tile((4,))


# The application and the arrangements of `x` and `y`; the arguments of a square that are refused; those that run.
ARRANGED = {
    "permuted": (plus_one, transposed, tiles, lambda m: (m, m), lambda m: (m, m.T)),
    "smaller tiles": (total, lambda x: x.tile((4, -1)).expand((-1, 2)), tiles, lambda m: (m, m), None),
    "overlapping": (plus_one, overlapping, overlapping, lambda m: (m, m[:]), None),
    "by source": (mirrored, tiles, tiles, lambda m: (m, m), None),
    "flattened": (plus_one, flat, flat, lambda m: (m.T, m), lambda m: (m, m.view(4, 16))),
    "one program": (plus_one, transposed, tiles, lambda m: (m, m), lambda m: (m[:4, :4], m[:4, :4])),
    "views of one dimension": (plus_one, flat, lambda y: y.tile((4,)), lambda m: (m.T, m.view(-1)), None),
}


@pytest.mark.parametrize("name", ARRANGED)
def test_in_place_programs_keep_to_elements_of_their_own(name):
    application, x, y, refused, taken = ARRANGED[name]
    first, second = refused(m := square())
    own = ninetoothed.make(lambda a, b: (x(a), y(b)), application, (Tensor(first.ndim), Tensor(second.ndim)))
    for _ in range(3):
        with pytest.raises(ArgumentError, match="`y` is written to"):
            own(first, second)
        if name != "smaller tiles":
            own(first, torch.empty_like(second))
    for _ in range(3 if taken else 0):
        first, second = taken(m := square())
        expected = (first.T if name in ("permuted", "one program") else first).reshape(second.shape) + 1
        own(first, second)
        torch.testing.assert_close(second, expected)


def test_one_element_is_memory_too():
    def application(x, count, y):
        ntl.atomic_add(count, ntl.sum(x))
        y = x

    own = ninetoothed.make(lambda x, c, y: (x.tile((4,)), c, y.tile((4,))), application, [Tensor(n) for n in (1, 0, 1)])
    m = torch.ones(16, device=DEVICE)
    own(m, count := torch.zeros((), device=DEVICE), torch.empty_like(m))
    assert count == 16
    with pytest.raises(ArgumentError, match="`count` is written to"):
        own(m, m[8], torch.empty_like(m))


def fixed(tensor):
    return tensor.tile((4, 8))


def whole(tensor):
    return tensor.tile((4, -1))


# Arrangements of `x` and `y` that are written differently, and cut alike.
ALIKE = {
    "-1 and the full size": (plus_one, whole, fixed),
    "by source": (by_source, tiles, tiles),
}


@pytest.mark.parametrize("name", ALIKE)
def test_in_place_by_arrangements_that_are_written_differently(name):
    application, x, y = ALIKE[name]
    own = ninetoothed.make(lambda a, b: (x(a), y(b)), application, (Tensor(2), Tensor(2)))
    expected = (m := square()) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own(m, m)
    torch.testing.assert_close(m, expected)


def twice(x, y, z):
    y = x * 2
    z = x + 1


def once(x, y, z):
    value = x + 0
    y = value * 2
    z = value + 1


def in_rounds(x, y, z):
    for i in range(x.shape[0]):
        y[i] = x[i] * 2
        z[i] = x[0] + 1


def one_by_one(x, y, z):
    for i in range(x.shape[0]):
        value = x[i]
        y[i] = value * 2
        z[i] = value + 1


def next_round(x, y, z):
    for i in range(2):
        y = x + i
    z = y + 1


def waiting(x, y, z):
    y = x * 2
    ntl.debug_barrier()
    z = x + 1


TILES = lambda tensor: tensor.tile((4,))  # noqa: E731
LEVELS = lambda tensor: tensor.tile((4,)).tile((2,))  # noqa: E731
AGAIN = {"twice": (twice, TILES), "in rounds": (in_rounds, LEVELS), "in the next round": (next_round, TILES)}
SILENT = {"once": (once, TILES), "one by one": (one_by_one, LEVELS), "waiting": (waiting, TILES)}


def of_three(application, tiles):
    return ninetoothed.make(lambda *tensors: tuple(map(tiles, tensors)), application, [Tensor(1) for _ in range(3)])


@pytest.mark.parametrize("size", (32, 100_000))
@pytest.mark.parametrize("name", AGAIN)
def test_reading_again_what_was_stored_warns_once(name, size):
    own = of_three(*AGAIN[name])
    m, other, out = (torch.randn(size, device=DEVICE) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own(m, other, out)  # memory of their own
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(4):
            own(m, m, out)
        own(m[:16], m[:16], out[:16])
    told = r"'y' and 'x' are the same memory in this call, and 'x' is read after line \d+ stored to 'y'.*`.clone\(\)`"
    assert [each.category for each in found] == [AliasingWarning]
    assert re.search(told, str(found[0].message)) and "x" in linecache.getline(found[0].filename, found[0].lineno)


@pytest.mark.parametrize("name", SILENT)
def test_reading_before_the_store_is_silent(name):
    m, out = (torch.randn(32, device=DEVICE) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of_three(*SILENT[name])(m, m, out)


def transposed_into(x, y):
    y = x


def test_in_place_is_another_variant_whatever_came_before():
    def both(x, y, z):
        y = x + 1
        z = x * 2

    def arrangement(*tensors):
        return tuple(tensor.tile((4,)) for tensor in tensors)

    made = ninetoothed.make(arrangement, both, tuple(Tensor(1) for _ in range(3)))
    for is_in_place in (False, False, True, True, False, True):
        x = torch.arange(16.0, device=DEVICE)
        y, z = (x[:] if is_in_place else torch.empty_like(x)), torch.empty_like(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AliasingWarning)
            made(x, y, z)
        start = torch.arange(16.0, device=DEVICE)
        assert torch.equal(y, start + 1) and torch.equal(z, 2 * (start + is_in_place))
    assert [variant.program.in_place for variant in launcher_of(made).variants] == [False, True]


@pytest.mark.parametrize("other", (torch.bool, torch.uint8, torch.int8, torch.float8_e5m2))
@pytest.mark.parametrize("dtype", (torch.bool, torch.uint8))
@needs_triton
def test_in_place_threads_wait_whatever_a_byte_is_read_as(dtype, other):
    made = ninetoothed.make(lambda x, y: (x.tile((64, 64)), y.tile((64, 64))), transposed_into, (Tensor(2), Tensor(2)))
    x = torch.zeros(64, 64, dtype=dtype)
    assert "debug_barrier" in made.source(x, x.view(other).T, gpu="h100").text
