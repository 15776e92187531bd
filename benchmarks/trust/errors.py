"""Bad inputs: a named error before a launch; the next good call is right, and the cache as it was."""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Callable, Iterator

import torch

import ninetoothed
import ninetoothed_ops
from ninetoothed import Tensor
from ninetoothed.errors import NineToothedError

from . import mistakes, operators
from .applications import function
from .parts import Case


def cases(seed: int) -> Iterator[Case]:
    """Make every mistake once, in random order, with a good call after each."""
    rng = random.Random(f"errors {seed}")
    found = [*of_applications(), *of_arrangements(), *of_calls(), *of_operators(rng)]
    rng.shuffle(found)
    kernel = mistakes.kernel()
    good(kernel)
    for description, attempt, allowed in found:
        before = files()
        wrong = outcome(attempt, allowed) or good(kernel)
        yield Case(description, wrong or ("the cache has changed" if files() != before else ""))


def outcome(attempt: Callable, allowed: tuple[type, ...]) -> str:
    try:
        result = attempt()
    except allowed as error:
        return "" if str(error) else f"{type(error).__name__} without a message"
    except Exception as error:
        return f"{type(error).__name__}, which names nothing: {error}"
    return "" if result == "as PyTorch" else "no error"


def good(kernel) -> str:
    """Tell whether a kernel and an operator still give what they should."""
    x, out = torch.randn(11), torch.full((11,), float("nan"))
    kernel(x, out)
    is_right = torch.equal(out, x * 2) and torch.equal(ninetoothed_ops.add(x, x), x + x)
    return "" if is_right else "the next good call is wrong"


def files() -> list[str]:
    directory = os.environ.get("NINETOOTHED_CACHE_DIR", "")
    return sorted(map(str, pathlib.Path(directory).rglob("*"))) if directory else []


def of_applications():
    for number, body in enumerate(mistakes.BODIES):

        def attempt(body=body, number=number):
            made = function(mistakes.application(body), "application", -(10**9) - number)
            tensors = tuple(Tensor(1) for _ in range(3))
            kernel = ninetoothed.make(lambda *tensors: tuple(map(mistakes.vector, tensors)), made, tensors)
            kernel(torch.randn(11), torch.randn(11), torch.randn(11))

        # Python itself refuses some of the text.
        yield f"application: {body}", attempt, (NineToothedError, SyntaxError)


def of_arrangements():
    for number, arrange in enumerate(mistakes.ARRANGEMENTS):
        yield f"arrangement {number}", lambda arrange=arrange: arrange(Tensor(shape=(7,))), (NineToothedError,)


def of_calls():
    kernel = mistakes.kernel()
    for number, (args, kwargs) in enumerate(mistakes.calls()):
        attempt = lambda args=args, kwargs=kwargs: kernel(*args, **kwargs)  # noqa: E731
        yield f"call {number}", attempt, (NineToothedError, TypeError)


CHANGES: dict[str, Callable] = {
    "a dimension less": lambda x: x[0] if x.ndim else x,
    "a dimension more": lambda x: x[None],
    "two dimensions more": lambda x: x[None, None],
    "shorter": lambda x: x[..., :-1] if x.ndim else x,
    "longer": lambda x: torch.cat((x, x), 0) if x.ndim else x,
    "of integers": lambda x: x.long(),
    "complex": lambda x: x.to(torch.complex64),
    "of another type": lambda x: x.to(torch.float16 if x.dtype is torch.float32 else torch.float32),
    "on meta": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "None": lambda x: None,
    "text": lambda x: "text",
    "a list": lambda x: x.tolist(),
    "a number": lambda x: 3.5,
    "an object": lambda x: object(),
}
PYTORCH = {
    "rope": None,
    "sdpa": operators.attention,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "layer_norm": torch.nn.functional.layer_norm,
    "rms_norm": torch.nn.functional.rms_norm,
    "conv2d": torch.nn.functional.conv2d,
}


def of_operators(rng: random.Random):
    """Calls of each operator in which one tensor is changed: an error, or just what PyTorch gives."""
    for operator in operators.OPERATORS:
        sample = valid(operator, rng)
        for position, value in enumerate(sample.args):
            if not isinstance(value, torch.Tensor):
                continue
            for label, change in CHANGES.items():
                args = [change(x) if place == position else x for place, x in enumerate(sample.args)]
                attempt = lambda s=sample, a=args: compared(s, a)  # noqa: E731
                allowed = (NineToothedError, RuntimeError, TypeError, ValueError, IndexError)
                shapes = ", ".join(map(operators.described, sample.args))
                yield f"{sample.name}({shapes}): argument {position} {label}", attempt, allowed


def valid(operator, rng: random.Random):
    """A sample of float32 with nothing empty."""
    while True:
        maker = operators.Maker(rng)
        maker.dtype, maker.has_specials = torch.float32, False
        sample = operator(maker)
        if all(value.numel() for value in sample.args if isinstance(value, torch.Tensor)):
            return sample


def compared(sample, args) -> str:
    """Raise what the operator raises; where PyTorch takes the arguments, ours may, if it gives the same."""
    result = getattr(ninetoothed_ops, sample.name)(*args, **sample.kwargs)
    theirs = PYTORCH.get(sample.name, getattr(torch, sample.name, None)) or operators.rotated
    expected = theirs(*args, **sample.kwargs)
    if result.is_meta:
        return "as PyTorch" if result.shape == expected.shape else "another shape"
    same_type = sample.name != "rope"
    torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2, equal_nan=True, check_dtype=same_type)
    return "as PyTorch"
