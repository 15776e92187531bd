"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: what became powers of two, against float64."""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from tests.ninetoothed.backends import interpreted

ROWS, COLUMNS = 16, 256
LOWEST = torch.finfo(torch.float32).min


def arrangement(input, scale, other, output):
    """Blocks of some rows; of `other` and `output`, which have a number for each row, those rows."""
    blocks = input.tile((ROWS, COLUMNS)).tile((1, -1)).squeeze(1)
    blocks.dtype = blocks.dtype.squeeze(0)
    return blocks, scale, other.tile((ROWS,)), output.tile((ROWS,))


def online(input, scale, other, output):
    """log(sum(exp(input * scale))), each block relative to the largest number so far."""
    peak = ntl.full((ROWS,), float("-inf"), dtype=ntl.float32)
    total = ntl.zeros((ROWS,), dtype=ntl.float32)
    for j in range(input.shape[0]):
        new_peak = ntl.maximum(peak, ntl.max(input[j], axis=1))
        decay = ntl.exp(peak * scale - new_peak * scale)
        weights = ntl.exp(input[j] * scale - (new_peak * scale)[:, None])
        total = total * decay + ntl.sum(weights, axis=1)
        peak = new_peak
    output = peak * scale + ntl.log(total)


def scaled_at_once(input, scale, other, output):
    """The same, with scores that are scaled where they are made."""
    peak = ntl.full((ROWS,), float("-inf"), dtype=ntl.float32)
    total = ntl.zeros((ROWS,), dtype=ntl.float32)
    for j in range(input.shape[0]):
        scores = scale * input[j]
        new_peak = ntl.maximum(peak, ntl.max(scores, axis=1))
        total = total * ntl.exp(peak - new_peak) + ntl.sum(ntl.exp(scores - new_peak[:, None]), axis=1)
        peak = new_peak
    output = peak + ntl.log(total)


def known(input, scale, other, output):
    """sum(exp(input * scale - other)), `other` known before the loop."""
    total = ntl.zeros((ROWS,), dtype=ntl.float32)
    for j in range(input.shape[0]):
        total += ntl.sum(ntl.exp(input[j] * scale - other[:, None]), axis=1)
    output = total


def carried(input, scale, other, output):
    """Relative to the peak before: a value that a loop carries."""
    peak, total = other, ntl.zeros((ROWS,), dtype=ntl.float32)
    for j in range(input.shape[0]):
        total += ntl.sum(ntl.exp(input[j] * scale - peak[:, None]), axis=1)
        peak = peak + 1.0
    output = total


def branching(input, scale, other, output):
    """In branches, and in a loop whose condition needs a carried value."""
    total, rest = ntl.zeros((ROWS,), dtype=ntl.float32), other
    j = 0
    while ntl.max(rest) > -100.0 and j < input.shape[0]:
        if j % 2 == 0:
            total += ntl.sum(ntl.exp(input[j] * 0.25 - rest[:, None]), axis=1)
        else:
            total += ntl.sum(ntl.exp(scale * input[j]), axis=1)
        j += 1
    output = total


def masked(input, scale, other, output):
    """softmax(input * scale + other) where `other` holds the lowest number: in rows that hold nothing else, evenly."""
    total = ntl.zeros((ROWS,), dtype=ntl.float32)
    for j in range(input.shape[0]):
        scores = input[j] * scale + other[:, None]
        total += ntl.sum(ntl.exp(scores - ntl.max(scores, axis=1)[:, None]), axis=1)
    output = total


def hidden(input, scale, other, output):
    """The same where the mask chooses, and the scale comes after."""
    total = ntl.zeros((ROWS,), dtype=ntl.float32)
    for j in range(input.shape[0]):
        scores = ntl.where((other == 0.0)[:, None], input[j], LOWEST)
        peak = ntl.max(scores, axis=1) * scale
        inside = input[j] > float("-inf")
        total += ntl.sum(ntl.where(inside, ntl.exp(scores * scale - peak[:, None]), 0.0), axis=1)
    output = total


def make(application):
    return ninetoothed.make(arrangement, application, (Tensor(2, other=float("-inf")), Tensor(0), Tensor(1), Tensor(1)))


def check(application, expected, other=None, scales=(0.125, 1.0)):
    x = torch.randn(37, 700) * 8
    other = torch.randn(37) if other is None else other
    for scale in scales:
        output = torch.full((37,), float("nan"))
        emitted = interpreted.interpret(make(application), (x, scale, other, output))
        assert "tl.exp2(" in emitted.source and "tl.exp(" not in emitted.source
        reference = expected(x.double(), scale, other.double())
        error = ((output.double() - reference).abs() / reference.abs()).max().item()
        assert error <= 4e-6, f"{application.__name__} {scale}: relative error {error}"


def log_sums():
    for application in (online, scaled_at_once):
        check(application, lambda x, scale, other: (x * scale).logsumexp(1), scales=(0.125, 1.0, 3.0))


def known_before():
    check(known, lambda x, scale, other: (x * scale - other[:, None]).exp().sum(1))


def carried_on():
    def expected(x, scale, other):
        parts = zip(x.split(COLUMNS, dim=1), range(3), strict=True)
        return sum((part * scale - (other + j)[:, None]).exp().sum(1) for part, j in parts)

    check(carried, expected)


def in_branches():
    def expected(x, scale, other):
        first, second, third = x.split(COLUMNS, dim=1)
        at_even = sum((part * 0.25 - other[:, None]).exp().sum(1) for part in (first, third))
        return at_even + (second * scale).exp().sum(1)

    check(branching, expected)


def lowest_numbers():
    other = torch.zeros(37)
    other[::3] = LOWEST

    def expected(x, scale, other):
        sums = [(part * scale - (part * scale).amax(1, keepdim=True)).exp().sum(1) for part in x.split(COLUMNS, dim=1)]
        return torch.where(other == LOWEST, 700.0, sum(sums))

    for application in (masked, hidden):
        check(application, expected, other)


if __name__ == "__main__":
    torch.manual_seed(0)
    for run in (log_sums, known_before, carried_on, in_branches, lowest_numbers):
        run()
        print(run.__name__)
