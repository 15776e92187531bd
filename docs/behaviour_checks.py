"""Behaviours of an operator that docs/behaviours.md compares: types, devices, modes and kinds of tensors.

Each function takes a call and one of its two functions, and gives the cases of a behaviour.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from docs.behaviour_calls import Call
from docs.behaviour_outcomes import Cases, Outcome, clones, gradients, of, tensors_of
from tests.ninetoothed_ops.autocast import autocast_on_gpus

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
HALVES = FLOATS[1:3]


def autocast(call: Call, function: Callable) -> Cases:
    """The types of results, and on a CPU of gradients: fakes tell both, and need no GPU."""

    tensors = call.recorded()

    def fakes(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        return [
            torch.empty_strided(
                each.shape, each.stride(), dtype=dtype if each.is_floating_point() else each.dtype, device=device
            ).requires_grad_(each.requires_grad)
            for each in tensors
        ]

    def on_cpu(dtype: torch.dtype, given: torch.dtype) -> Outcome:
        with FakeTensorMode():
            given_fakes = fakes("cpu", given)
            with torch.autocast("cpu", dtype):
                results = function(*given_fakes)
            recorded = [each for each in tensors_of(results) if each.requires_grad]
            leaves = [each for each in given_fakes if each.requires_grad]
            grads = torch.autograd.grad(recorded, leaves, list(map(torch.ones_like, recorded)), allow_unused=True)
            return of([results, *(each for each in grads if each is not None)], with_values=False)

    def on_gpu(dtype: torch.dtype, given: torch.dtype) -> Outcome:
        with FakeTensorMode(), torch.no_grad(), autocast_on_gpus(dtype):
            return of(function(*fakes("cuda", given)), with_values=False)

    return {
        f"{device} {dtype}, {given}".replace("torch.", ""): lambda run=run, dtype=dtype, given=given: run(dtype, given)
        for device, run in (("cpu", on_cpu), ("cuda", on_gpu))
        for dtype in HALVES
        for given in FLOATS
    }


def deterministic(call: Call, function: Callable) -> Cases:
    """Results and gradients of deterministic algorithms alone, twice with the same bits."""

    def run() -> Outcome:
        with _restored(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms):
            torch.use_deterministic_algorithms(True)
            both = []
            for _ in range(2):
                torch.manual_seed(0)
                results, grads = gradients(function, list(call.recorded()))
                both.append([*results, *grads])
        assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
        return of(both[0], with_values=not call.is_random)

    return {"a training step": run}


def defaults(call: Call, function: Callable) -> Cases:
    """Results and gradients of float32 tensors on a CPU where another type or device is the default."""

    def of_type(dtype: torch.dtype) -> Outcome:
        with _restored(torch.get_default_dtype, torch.set_default_dtype):
            torch.set_default_dtype(dtype)
            return of(gradients(function, list(call.recorded())), with_values=not call.is_random)

    def of_device() -> Outcome:
        tensors = list(call.recorded())
        with torch.device("meta"):
            results = function(*tensors)
        return of(results, lambda each: each.device, with_values=not call.is_random)

    return {
        "float64": lambda: of_type(torch.float64),
        "bfloat16": lambda: of_type(torch.bfloat16),
        "another device": of_device,
    }


def meta(call: Call, function: Callable) -> Cases:
    """Shapes, types and strides of results and of gradients on the meta device."""

    def run(dtype: torch.dtype) -> Outcome:
        tensors = [_as(each, dtype).detach().to("meta").requires_grad_(each.requires_grad) for each in call.recorded()]
        return of(gradients(function, clones(tensors)), lambda each: each.device)

    def strides() -> Outcome:
        return of(function(*(each.to("meta") for each in call.tensors)), torch.Tensor.stride)

    return {"float32": lambda: run(torch.float32), "bfloat16": lambda: run(torch.bfloat16), "strides": strides}


def inference(call: Call, function: Callable) -> Cases:
    """Calls in inference mode, and outside of it with tensors that were made there."""

    def inside() -> Outcome:
        with torch.inference_mode():
            return of(function(*clones(call.tensors)), torch.Tensor.is_inference, with_values=not call.is_random)

    def made() -> list[torch.Tensor]:
        with torch.inference_mode():
            return clones(call.tensors)

    def outside() -> Outcome:
        return of(function(*made()), torch.Tensor.is_inference, with_values=not call.is_random)

    def recorded(place: int) -> Outcome:
        """One place is of inference mode, and others want gradients."""
        tensors = list(call.recorded())
        tensors[place] = made()[place]
        return of(gradients(function, tensors), with_values=not call.is_random)

    places = {f"recorded, {name}": lambda i=i: recorded(i) for i, name in enumerate(call.names)}
    return {"inside": inside, "outside": outside, **places}


LAYOUTS = {"COO": torch.Tensor.to_sparse, "CSR": torch.Tensor.to_sparse_csr, "MKL-DNN": torch.Tensor.to_mkldnn}


def layouts(call: Call, function: Callable) -> Cases:
    """Sparse tensors and those of MKL-DNN in each place: results, or errors."""

    def run(convert: Callable, place: int) -> Outcome:
        tensors = clones(call.tensors)
        tensors[place] = convert(tensors[place])
        return of(function(*tensors), lambda each: each.layout, with_values=not call.is_random)

    return {
        f"{layout}, {name}": lambda convert=convert, i=i: run(convert, i)
        for layout, convert in LAYOUTS.items()
        for i, name in enumerate(call.names)
        if call.tensors[i].is_floating_point()
        and (layout != "CSR" or call.tensors[i].ndim > 1)
        # PyTorch's `index_copy_` into memory of MKL-DNN ends the process.
        and (layout != "MKL-DNN" or call.name != "rope_into_cache")
    }


def _as(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def materialised(make: Callable, inputs: tuple[torch.Tensor, ...]) -> Cases:
    """A module that is made on the meta device and gets memory, or the tensors of another, or another default type."""
    torch.manual_seed(0)
    state = make().state_dict()

    def run(fill: Callable[[torch.nn.Module], Any]) -> Outcome:
        with torch.device("meta"):
            module = make()
        assert all(each.is_meta for each in module.state_dict().values())
        fill(module)
        given = [each.requires_grad_(each.is_floating_point()) for each in clones(inputs)]
        results, grads = gradients(module, given, *module.parameters())
        return of([*results, *grads])

    def emptied(module: torch.nn.Module) -> None:
        module.to_empty(device="cpu").load_state_dict(state)

    def reset(module: torch.nn.Module) -> None:
        torch.manual_seed(0)
        module.to_empty(device="cpu")
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()

    def of_another_default() -> Outcome:
        with _restored(torch.get_default_dtype, torch.set_default_dtype):
            torch.set_default_dtype(torch.float64)
            return of(list(make().state_dict().values()), with_values=False)

    return {
        "filled": lambda: run(emptied),
        "reset": lambda: run(reset),
        "assigned": lambda: run(lambda module: module.load_state_dict(state, assign=True)),
        "default type": of_another_default,
    }


@contextlib.contextmanager
def _restored(get: Callable[[], Any], put: Callable[[Any], Any]) -> Iterator[None]:
    before = get()
    try:
        yield
    finally:
        put(before)
