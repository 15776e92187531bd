"""Compiled modules whose tensors are of a class that computes by itself: DTensors, and weights put in after a swap."""

import copy

import pytest
import torch
from torch import nn

from ninetoothed_ops.modules import swap_modules
from tests.conftest import DEVICE, error

BACKENDS = (None, "aot_eager")


def network():
    torch.manual_seed(0)
    layers = nn.Linear(8, 16), nn.SiLU(), nn.LayerNorm(16), nn.RMSNorm(16), nn.GELU(), nn.Linear(16, 4)
    return nn.Sequential(*layers).to(DEVICE)


@pytest.fixture
def mesh():
    """A mesh of this process alone."""
    distributed = pytest.importorskip("torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh

    if not distributed.is_available():
        pytest.skip("PyTorch was built without torch.distributed")
    distributed.init_process_group(
        "nccl" if DEVICE == "cuda" else "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    yield init_device_mesh(DEVICE, (1,))
    distributed.destroy_process_group()


def in_parallel(model, mesh):
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    # Replicated results are plain tensors again, of weights that are not.
    plan = {"0": ColwiseParallel(output_layouts=Replicate()), "5": RowwiseParallel()}
    return parallelize_module(model, mesh, plan)


def distributed(model, mesh):
    from torch.distributed.tensor import Replicate, distribute_module, distribute_tensor

    distribute_module(model, mesh, input_fn=lambda _, inputs, mesh: distribute_tensor(inputs[0], mesh, [Replicate()]))
    return model


def sharded(model, mesh):
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=mesh)


def outcome(model, backend, x):
    """Give a result and the gradients of all parameters as plain tensors."""
    torch._dynamo.reset()
    found = (model if backend is None else torch.compile(model, backend=backend))(x)
    found.sum().backward()
    return [getattr(each, "full_tensor", lambda each=each: each)() for each in (found, *map(_grad, model.parameters()))]


def _grad(parameter):
    return parameter.grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("spread", (in_parallel, distributed, sharded))
@pytest.mark.filterwarnings("ignore")
def test_dtensors_after_a_swap(mesh, spread, backend):
    model, x = network(), torch.randn(3, 8, device=DEVICE)
    twin = copy.deepcopy(model)
    swap_modules(model)
    expected = outcome(spread(twin, mesh), None, x)
    for found, wanted in zip(outcome(spread(model, mesh), backend, x), expected, strict=True):
        assert error(found, wanted) < 1e-5


class Packed(torch.Tensor):
    """A weight of int8 and a scale, which an operation that does not know it reads in its own type."""

    @staticmethod
    def __new__(cls, numbers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=scale.dtype, device=numbers.device)

    def __init__(self, numbers, scale):
        self.numbers, self.scale = numbers, scale

    def __tensor_flatten__(self):
        return ["numbers", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, meta, size, stride):
        return cls(inner["numbers"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(args[0].numbers, args[0].scale)
        if "ninetoothed" in str(function):
            raise NotImplementedError(f"{function} of a packed weight")
        plain = [each.numbers * each.scale if isinstance(each, cls) else each for each in args]
        return function(*plain, **(kwargs or {}))


class Asked(Packed):
    """One that is asked for PyTorch's functions, too."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


class Renamed(torch.Tensor):
    """A class of plain tensors."""


def packed(cls, weight):
    scale = weight.abs().max() / 127
    return cls((weight / scale).round().to(torch.int8), scale)


WEIGHTS = {
    "packed": lambda weight: packed(Packed, weight),
    "asked": lambda weight: packed(Asked, weight),
    "renamed": lambda weight: weight.as_subclass(Renamed),
}


@torch.no_grad()
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("convert", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.filterwarnings("ignore")
def test_weights_of_another_class_put_in_after_a_swap(convert, backend):
    model, x = network(), torch.randn(3, 8, device=DEVICE)
    del model[3]  # PyTorch does not compile its RMSNorm of such a class.
    twin = copy.deepcopy(model)
    swap_modules(model)
    for each in (model, twin):
        each[0].weight = nn.Parameter(convert(each[0].weight.detach()), requires_grad=False)
    expected = twin(x)
    if backend is not None:
        torch._dynamo.reset()
        try:
            torch.compile(twin, backend=backend)(x)
        except TypeError as reason:
            said = str(reason).partition("\n")[0]
            pytest.skip(f"PyTorch does not compile its own module with such a weight: {said}")
        model = torch.compile(model, backend=backend)
    assert error(model(x), expected) < 1e-5
