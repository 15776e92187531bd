"""Loops: each round has its place in the order, and elements of its own where what it counts steps through them."""

import contextlib
import warnings

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.errors import AliasingWarning, RaceError, RaceWarning
from ninetoothed.runtime.selection.machine import H200
from tests.ninetoothed.applications import application_of


def call(application, x, y):
    """Run an application over tiles of four of `x`, with all of `y` for each; of many, ask only whether it may."""

    def arrangement(x, y):
        x = x.tile((4,))
        return x, y.tile((-1,)).expand((x.shape[0],))

    kernel = ninetoothed.make(arrangement, application_of(application), (Tensor(1), Tensor(1)))
    if len(x) < 1000:
        kernel(x, y)
    else:
        kernel.source(x, y, gpu=H200)


@contextlib.contextmanager
def expect(found):
    """Expect this error or warning, or None of either."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(found) if found else contextlib.nullcontext():
            yield


STRIDED = "for k in range(ntl.program_id(0), y.source.shape[0], {}):\n    y.source[k] = ntl.sum(x)"
WHILE = "k = ntl.program_id(0)\nwhile k < y.source.shape[0]:\n    y.source[k] = ntl.sum(x)\n    k += {}"
COUNTED = "k = ntl.program_id(0)\nfor _ in range(3):\n    y.source[k] = ntl.sum(x)\n    k += {}"
POINTERS = "p = y.source.data_ptr() + ntl.program_id(0)\nfor _ in range(3):\n    ntl.store(p, ntl.sum(x))\n    p += {}"


@pytest.mark.parametrize("text", (STRIDED, WHILE, COUNTED, POINTERS))
@pytest.mark.parametrize("step", ("ntl.num_programs(0)", "5", "7", "4", "3 + ntl.num_programs(0) // 5"))
@pytest.mark.parametrize("programs", (5, 40_000))
def test_rounds_that_step_over_other_programs(text, step, programs):
    """Programs meet where there are more of them than the step; 40,000 are more than are counted one by one."""
    is_apart = step == "ntl.num_programs(0)" or (programs == 5 and step in ("5", "7"))
    with expect(None if is_apart else RaceError):
        call(text.format(step), torch.ones(4 * programs), torch.zeros(3 * programs + 40))


@pytest.mark.parametrize("programs", (3, 40_000))
@pytest.mark.parametrize(
    "text",
    (
        "for k in range(ntl.program_id(0) * 8, ntl.program_id(0) * 8 + 8):\n    y.source[k] = ntl.sum(x)",
        "for k in range(0, 8, 4):\n    y.source[ntl.program_id(0) * 8 + k + ntl.arange(0, 4)] = x",
        "for k in range(6, -1, -2):\n    y.source[ntl.program_id(0) * 8 + k] = 1.0 * k + ntl.sum(x)",
        "k = 7\nwhile k >= 0:\n    y.source[ntl.program_id(0) * 8 + k] = ntl.sum(x)\n    k -= 1",
        "k, at = 0, 2 * x.offsets(0) - ntl.arange(0, 4)\nwhile k < 2:\n    y.source[at] = x\n    k += 1\n    at += 4",
        "for k in range(ntl.program_id(0) * 8 + 7, ntl.program_id(0) * 8 - 1, -1):\n    y.source[k] = ntl.sum(x)",
        "k = 0\nwhile k < x.source.shape[0]:\n    y.source[0] = k\n    k += 3",
        "for loaded_0 in range(0, 8, 2):\n    for round_0 in range(2):\n        y.source[round_0 + loaded_0] = 1.0",
    ),
)
def test_elements_of_ones_own(text, programs):
    x, y = torch.ones(4 * programs), torch.full((8 * programs,), torch.nan)
    if "y.source[0]" in text and programs > 3:
        x = x[: 4 * 3]
    with expect(None):
        call(text, x, y)


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ("k = 0\nwhile k < 3:\n    y.source[k] = ntl.sum(x)\n    k += 1", RaceError),
        ("k = 0\nwhile k < ntl.program_id(0):\n    k += 1\n    y.source[0] = 1.0 * k", RaceError),
        ("k = 8\nwhile k != 3:\n    k -= 1\n    y.source[k] = ntl.sum(x)", RaceWarning),
        ("k = ntl.program_id(0)\nwhile k < 9:\n    y.source[k] = ntl.sum(x)\n    k = k * 2 + 1", RaceWarning),
    ),
)
def test_rounds_that_meet(text, found):
    with expect(found):
        call(text, torch.ones(12), torch.zeros(12))


@pytest.mark.parametrize("programs", (3, 40_000))
def test_a_loop_without_rounds_stores_nothing(programs):
    text = "for k in range(y.source.shape[0] - x.source.shape[0]):\n    y.source[k] = 1.0 * ntl.program_id(0)"
    text += "\ny.source[x.offsets(0)] = x"
    with expect(None):
        call(text, torch.ones(4 * programs), torch.zeros(4 * programs))
    with expect(RaceError):
        call(text, torch.ones(4 * programs), torch.zeros(4 * programs + 1))


@pytest.mark.parametrize("loop", ("for k in range(3):", "k = 0\nwhile k < 3:"))
@pytest.mark.parametrize(
    ("body", "found"),
    (
        ("y[0] = x[0] + 1", AliasingWarning),
        ("y[k] = x[k] + 1", None),
        ("y[k] = x[k + 1] + 1", None),
        ("y[k + 1] = x[k] + 1", AliasingWarning),
    ),
)
def test_a_round_reads_what_the_one_before_stored(loop, body, found):
    """In place, whether the loop is a `for` or a `while`."""
    step = "\n    k += 1" if "while" in loop else ""
    application = application_of(f"{loop}\n    {body}{step}")
    kernel = ninetoothed.make(lambda *each: tuple(t.tile((1,)).tile((4,)) for t in each), application, (Tensor(1),) * 2)
    x = torch.arange(8.0)
    with expect(None):
        kernel(x, torch.zeros(8))
    with expect(found):
        kernel(x, x)


def test_quotients_of_divisors_that_differ():
    """Two programs come to one element in two rounds, of which each divides by another number."""
    text = "for r in range(2):\n    at = ntl.program_id(0)\n    y.source[at // (r + 1) * 4 + at % (r + 1)] = ntl.sum(x)"
    with expect(RaceError):
        call(text, torch.ones(16), torch.zeros(32))
