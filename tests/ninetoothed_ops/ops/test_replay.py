"""The ten operators, repeated from recordings: what they give on new memory, and how many of them are recorded."""

import importlib

import pytest
import torch

from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed_ops.kernels import long_rows
from ninetoothed_ops.registration import OPERATORS as REGISTERED
from tests.ninetoothed.runtime import addresses
from tests.ninetoothed_ops.kernels import calls
from tests.ninetoothed_ops.samples import OPERATORS, operator, samples


@pytest.fixture(scope="module")
def new_kernels():
    """Kernels that other tests have not called, nor will call: they remember how they run."""
    makers = [importlib.import_module(f"ninetoothed_ops.kernels.{name}").make for name in calls.ALL]
    makers = [make for make in makers if hasattr(make, "cache_clear")]
    makers += [long_rows.make_softmax, long_rows.make_rms_norm, long_rows.make_layer_norm]
    for make in makers:
        make.cache_clear()
    yield
    for make in makers:
        make.cache_clear()


@pytest.mark.usefixtures("new_kernels")
@pytest.mark.parametrize("name", [name for name in OPERATORS if not name.endswith("cross_entropy")])
def test_a_recording_gives_what_the_operator_gives(name, monkeypatch):
    addresses.use(monkeypatch)
    registered = REGISTERED[f"ninetoothed::{name}"]
    function = ReplayedFunction(registered.allocate, registered.launch)
    found = []
    with torch.inference_mode():
        for sample in samples(name).values():
            if any(isinstance(value, torch.Tensor) and not value.is_cpu for value in sample.args):
                pytest.skip("the addresses are those of the CPU")
            for _ in range(4):
                fresh = sample.map(_anew)
                expected, result = fresh.call(operator(name)), fresh.call(function)
                assert torch.equal(result, expected) and result.stride() == expected.stride(), sample.label
            known = function.calls.find((*fresh.args, *fresh.kwargs.values()), tuple(fresh.kwargs))
            is_planned = isinstance(known, LaunchPlan)
            found.append((is_planned, sample.label))
    assert sum(is_recorded for is_recorded, _ in found) >= len(found) // 2, found


BACKWARDS = {
    "cross_entropy_backward": lambda r: (
        r(5),
        r(5, 7),
        torch.tensor([0, 6, 2, -100, 3]),
        None,
        r(5),
        r(5),
        -100,
        0.1,
        0.0,
        None,
    ),
    "silu_backward": lambda r: (r(5, 7), r(5, 7)),
    "swiglu_backward": lambda r: (r(5, 7), r(5, 7), r(5, 7)),
    "softmax_backward": lambda r: (r(5, 7), r(5, 7), 0, torch.float32),
    "activation_backward": lambda r: (r(5, 7), r(5, 7), "gelu"),
    "gated_backward": lambda r: (r(5, 7), r(5, 7), r(5, 7), "gelu_tanh"),
    "layer_norm_backward": lambda r: (r(5, 7), r(5, 7), [7], r(7), r(7), 1e-6, [True, True, True]),
    "layer_norm_backward of the input": lambda r: (r(5, 7), r(5, 7), [7], None, None, 1e-6, [True, False, False]),
    "rms_norm_backward": lambda r: (r(5, 7), r(5, 7), [7], r(7), 1e-6, [True, True], r(5, 7)),
    "rms_norm_backward of the input": lambda r: (r(5, 7), r(5, 7), [7], None, None, [True, False]),
    "rms_norm_backward of the weight": lambda r: (r(5, 7), r(5, 7), [7], r(7), None, [False, True]),
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the addresses are those of the CPU")
@pytest.mark.usefixtures("new_kernels")
@pytest.mark.parametrize("name", BACKWARDS)
def test_gradients_are_recorded(name, monkeypatch):
    addresses.use(monkeypatch)
    base = name.partition(" ")[0]
    registered = REGISTERED[f"ninetoothed::{base}"]
    function = ReplayedFunction(registered.allocate, registered.launch)
    with torch.inference_mode():
        for _ in range(4):
            args = BACKWARDS[name](torch.randn)
            found, expected = (
                each if isinstance(each, tuple) else (each,) for each in (function(*args), operator(base)(*args))
            )
            # A single element stands for a gradient that was not asked for.
            assert all(torch.equal(*pair) or pair[0].numel() == 1 for pair in zip(found, expected))
    known = function.calls.find(args, ())
    assert isinstance(known, LaunchPlan)


def _anew(tensor):
    """Other numbers in a memory of its own, with the same layout."""
    if tensor.numel() == 0 or not tensor.is_floating_point():
        return tensor.clone(memory_format=torch.preserve_format)
    storage = torch.randn(tensor.untyped_storage().nbytes() // tensor.itemsize).to(tensor.dtype)
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", OPERATORS)
def test_on_a_gpu(name):
    for sample in samples(name).values():
        first, *others = (sample.call(operator(name)) for _ in range(5))
        for other in others:
            assert torch.equal(other, first) or (other.isnan() == first.isnan()).all(), sample.label
