"""The norm of a sum, and that sum, in one launch: values, layouts, fakes, recordings and errors."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed_ops import add_rms_norm
from ninetoothed_ops.kernels import add_rms_norm as kernels
from tests.conftest import DEVICE
from tests.ninetoothed.runtime import addresses
from tests.ninetoothed_ops.samples import LAYOUTS, random as r

TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
operator = torch.ops.ninetoothed.add_rms_norm


def reference(input, residual, weight=None, eps=None):
    """Both outputs, computed in float64."""
    total = input.double() + residual.double()
    if eps is None:
        eps = torch.finfo(torch.float64 if input.dtype is torch.float64 else torch.float32).eps
    return F.rms_norm(total, total.shape[-1:], None if weight is None else weight.double(), eps), total


CALLS = {
    "rows": lambda r: (r(9, 300), r(9, 300)),
    "weight": lambda r: (r(4, 7, 33), r(4, 7, 33), r(33)),
    "eps": lambda r: (r(4, 33), r(4, 33), r(33), 0.5),
    "one row": lambda r: (r(64), r(64), r(64)),
    "one column": lambda r: (r(5, 1), r(5, 1), r(1), 1e-5),
    **{layout: lambda r, layout=layout: (r(4, 6, 10, layout=layout), r(4, 6, 10), r(10)) for layout in LAYOUTS[1:]},
    "sliced residual and weight": lambda r: (r(4, 10), r(4, 10, layout="sliced"), r(10, layout="sliced")),
    "channels last": lambda r: (r(2, 3, 6, 7).to(memory_format=torch.channels_last), r(2, 3, 6, 7), r(7)),
    "long rows": lambda r: (r(2, 40001), r(2, 40001), r(40001)),
    "no rows": lambda r: (r(0, 5), r(0, 5), r(5)),
    "empty rows": lambda r: (r(5, 0), r(5, 0)),
}


def arguments(label, dtype=torch.float32):
    return CALLS[label](lambda *shape, **options: r(*shape, dtype=dtype, **options))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("label", CALLS)
def test_values(label, dtype):
    torch.use_deterministic_algorithms(True, warn_only=True)  # outputs start as NaN
    try:
        args = arguments(label, dtype)
        found = operator(*args)
    finally:
        torch.use_deterministic_algorithms(False)
    for actual, expected in zip(found, reference(*args)):
        assert (actual.dtype, actual.shape, actual.device.type) == (dtype, expected.shape, DEVICE)
        assert actual.is_contiguous()
        assert (actual.double() - expected).norm() <= TOLERANCES[dtype] * expected.norm()


@pytest.mark.parametrize("label", CALLS)
def test_fakes_tell_what_the_real_ones_are(label):
    args = arguments(label)
    real = operator(*args)
    with FakeTensorMode() as mode:
        fake = operator(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
    for a, b in zip(fake, real):
        assert (a.shape, a.dtype, a.device, a.stride()) == (b.shape, b.dtype, b.device, b.stride())


def test_the_operator_is_registered_as_pytorch_asks():
    torch.library.opcheck(operator.default, arguments("weight"))


def test_compiled_whole():
    args = arguments("eps")
    compiled = torch.compile(lambda *args: add_rms_norm(*args), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*args), operator(*args))


def test_calls_are_recorded(monkeypatch):
    import importlib

    module = importlib.import_module("ninetoothed_ops.ops.add_rms_norm")
    kernels.make.cache_clear()
    addresses.use(monkeypatch)
    function = ReplayedFunction(module.allocate, module.launch)
    with torch.inference_mode():
        for _ in range(4):
            args = arguments("weight")
            for actual, expected in zip(function(*args), operator(*args)):
                assert torch.equal(actual, expected)
        known = function.calls.find(args, ())
    kernels.make.cache_clear()
    assert isinstance(known, LaunchPlan)


@pytest.mark.parametrize("columns", (300, 40001))
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_both_are_those_of_the_operators_one_after_another(dtype, columns):
    input, residual, weight = (r(*shape, dtype=dtype) for shape in ((5, columns), (5, columns), (columns,)))
    normalised, total = operator(input, residual, weight, 1e-5)
    assert torch.equal(total, input + residual)
    expected = torch.ops.ninetoothed.rms_norm(total, [columns], weight, 1e-5)
    # On a GPU a row of one of the kernels may be summed by more threads.
    same = torch.equal if DEVICE == "cpu" else torch.allclose
    assert same(normalised, expected)


def test_the_norm_is_of_the_rounded_sum():
    input, residual = torch.tensor([[256.0, 1.0]]).bfloat16(), torch.tensor([[1.0, 1.0]]).bfloat16()
    normalised, total = operator(input.to(DEVICE), residual.to(DEVICE))
    assert total.tolist() == [[256.0, 2.0]]
    expected = F.rms_norm(torch.tensor([[256.0, 2.0]]), (2,))
    torch.testing.assert_close(normalised.float().cpu(), expected.bfloat16().float())


@pytest.mark.parametrize(
    "args, error",
    (
        ((r(2, 3), r(2, 4)), RuntimeError),
        ((r(2, 3), r(3)), RuntimeError),
        ((r(2, 3), r(2, 3).half()), RuntimeError),
        ((r(2, 3), r(2, 3), r(4)), RuntimeError),
        ((r(2, 3).int(), r(2, 3).int()), (RuntimeError, UnsupportedError)),
        ((r(2, 3), "residual"), TypeError),
        ((r(2, 3), r(2, 3), None, "eps"), TypeError),
    ),
    ids=("columns", "broadcast", "types", "weight", "integers", "text", "text for eps"),
)
def test_errors(args, error):
    with pytest.raises(error):
        add_rms_norm(*args)


@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("columns", (300, 40001))
def test_gradients(columns, weighted):
    tensors, weights = [r(3, columns), r(3, columns), *([r(columns)] if weighted else [])], [r(3, columns)] * 2
    grads = []
    for function, dtype in ((operator, torch.float32), (reference, torch.float64)):
        leaves = [each.to(dtype).requires_grad_() for each in tensors]
        outputs = function(*leaves, **({} if weighted else {"weight": None}), eps=0.1)
        wide = [each.to(dtype) for each in weights]
        grads.append(
            [
                *torch.autograd.grad(outputs, leaves, wide, retain_graph=True),
                *torch.autograd.grad(outputs[0], leaves, wide[0], retain_graph=True),
                *torch.autograd.grad(outputs[1], leaves[:2], wide[1]),
            ]
        )

    for actual, expected in zip(*grads):
        assert (actual - expected).norm() <= 1e-5 * expected.norm()
