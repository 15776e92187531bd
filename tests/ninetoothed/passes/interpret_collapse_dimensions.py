"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: flattened tensors in many layouts, against PyTorch."""

import itertools

import torch

import ninetoothed
from ninetoothed import Tensor
from tests.ninetoothed.backends import interpreted
from tests.ninetoothed.passes.flattened import both, flattened, layer, more, product, turned

SHAPE = (5, 6, 7)


def layouts():
    """Tensors of one shape: dense in every order of dimensions, with gaps, with steps, repeated."""
    for order in itertools.permutations(range(3)):
        dense = torch.randn([SHAPE[dim] for dim in order])
        yield f"order {order}", dense.permute([order.index(dim) for dim in range(3)])
    for dim in range(3):
        longer = [size + 2 * (dim == each) for each, size in enumerate(SHAPE)]
        yield f"gaps in {dim}", torch.randn(longer).narrow(dim, 1, SHAPE[dim])
        yield (
            f"repeated along {dim}",
            torch.randn([1 if dim == each else size for each, size in enumerate(SHAPE)]).expand(SHAPE),
        )
    yield "steps", torch.randn(5, 6, 14)[:, :, ::2]
    yield "equal strides", torch.randn(80).as_strided(SHAPE, (7, 7, 1))


def elementwise():
    for (name, x), arrangement in itertools.product(layouts(), (flattened, turned)):
        kernel = ninetoothed.make(arrangement, more, (Tensor(3), Tensor(3)))
        y = torch.full_like(x, float("nan")) if "repeated" not in name and "equal" not in name else torch.empty(SHAPE)
        interpreted.interpret(kernel, (x, y))
        assert torch.equal(y, x + 1), f"{arrangement.__name__}: {name}"
    kernel = ninetoothed.make(flattened, both, (Tensor(3), Tensor(3)))
    for name, x in layouts():
        y = torch.full(SHAPE, float("nan"))
        interpreted.interpret(kernel, (x, y))
        assert torch.equal(y, x + x[0, 1, 2]), f"both: {name}"


def layers():
    kernel = ninetoothed.make(lambda *tensors: layer(*tensors, 16, 16, 16), product, (Tensor(3), Tensor(2), Tensor(3)))
    weight = torch.randn(24, 40).half()
    for x in (
        torch.randn(2, 20, 40).half(),
        torch.randn(2, 32, 40).half()[:, :20],
        torch.randn(20, 2, 40).half().transpose(0, 1),
        torch.randn(1, 20, 40).half().expand(2, -1, -1),
        torch.randn(2, 1, 40).half(),
    ):
        y = torch.full((*x.shape[:2], 24), float("nan"), dtype=torch.float16)
        for described in (frozenset(), frozenset(("input", "weight", "output"))):
            interpreted.interpret(kernel, (x, weight, y), use_tma=described)
            expected = x.double() @ weight.double().T
            assert (y.double() - expected).norm() <= 1e-3 * expected.norm(), (x.shape, x.stride(), described)


if __name__ == "__main__":
    torch.manual_seed(0)
    elementwise()
    layers()
