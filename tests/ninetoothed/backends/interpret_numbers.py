"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: the values of numbers in the text."""

import torch

from tests.ninetoothed.backends import interpreted
from tests.ninetoothed.backends.test_triton_numbers import LONG_NUMBERS, VALUES, long_numbers, make

if __name__ == "__main__":
    for body, expected in VALUES:
        x, y = torch.zeros(8), torch.full((8,), float("nan"))
        interpreted.interpret(make(body), (x, y))
        assert (y == expected).all(), f"{body}: {y[0].item()}, not {expected}"
    for body, expected in LONG_NUMBERS:
        short, long, again = long_numbers(body, interpreted.interpret)
        assert long == expected and short == again, f"{body}: {long}, not {expected}"
