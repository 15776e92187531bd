"""Stores through indices that a run gives: nothing tells whether they repeat, unless it is declared."""

import contextlib
import warnings

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.errors import ArrangementError, RaceError, RaceWarning
from tests.ninetoothed.applications import application_of


def kernel_of(text, arrange, unique=False):
    """A kernel of tiles of four of `x`, with all of `y` for each program, and `k` as it is arranged."""

    def arrangement(x, k, y):
        x = x.tile((4,))
        return x, arrange(k, x), y.tile((-1,)).expand(x.shape)

    tensors = Tensor(1), Tensor(1), Tensor(1, unique_indices=unique)
    return ninetoothed.make(arrangement, application_of(text, "x", "k", "y"), tensors)


def one(k, x):
    return k.tile((1,))


def four(k, x):
    return k.tile((4,))


def shared(k, x):
    return k.tile((-1,)).expand(x.shape)


def counter(k, x):
    return k.tile((1,)).expand(x.shape)


@contextlib.contextmanager
def expect(found, match=None):
    """Expect this error or warning, or None of either."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(found, match=match) if found else contextlib.nullcontext():
            yield


MAY_REPEAT = (
    ("y.source[k[0]] = ntl.sum(x)", one),
    ("y.source[k[0] + ntl.arange(0, 4)] = x", one),
    ("y.source[k[0] // 2] = ntl.sum(x)", one),
    ("y.source[k[0] & 7] = ntl.sum(x)", one),
    ("y.source[k] = x", four),
    ("ntl.store(y.source.data_ptr() + k, x)", four),
    ("y.source[k[0]] = y.source[k[0]] + ntl.sum(x)", one),
    ("y.source[k[0]] = 1.0\ny.source[k[0] + 1] = ntl.sum(x)", one),
    ("for r in range(2):\n    y.source[k[ntl.program_id(0) * 2 + r]] = 1.0 * r", shared),
)


@pytest.mark.parametrize(("text", "arrange"), MAY_REPEAT, ids=[each[0] for each in MAY_REPEAT])
@pytest.mark.parametrize("is_declared", (False, True))
def test_indices_that_may_repeat(text, arrange, is_declared):
    """One warning names the parameter, what to do, and how to say that they do not; who has said so reads none."""
    k = torch.tensor([2, 0, 4, 6, 8, 10, 12, 14])[: {one: 2, four: 8, shared: 4}[arrange]]
    kernel = kernel_of(text, arrange, is_declared)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            kernel(torch.arange(8.0), k, torch.zeros(32))
    told = [str(each.message) for each in found if each.category is RaceWarning]
    assert len(told) == (not is_declared)
    wanted = "'y'", "repeat", "atomic_add(y.source[i], value)", "unique_indices=True", "filterwarnings"
    assert is_declared or all(part in told[0] for part in wanted)


@pytest.mark.parametrize(
    ("text", "found"),
    (
        # One number for all programs moves them all alike.
        ("y.source[k[0] + ntl.program_id(0)] = ntl.sum(x)", None),
        ("y.source[k[1] * 4 + x.offsets(0)] = x", None),
        # One that a program may read as another does says nothing; but each has a row of its own.
        ("at = ntl.program_id(0)\ny.source[at * 8 + k[at // 2] % 8] = ntl.sum(x)", None),
        ("y.source[k[0]] = 1.0", None),
        ("y.source[k[0] * ntl.program_id(0)] = ntl.sum(x)", RaceWarning),
        ("y.source[k[0]] = ntl.sum(x)", RaceError),
        ("y.source[3 + k[0] // 2] = ntl.sum(x)", RaceError),
    ),
)
def test_indices_that_all_programs_read(text, found):
    with expect(found):
        kernel_of(text, shared)(torch.arange(8.0), torch.tensor([1, 2]), torch.zeros(32))


def test_a_declaration_that_cannot_be_true():
    with expect(RaceError):
        kernel_of("y.source[k[0]] = ntl.sum(x)", shared, True)(torch.arange(8.0), torch.tensor([1]), torch.zeros(32))
    with expect(RaceWarning):  # It is of stores: what is read may be what another program stores.
        kernel_of("y.source[k[0]] = y.source[k[0] + 1]", one, True)(torch.ones(8), torch.tensor([1, 3]), torch.zeros(9))
    with pytest.raises(ArrangementError, match="unique_indices=1; give True or False"):
        Tensor(1, unique_indices=1)


LOCK = """while ntl.atomic_cas(k, 0, 1) == 1:
    pass
y.source[0] = y.source[0] + ntl.sum(x)
ntl.atomic_xchg(k, 0)"""
TICKETS = """while ntl.atomic_add(k, 0) != ntl.program_id(0):
    pass
y.source[0] = y.source[0] + ntl.sum(x)
ntl.atomic_add(k, 1)"""
LAST = """at = ntl.program_id(0)
y.source[1 + at] = ntl.sum(x)
if ntl.atomic_add(k, 1) == ntl.num_programs(0) - 1:
    total = 0.0
    for i in range(ntl.num_programs(0)):
        total += y.source[1 + i]
    y.source[0] = total"""


@pytest.mark.parametrize("text", (LOCK, TICKETS, LAST), ids=("lock", "tickets", "last"))
def test_programs_that_wait_for_each_other(text):
    """Atomics order them: one warning, where they decide, says that nothing tells whether that is enough."""
    kernel = kernel_of(text, counter)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for size in (20, 20, 16):
            kernel.source(torch.ones(size), torch.zeros(1, dtype=torch.int32), torch.zeros(9), gpu="h100")
    (told,) = [each for each in found if each.category is RaceWarning]
    assert "'y'" in str(told.message) and "filterwarnings" in str(told.message)
    assert told.lineno == 1 + next(i for i, line in enumerate(text.splitlines(), 1) if "atomic" in line)
    with expect(None):
        kernel.source(torch.ones(4), torch.zeros(1, dtype=torch.int32), torch.zeros(9), gpu="h100")  # one program


def test_programs_that_wait_and_share_nothing():
    text = (
        "while ntl.atomic_add(k, 0) != ntl.program_id(0):\n    pass\ny.source[x.offsets(0)] = x\nntl.atomic_add(k, 1)"
    )
    with expect(None):
        kernel_of(text, counter).source(torch.ones(20), torch.zeros(1, dtype=torch.int32), torch.zeros(20), gpu="h100")
