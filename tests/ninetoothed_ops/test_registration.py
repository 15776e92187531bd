"""Kernels of one's own as operators."""

import doctest

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ninetoothed
from ninetoothed import Tensor, block_size
from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed_ops import register, registration
from tests.conftest import DEVICE


def arrangement(x, factor, y, size=block_size()):
    return x.tile((size,)), factor, y.tile((size,))


def application(x, factor, y):
    y = x * factor


def allocate(x, factor=2.0):
    return torch.empty_like(x)


kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0), Tensor(1)))


def launch(output, x, factor=2.0):
    kernel(x, factor, output)


SCHEMA = "ninetoothed_test::scale(Tensor x, float factor=2.0) -> Tensor"


@pytest.fixture
def scale():
    return register(SCHEMA, allocate, launch)


def test_it_runs_and_is_checked_by_pytorch(scale):
    x = torch.randn(100, device=DEVICE)

    assert torch.equal(scale(x), 2 * x)
    assert torch.equal(torch.ops.ninetoothed_test.scale(x, 3.0), 3 * x)
    torch.library.opcheck(scale, (x, 3.0))


def test_it_is_never_launched_on_a_fake():
    launched = []
    operator = register(
        "ninetoothed_test::silent(Tensor x) -> Tensor",
        lambda x: x.new_empty(x.shape),
        lambda output, x: launched.append(x),
    )

    with FakeTensorMode():
        operator(torch.empty(3))
    operator(torch.empty(3, device="meta"))
    assert not launched
    operator(torch.empty(3))
    assert len(launched) == 1


def test_several_outputs():
    def launch(outputs, x):
        kernel(x, 2.0, outputs[0])
        kernel(x, 3.0, outputs[1])

    operator = register(
        "ninetoothed_test::two(Tensor x) -> (Tensor, Tensor)",
        lambda x: (torch.empty_like(x), torch.empty_like(x)),
        launch,
    )
    x = torch.randn(100, device=DEVICE)

    assert [torch.equal(y, n * x) for y, n in zip(operator(x), (2, 3))] == [True, True]
    torch.library.opcheck(operator, (x,))


def test_registering_again_replaces(scale):
    again = register(SCHEMA, allocate, lambda output, x, factor=2.0: output.fill_(7.0))

    assert torch.equal(again(torch.ones(3)), torch.full((3,), 7.0))
    assert torch.equal(torch.ops.ninetoothed_test.scale(torch.ones(3)), torch.full((3,), 7.0))


def test_an_operator_that_was_kept_runs_what_replaced_it(scale):
    compiled = torch.compile(lambda x: torch.ops.ninetoothed_test.scale(x), backend="aot_eager", fullgraph=True)
    x = torch.ones(3, device=DEVICE)
    assert torch.equal(compiled(x), 2 * x)

    register(SCHEMA, lambda x, factor=2.0: x.new_empty(2), lambda output, x, factor=2.0: output.fill_(7.0))
    for function in (scale, torch.ops.ninetoothed_test.scale, compiled):
        assert torch.equal(function(x), torch.full((2,), 7.0, device=DEVICE))


def test_registering_again_with_another_schema():
    for value, more in ((1.0, ""), (2.0, ", int other=0"), (3.0, "")):
        operator = register(
            f"ninetoothed_test::constant(Tensor x{more}) -> Tensor",
            lambda x, other=0: torch.empty_like(x),
            lambda output, x, other=0, value=value: output.fill_(value),
        )
        for function in (operator, torch.ops.ninetoothed_test.constant):
            assert torch.equal(function(torch.zeros(3)), torch.full((3,), value))


def test_registering_again_after_a_mistake():
    schema = "ninetoothed_test::mistaken(Tensor x, float factor=2.0) -> Tensor"
    with pytest.raises(ArgumentError) as kept:  # As a notebook keeps it, with the frames that it came from.
        register(schema, allocate, lambda output: None)

    x = torch.ones(3, device=DEVICE)
    assert torch.equal(register(schema, allocate, launch)(x), 2 * x)


def test_a_missing_backward_raises_by_name(scale):
    output = scale(torch.ones(3, device=DEVICE, requires_grad=True))

    with pytest.raises(UnsupportedError, match="ninetoothed_test::scale has no backward"):
        output.sum().backward()


@pytest.mark.parametrize("backend", (None, "aot_eager"))
@pytest.mark.parametrize("which", (0, 1, 2))
def test_a_missing_backward_of_lists(which, backend):
    operator = register(
        "ninetoothed_test::sums(Tensor[] xs, Tensor y, int[] shape=[]) -> Tensor[]",
        lambda xs, y, shape=(): [torch.empty_like(y), torch.empty_like(y)],
        lambda outputs, xs, y, shape=(): [output.copy_(y + sum(xs)) for output in outputs],
    )
    tensors = [torch.ones(3, device=DEVICE) for _ in range(3)]
    tensors[which].requires_grad_()
    function = torch.compile(operator, backend=backend, fullgraph=True) if backend else operator

    with pytest.raises(UnsupportedError, match="ninetoothed_test::sums has no backward"):
        function(tensors[:2], tensors[2])[1].sum().backward()


def test_a_list_of_optional_tensors():
    with pytest.raises(ArgumentError, match="xs of ninetoothed_test::sparse.* is a list of optional tensors"):
        register("ninetoothed_test::sparse(Tensor?[] xs) -> Tensor", lambda xs: xs[0], lambda output, xs: None)


def test_a_backward_of_ones_own():
    operator = register(
        SCHEMA,
        allocate,
        launch,
        backward=lambda ctx, grad: (grad * ctx.factor, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    operator(x, 5.0).sum().backward()

    assert torch.equal(x.grad, torch.full_like(x, 5.0))
    for primal in (x, x.detach()):
        assert torch.equal(torch.func.jvp(operator, (primal,), (x,))[1], 2 * x)


def test_an_operator_that_writes_into_an_argument():
    def launch(output, x, y):
        kernel(x, 3.0, y)
        kernel(x, 2.0, output)

    def recorded(x, y):
        y.copy_(3 * x)
        return 2 * x

    operator = register(
        "ninetoothed_test::written(Tensor x, Tensor(a!) y) -> Tensor",
        lambda x, y: torch.empty_like(x),
        launch,
        recorded=recorded,
    )
    x, y = (torch.randn(100, device=DEVICE) for _ in range(2))
    before = y._version
    assert torch.equal(operator(x, y), 2 * x) and torch.equal(y, 3 * x) and y._version > before
    x.requires_grad_()
    (operator(x, y) + y).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 5.0))


def test_a_schema_without_a_namespace():
    with pytest.raises(ArgumentError, match="has no namespace"):
        register("scale(Tensor x) -> Tensor", allocate, launch)


@pytest.mark.parametrize(
    "functions, role",
    (
        ((lambda x: x, launch), "allocate"),
        ((lambda x, factor: x, launch), "allocate"),
        ((allocate, lambda x, factor=2.0: None), "launch"),
    ),
)
def test_functions_that_do_not_fit_the_schema(functions, role):
    with pytest.raises(ArgumentError, match=f"{role} of ninetoothed_test::scale takes"):
        register(SCHEMA, *functions)


@pytest.mark.parametrize("functions, role", (((torch.empty_like, launch), "allocate"), ((allocate, max), "launch")))
def test_functions_that_tell_no_parameters(functions, role):
    with pytest.raises(ArgumentError, match=f"{role} of ninetoothed_test::scale is <built-in .*write a function"):
        register(SCHEMA, *functions)
    with pytest.raises(ArgumentError, match="flatten of ninetoothed_test::scale is 7, of whose parameters"):
        register(SCHEMA, allocate, launch, flatten=7)


@pytest.mark.parametrize(
    "schema, message",
    (
        ("ninetoothed_test::scale(Tnsor x, float factor=2.0) -> Tensor", "cannot be read: unknown type"),
        ("ninetoothed_test::scale(Tensor(a!) x, float factor=2.0) -> Tensor", "x of .* is mutated or aliased"),
        ("ninetoothed_test::scale(Tensor(a) x, float factor=2.0) -> Tensor(a)", "x of .* is mutated or aliased"),
        ("ninetoothed_test::scale(float x, float factor=2.0) -> Tensor", "no tensor among its arguments"),
        ("ninetoothed_test::scale(Tensor x, float factor=2.0, *, int k) -> Tensor", "allocate of .* takes"),
    ),
)
def test_a_mistake_leaves_the_operator_as_it_is(scale, schema, message):
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(ArgumentError, match=message):
        register(schema, allocate, launch)
    assert torch.equal(scale(x), 2 * x) and torch.equal(torch.ops.ninetoothed_test.scale(x, 3.0), 3 * x)


def test_the_example():
    assert doctest.testmod(registration).failed == 0
