"""Run by `test_triton_numbers` under TRITON_INTERPRET=1: the values of numbers in the text."""

import torch

from tests.ninetoothed.backends import interpreted
from tests.ninetoothed.backends.test_triton_numbers import LONG_NUMBERS, VALUES, long_numbers, make

if __name__ == "__main__":
    for application, expected in VALUES:
        x, y = torch.zeros(8), torch.full((8,), float("nan"))
        interpreted.interpret(make(application), (x, y))
        assert (y == expected).all(), f"{application.__name__}: {y[0].item()}, not {expected}"
    for application, expected in LONG_NUMBERS:
        short, long, again = long_numbers(application, interpreted.interpret)
        assert long == expected and short == again, f"{application.__name__}: {long}, not {expected}"
