"""Run by `test_interpreter` under TRITON_INTERPRET=1: the kernels, interpreted, against the CPU backend and PyTorch."""

import torch
import torch.nn.functional as F

from tests.ninetoothed.backends.interpreted import interpret
from tests.ninetoothed_ops.kernels import calls


def rope(input, sin, cos):
    even, odd = input[..., ::2], input[..., 1::2]
    sin, cos = sin[:, :, None], cos[:, :, None]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


REFERENCES = {
    "add": lambda x, y, alpha: x + alpha * y,
    "addmm": lambda input, x, y, beta, alpha: beta * input + alpha * (x @ y),
    "bmm": torch.matmul,
    "conv2d": lambda input, weight, bias, _: F.conv2d(input, weight, bias),
    "mm": torch.matmul,
    "rms_norm": lambda x, weight, eps, _: F.rms_norm(x, weight.shape, weight, eps),
    "rope": rope,
    "sdpa": lambda q, k, v, mask, scale, *_: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale),
    "silu": F.silu,
    "softmax": lambda x: x.softmax(-1),
}


def check(name, dtype, tolerance):
    torch.manual_seed(0)
    kernel, arguments = calls.small(name, dtype)
    place = max(i for i, value in enumerate(arguments) if isinstance(value, torch.Tensor))
    inputs = [*arguments[:place], *arguments[place + 1 :]]
    wide = [value.double() if isinstance(value, torch.Tensor) else value for value in inputs]
    expected = REFERENCES[name](*wide)
    found = {}
    for backend, run in (("interpreter", lambda *values: interpret(kernel, values)), ("cpu", kernel)):
        output = torch.full_like(arguments[place], float("nan"))
        run(*arguments[:place], output, *arguments[place + 1 :])
        found[backend] = output.double()
        error = (found[backend] - expected).norm() / expected.norm()
        assert error <= tolerance, f"{name} of {dtype} by the {backend}: relative error {error}"
    difference = (found["interpreter"] - found["cpu"]).norm() / expected.norm()
    assert difference <= tolerance, f"{name} of {dtype}: the backends differ by {difference}"


if __name__ == "__main__":
    for name in calls.NAMES:
        check(name, torch.float32, 1e-5)
        check(name, torch.float16, 2e-3)
        print(name)
