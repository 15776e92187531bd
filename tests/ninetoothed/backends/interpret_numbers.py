"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: the values of numbers in the text."""

import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.runtime.selection import machine
from tests.ninetoothed.applications import application_of
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
    halves = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.float16)
    singles = torch.arange(0, 2**32, 2**32 // 99991).to(torch.int32).view(torch.float32)
    for x in (halves, singles):
        y, application = torch.zeros(x.shape, dtype=torch.float8_e5m2), application_of("y = x")
        kernel = ninetoothed.make(lambda x, y: (x.tile((4096,)), y.tile((4096,))), application, (Tensor(1), Tensor(1)))
        assert "to_float8e5" in interpreted.interpret(kernel, (x, y), machine.A100).source
        expected = x.clamp(-57344, 57344).to(y.dtype)
        torch.testing.assert_close(y.float(), expected.float(), rtol=0, atol=0, equal_nan=True)
