"""Calls past the dispatcher: what they give, and that whatever wants to know of a call still does."""

import contextlib
import importlib.util
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime import private, private_dispatch
from ninetoothed_ops import registration
from ninetoothed_ops.direct import direct
from ninetoothed_ops.kernels import long_rows
from tests.ninetoothed.runtime import addresses
from tests.ninetoothed_ops.samples import samples

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the addresses are those of the CPU")

KERNELS = ("activation", "add", "conv2d", "layer_norm", "rms_norm", "softmax")
NAMES = ("add", "conv2d", "gelu", "layer_norm", "rms_norm", "silu", "softmax")
NAMESPACES = (f"direct{number}" for number in itertools.count())


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Let operators that are registered meanwhile be replayed on the CPU, by kernels that see addresses alone."""
    makers = [importlib.import_module(f"ninetoothed_ops.kernels.{name}").make for name in KERNELS]
    makers += [long_rows.make_softmax, long_rows.make_rms_norm, long_rows.make_layer_norm]
    for make in makers:
        make.cache_clear()
    addresses.use(monkeypatch)
    monkeypatch.setattr(registration.Functions, "kernels", lambda self: {"CPU": self.replayed})
    yield
    for make in makers:
        make.cache_clear()


class Counted:
    """An operator of a namespace of its own, past the dispatcher; `dispatched` counts the calls that go through it."""

    def __init__(self, name):
        self.schema = str(getattr(torch.ops.ninetoothed, name).default._schema).replace("ninetoothed", next(NAMESPACES))
        self.known = registration.OPERATORS[f"ninetoothed::{name}"]
        self.operator = self.register(self.known.launch)
        replayed = registration.OPERATORS[self.operator.name()].replayed
        self.call, self.dispatched = direct(self.count, self.operator._schema, replayed), 0

    def register(self, launch):
        return registration.register(self.schema, self.known.allocate, launch, replay=True)

    def count(self, *args, **kwargs):
        self.dispatched += 1
        return self.operator(*args, **kwargs)

    def passes_by(self, *args, **kwargs):
        """Tell whether a call goes past the dispatcher."""
        before = self.dispatched
        self.call(*args, **kwargs)
        return self.dispatched == before


@pytest.fixture
def silu():
    """An operator of which calls like `X` without gradients go past the dispatcher."""
    silu = Counted("silu")
    with torch.no_grad():
        assert [silu.passes_by(X) for _ in range(4)] == [False, False, True, True]
    yield silu
    with torch.no_grad():
        assert silu.passes_by(X)


X = torch.randn(4, 8)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_gives_what_the_operator_gives(name):
    counted, passed = Counted(name), []
    with torch.inference_mode():
        for sample in samples(name).values():
            for _ in range(4):
                fresh = sample.map(lambda tensor: tensor.clone(memory_format=torch.preserve_format))
                before = counted.dispatched
                found, expected = fresh.call(counted.call), fresh.call(getattr(torch.ops.ninetoothed, name))
                assert torch.equal(found, expected) and found.stride() == expected.stride(), sample.label
            passed.append(counted.dispatched == before)
    assert sum(passed) >= len(passed) // 2


def test_arguments_are_told_apart_by_type_and_value():
    add, y = Counted("add"), torch.randn(4, 8)
    with torch.no_grad():
        for alpha in (1, 2, 1.0, 0.5, 1, 2, 1.0, 0.5, 1, 2, 1.0, 0.5):
            assert torch.equal(add.call(X, y, alpha=alpha), torch.add(X, y, alpha=alpha))
        assert add.passes_by(X, y, alpha=0.5) and add.passes_by(X, y, alpha=1)
        with pytest.raises(RuntimeError, match="alpha"):
            add.call(X, y, alpha=True)
        assert torch.equal(add.call(X, X[:1]), X + X[:1])
    softmax = Counted("softmax")
    with torch.no_grad():
        for args in [(X, 0), (X, 1, None), (X, 0, torch.float64), (X, 1), (X, 0, None)] * 4:
            assert torch.allclose(softmax.call(*args), torch.softmax(*args))
        assert softmax.passes_by(X, 1, None) and softmax.passes_by(X, 0) and softmax.passes_by(X, 0, torch.float64)
    norm, weight = Counted("rms_norm"), torch.randn(8)
    with torch.no_grad():
        for size in ((8,), [8], (8,), [8], (8,), [8]):
            assert torch.allclose(norm.call(X, size, weight, 1e-6), F.rms_norm(X, (8,), weight, 1e-6))
        assert norm.passes_by(X, (8,), weight, 1e-6) and norm.passes_by(X, [8], weight, 1e-6)
        assert not norm.passes_by(X, (8,), weight, 1e-3)


def test_what_needs_a_gradient_is_recorded(silu):
    x = X.clone().requires_grad_()
    with torch.no_grad():
        assert not any(silu.call(x).requires_grad for _ in range(4)) and silu.passes_by(x)
    assert silu.call(x).requires_grad
    with torch.no_grad(), torch.enable_grad():
        assert silu.call(x).requires_grad


class FunctionMode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        SEEN.append(str(function))
        return function(*args, **(kwargs or {}))


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        SEEN.append(str(function))
        return function(*args, **(kwargs or {}))


SEEN: list[str] = []


@pytest.mark.parametrize("mode", [FunctionMode, DispatchMode])
def test_modes_see_the_operator(silu, mode):
    SEEN.clear()
    with torch.no_grad(), mode():
        silu.call(X)
    assert any("silu" in name for name in SEEN)


def test_profilers_see_the_operator(silu):
    with torch.no_grad(), torch.profiler.profile() as profile:
        silu.call(X)
    assert silu.operator.name() in {event.key for event in profile.key_averages()}


def test_tangents_are_refused(silu):
    with torch.no_grad(), forward_ad.dual_level(), pytest.raises(UnsupportedError, match="forward-mode"):
        silu.call(forward_ad.make_dual(X, X))


@pytest.mark.parametrize("watching", [contextlib.nullcontext, lambda: torch.autocast("cpu")])
def test_autocast_is_told(silu, watching):
    with torch.no_grad(), watching():
        assert silu.passes_by(X) == (watching is contextlib.nullcontext)


def test_transforms_and_traces_see_the_operator(silu):
    before = silu.dispatched
    with torch.no_grad():
        assert torch.allclose(torch.func.grad(lambda x: x.sum() + silu.call(X).sum())(X), torch.ones(4, 8))
        assert torch.equal(torch.vmap(lambda x: x + silu.call(X))(X[None])[0], X + silu.call(X))
        graph = make_fx(silu.call)(X)
        exported = torch.jit.trace(silu.call, X, check_trace=False)
    assert any("silu" in str(node.target) for node in graph.graph.nodes)
    assert "silu" in str(exported.graph)
    assert silu.dispatched >= before + 4


def test_dynamo_traces_the_operator_alone(silu):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    replayed = registration.OPERATORS[silu.operator.name()].replayed
    call = direct(silu.operator, silu.operator._schema, replayed)
    compiled = torch.compile(lambda x: call(x) + 1, backend=backend, fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(X), silu.operator(X) + 1)
    (graph,) = graphs
    assert [str(node.target) for node in graph.graph.nodes if node.op == "call_function"][0].endswith("silu.default")


def test_subclasses_see_the_operator(silu):
    class Seeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            SEEN.append(str(function))
            return super().__torch_function__(function, types, args, kwargs or {})

    SEEN.clear()
    with torch.no_grad():
        silu.call(X.as_subclass(Seeing))
    assert any("silu" in name for name in SEEN)


def test_other_memory_and_layouts_are_told_apart(silu):
    with torch.no_grad():
        for x in (X.T, X[:, 1:], X.double(), X[1:], torch.randn(0, 8), torch.conj(X + 0j).imag):
            assert torch.equal(silu.call(x), F.silu(x)) or torch.allclose(silu.call(x), F.silu(x))


def test_an_operator_that_is_registered_again_is_called(monkeypatch):
    silu = Counted("silu")
    with torch.no_grad():
        assert [silu.passes_by(X) for _ in range(3)][-1]
        silu.register(lambda output, self: output.fill_(7.0))
        assert (silu.call(X) == 7).all() and (silu.call(X) == 7).all()


@pytest.mark.parametrize("key", ["CPU", "AutogradCPU", "Autograd"])
def test_a_kernel_of_another_is_called_while_it_is_there(silu, key):
    namespace, name = silu.operator.name().split("::")
    library = torch.library.Library(namespace, "IMPL")
    library.impl(name, lambda x: torch.full_like(x, 7.0), key)
    with torch.no_grad():
        assert (silu.call(X) == 7).all() and (silu.operator(X) == 7).all()
    # Another's kernel for a device is recorded with our gradient, as the dispatcher has it.
    output = silu.call(X.clone().requires_grad_())
    assert (output == 7).all() and output.requires_grad == (key == "CPU")
    private.destroy(library)
    with torch.no_grad():
        assert torch.allclose(silu.call(X), F.silu(X)) and silu.passes_by(X)


def test_without_the_list_of_kernels_and_the_state_of_traces(monkeypatch):
    monkeypatch.delattr(torch.library, "_impls")
    monkeypatch.delattr(torch._C, "_get_tracing_state")
    spec = importlib.util.spec_from_file_location("without", private_dispatch.__file__)
    stand_in = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stand_in)
    stand_in.unlist("a::b", ["CPU"])
    assert stand_in.has_ours_alone("a::b", stand_in.PLAIN)() and stand_in.tracing_state() is None


@pytest.mark.parametrize("name", ["_dispatch_keys", "_dispatch_tls_local_include_set"])
def test_without_the_keys_of_calls_the_dispatcher_is_asked(monkeypatch, name):
    monkeypatch.delattr(torch._C, name)
    silu = Counted("silu")
    with torch.no_grad():
        assert not any(silu.passes_by(X) for _ in range(4))
    assert not private.is_plain(X)


def test_what_is_recorded_meanwhile_sees_its_launches(silu):
    """An operator whose launch calls another past the dispatcher gives the results of its own arguments each time."""

    def launch(output, x):
        output.copy_(silu.call(x))

    name = f"{next(NAMESPACES)}::twice(Tensor x) -> Tensor"
    outer = registration.register(name, lambda x: torch.empty_like(x), launch, replay=True)
    with torch.no_grad():
        for x in (torch.randn(4, 8) for _ in range(5)):
            assert torch.allclose(outer(x), F.silu(x), atol=1e-6)
