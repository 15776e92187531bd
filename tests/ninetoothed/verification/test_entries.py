"""`verify` of kernels of jagged tensors: the ends of entries, of any lengths, are bounds."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed_ops.kernels import softmax_jagged

JAGGED = Tensor(3, jagged_dim=1), Tensor(3, jagged_dim=1)


def double(x, y):
    y = 2 * x


def tiled(rows, step=None, columns=-1):
    steps = None if step is None else (1, step, -1)
    return lambda *tensors: tuple(each.tile((1, rows, columns), steps) for each in tensors)


def verdicts(kernel, *args):
    found = ninetoothed.verify(kernel, *args)
    return {(each.parameter, each.claim.partition(" ")[0]): each.verdict for each in found.findings}


def nested(lengths, gap=0):
    starts = torch.tensor([sum(lengths[:b]) + gap * b for b in range(len(lengths) + 1)])
    sizes = torch.tensor(lengths) if gap else None
    return torch.nested.nested_tensor_from_jagged(torch.randn(int(starts[-1]), 6), starts, sizes)


@pytest.mark.parametrize("gap", (0, 2))
def test_each_element_of_each_entry_is_written_once(gap):
    kernel = ninetoothed.make(tiled(16), double, JAGGED)
    x = nested((4, 0, 9), gap)
    y = torch.nested.nested_tensor_from_jagged(torch.zeros_like(x.values()), x.offsets(), x.lengths())
    assert ninetoothed.verify(kernel, x, y).verdict == "proved"
    assert ninetoothed.verify(kernel).verdict == ninetoothed.verify(kernel, (3, 7, 5), (3, 7, 5)).verdict == "proved"
    padding = ninetoothed.make(tiled(16), double, (Tensor(3, jagged_dim=1, other=0.0), Tensor(3)))
    assert ninetoothed.verify(padding).verdict == "proved"


def test_rounds_that_end_with_an_entry():
    def arrangement(x, y):
        return tuple(each.tile((1, 8, -1)).tile((1, -1, -1)) for each in (x, y))

    def application(x, y):
        for k in range(x.shape[1]):
            y[0, k, 0] = 2 * x[0, k, 0]

    assert ninetoothed.verify(ninetoothed.make(arrangement, application, JAGGED)).verdict == "proved"
    assert ninetoothed.verify(softmax_jagged.make(8)).verdict == "proved"


def test_what_is_written_twice_or_left_out_is_not_proved():
    """Tiles that overlap by a row, and those between which a row is: nothing else of them is open."""
    overlap = verdicts(ninetoothed.make(tiled(16, 15), double, JAGGED))
    assert overlap["y", "no"] == "not decided" and overlap["x", "nothing"] == overlap["y", "nothing"] == "proved"
    gaps = verdicts(ninetoothed.make(tiled(16, 17), double, JAGGED))
    assert gaps["y", "every"] == "not decided" and gaps["y", "no"] == gaps["y", "nothing"] == "proved"


def test_rows_of_other_entries_are_not_proved():
    """What a pointer reads from the begin of an entry, past its end, is of the next one."""

    def application(x, y):
        y = ntl.load(x.source.data_ptr() + x.offsets() + 6)

    found = verdicts(ninetoothed.make(tiled(16), application, JAGGED))
    assert found["x", "nothing"] == "not decided"


def test_a_shared_memory_is_seen_as_it_is():
    x = nested((4, 0, 9))
    whole = ninetoothed.make(tiled(16), double, JAGGED)
    assert ninetoothed.verify(whole, x, x).verdict == "proved"
    later = torch.nested.nested_tensor_from_jagged(x.values()[1:], torch.tensor([0, 3, 3, 12]))
    with pytest.raises(ninetoothed.errors.SizeError, match="same offsets"):
        ninetoothed.verify(whole, x, later)
