"""Private names of PyTorch and Triton: the pinned versions have them, fast paths use them, and all works without."""

import ast
import contextlib
import importlib.util
import logging
import pathlib
import pkgutil
import sys
import types

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from ninetoothed.errors import ArgumentError, CompilationError, UnsupportedError
from ninetoothed.runtime import fast_path, launch_plan, missing as names, private, private_triton
from ninetoothed.runtime.compilation import assembler, target, triton_cache
from ninetoothed.runtime.dispatch import Launcher
from ninetoothed.runtime.executable import compile_for_gpu
from ninetoothed.runtime.selection.machine import H200
from ninetoothed.runtime.workspace import Allocation
from ninetoothed_ops import autocast_cache, registration
from ninetoothed_ops.kernels import silu
from ninetoothed_ops.modules import overrides
from tests.ninetoothed_ops.autocast import autocast_on_gpus

X, Y = torch.zeros(4, 6), torch.zeros(6)
WRAPPED = "torch._C._functorch.is_functorch_wrapped_tensor"
# What operators lean on, alone or together.
OF_OPERATORS = (
    "torch._C.parse_schema",
    "torch.library.Library._destroy",
    "torch._C._ExcludeDispatchKeyGuard",
    "torch._C._any_requires_grad",
    "torch._C._are_functorch_transforms_active",
    f"torch._C._are_functorch_transforms_active {WRAPPED}",
    "torch._C._is_fwd_grad_enabled",
    "torch.autograd.forward_ad._current_level",
    "torch._C._AutoDispatchBelowAutograd",
    "torch._C._after_autograd_keyset",
    "torch._C.DispatchKeySet.raw_repr",
    "torch._functorch.utils.enable_single_level_autograd_function",
    "torch.autograd.function._SingleLevelFunction",
)


@contextlib.contextmanager
def missing(paths):
    """Load `private.py` once more, while PyTorch lacks some names."""
    with pytest.MonkeyPatch.context() as patch:
        for path in paths.split():
            owner, _, name = path.rpartition(".")
            patch.delattr(pkgutil.resolve_name(owner), name)
        spec = importlib.util.spec_from_file_location("private_without", private.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


# Written in C, so that they cannot be taken away.
FIXED = {"torch.Tensor._version", "torch.Tensor._base"}


@pytest.fixture
def told(caplog):
    """Lines of the logger `ninetoothed`, each of which is told once in a process."""
    caplog.set_level(logging.INFO, "ninetoothed")
    caches = names.tell, names.tell_of_pytorch, names.tell_of_triton
    for each in caches:
        each.cache_clear()
    yield lambda: [record.getMessage() for record in caplog.records]
    for each in caches:
        each.cache_clear()


def test_the_pinned_versions_have_them():
    pytest.importorskip("triton")
    assert not names.of(names.OF_PYTORCH | names.OF_TRITON)


def test_all_that_private_py_uses_is_listed():
    """A private name in its code, as an attribute, of a module that is imported or in a string, is one of the list."""
    tree = ast.parse(pathlib.Path(private.__file__).read_text())
    own = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)} | {"_torchdynamo_disable_msg"}
    used = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    used |= {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    used |= {each.name for each in ast.walk(tree) if isinstance(each, ast.alias)}
    used = {each for each in used if each.isidentifier() and each.startswith("_") and not each.startswith("__")}
    listed = {part for name in names.OF_PYTORCH for part in name.split(".")}
    # What the stand-in for a schema, a hidden function, or a module that cannot be looked into, have of their own.
    instances = {"_schema", "_dir", "_torchdynamo_disable", "_values", "_ragged_idx", "_metadata_cache"}
    instances |= {each for each in used if "hooks" in each}
    assert used - own - instances - {"_compiled_call_impl"} <= listed and len(used & listed) > 25


@pytest.mark.parametrize("path", sorted(set(names.OF_PYTORCH) - FIXED))
def test_each_may_be_missing_and_is_named(path, told, monkeypatch):
    # It asks for the same names itself.
    monkeypatch.setattr(torch.compiler, "disable", lambda function: function)
    with missing(path) as stand_in:
        lacking = names.of(names.OF_PYTORCH)
        names.tell_of_pytorch()
        assert stand_in.hidden_from_dynamo(lambda: 1)() == 1 and not stand_in.is_below_autograd()
        assert stand_in.below_autograd() or "_AutoDispatch" in path or "_after" in path
        with stand_in.without_autocast("cpu")():
            pass
    assert not stand_in.is_transformed(X) and stand_in.matmul_precision() == private.matmul_precision()
    assert len(stand_in.parse_schema("a::b(Tensor x) -> Tensor").arguments) == 1
    assert lacking[path] and all(each == path or each.startswith(f"{path}.") for each in lacking)
    assert f"this PyTorch has no {path}: {lacking[path]}" in told()


def test_the_first_kernel_tells_what_is_missing(told, monkeypatch):
    monkeypatch.delattr("torch._C._any_requires_grad")
    x = torch.zeros(3, 5, 7)
    torch.ops.ninetoothed.add(x, x)
    definition = silu.make(3).definition
    for _ in range(2):
        Launcher(definition)((x, torch.empty_like(x)), {})
    assert [line for line in told() if "_any_requires_grad" in line] == [
        "this PyTorch has no torch._C._any_requires_grad: calls take longer"
    ]


def test_nothing_is_kept_without_versions(monkeypatch):
    """What PyTorch wrote to would be taken for unwritten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "Tensor", types.SimpleNamespace(__torch_dispatch__=None))
        with missing("") as stand_in:
            pass
    assert stand_in.version_of(X) is None and stand_in.base_of(X[0]) is None
    monkeypatch.setattr(autocast_cache, "private", stand_in)
    weight = torch.nn.Parameter(torch.ones(2, 2))
    with torch.autocast("cpu", torch.bfloat16):
        first = autocast_cache.cast_once(weight, "cpu", torch.bfloat16)
        with torch.no_grad():
            weight.mul_(2)
        assert torch.equal(autocast_cache.cast_once(weight, "cpu", torch.bfloat16), 2 * first)


def test_the_pinned_version_is_asked_by_its_fast_names():
    assert private._float32_precision is torch._C._get_fp32_precision_getter
    assert private.any_requires_grad is torch._C._any_requires_grad
    assert private.has_transforms is torch._C._are_functorch_transforms_active
    assert private.counts_tangents is torch._C._is_fwd_grad_enabled
    assert private.has_global_hook is torch.nn.modules.module._has_any_global_hook
    assert private.disabled_torch_function is torch._C._disabled_torch_function_impl
    assert private.parse_schema is torch._C.parse_schema
    assert private.below_autograd() == (torch._C._AutoDispatchBelowAutograd, torch._C._after_autograd_keyset)
    assert private.read_keys is torch._C.DispatchKeySet.raw_repr and private.plain_keys("CPU") is not None
    assert not private.is_below_autograd()
    with private.below_autograd()[0]():
        assert private.is_below_autograd()
    assert private.without_autocast("cpu").func is torch._C._ExcludeDispatchKeyGuard
    assert private.modes_see_operations and private.version_of(X) == X._version
    assert not private.may_have_tangents() and not private.function_modes()
    assert private.runs_forward_alone(torch.nn.Linear(1, 1))


def test_a_call_tells_what_autocast_casts_where_the_dispatcher_does_not():
    with missing("torch._C._dispatch_has_kernel_for_dispatch_key") as stand_in:
        pass
    with torch.autocast("cpu", torch.bfloat16):
        assert stand_in.casts_rms_norm("cpu") == private.casts_rms_norm("cpu")
    with FakeTensorMode(), autocast_on_gpus():
        assert stand_in.casts_rms_norm("cuda") == private.casts_rms_norm("cuda")


def registered(signature, factor=2):
    """Register an operator that multiplies, is differentiable, and casts what it is given under autocast."""
    return registration.register(
        f"ninetoothed_test::{signature}",
        lambda x, other=0: torch.empty_like(x),
        lambda output, x, other=0: output.copy_(factor * x),
        backward=lambda ctx, gradient: (factor * gradient, None)[: 1 + ("other" in signature)],
        setup_context=lambda ctx, inputs, output: None,
        autocast=torch.get_autocast_dtype,
    )


def users_of_private():
    """List the modules of operators that use private names: all of them, wherever a call of an operator passes."""
    modules = [module for name, module in sys.modules.items() if name.startswith("ninetoothed_ops.")]
    return [module for module in modules if vars(module).get("private") is private]


@pytest.mark.parametrize("paths", ("", *OF_OPERATORS))
def test_operators_do_without(paths, monkeypatch):
    with missing(paths) as stand_in:
        for module in users_of_private():
            monkeypatch.setattr(module, "private", stand_in)
        registered("doing_without(Tensor x) -> Tensor", 3)
        with pytest.raises(ArgumentError, match="cannot be read"):
            registered("doing_without(Tnsor x) -> Tensor")
        with pytest.raises(ArgumentError, match="mutated or aliased"):
            registered("doing_without(Tensor(a!) x) -> Tensor")
        twice = registered("doing_without(Tensor x, int other=0) -> Tensor")
    x = torch.tensor([1.0, 2.0])
    for function in (twice, torch.ops.ninetoothed_test.doing_without):
        assert torch.equal(function(x), 2 * x) and not function(x).requires_grad
    output = twice(x.requires_grad_())
    (gradient,) = torch.autograd.grad(output.sum(), x)
    assert output.requires_grad and torch.equal(gradient, torch.full((2,), 2.0))
    with torch.no_grad():
        assert not twice(x).requires_grad
    x = x.detach()
    with torch.autocast("cpu", torch.bfloat16):
        assert twice(x).dtype == torch.bfloat16
    is_transformable = not any(each in paths for each in ("enable_single", "_SingleLevel", "AutoDispatch", "_after"))
    with contextlib.nullcontext() if is_transformable else pytest.raises(UnsupportedError, match="forward-mode"):
        assert torch.equal(torch.func.jvp(twice, (x,), (x,))[1], 2 * x)
    with contextlib.nullcontext() if is_transformable else pytest.raises(UnsupportedError, match="forward-mode"):
        with forward_ad.dual_level():
            assert torch.equal(forward_ad.unpack_dual(twice(forward_ad.make_dual(x, x))).tangent, 2 * x)
    with contextlib.nullcontext() if is_transformable else pytest.raises(UnsupportedError, match="be transformed"):
        assert torch.equal(torch.func.grad(lambda x: twice(x).sum())(x), torch.full((2,), 2.0))
    assert torch.equal(torch.func.vmap(lambda y: y + twice(x))(x), x[:, None] + 2 * x)


class Subclass(torch.Tensor):
    """Spoils what is asked of it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return None


def test_tensors_are_told_apart_without_private_names():
    seen = []
    nested = (torch.nested.nested_tensor([Y, Y]), torch.nested.nested_tensor([Y, Y], layout=torch.jagged))
    plain = (X, X.to("meta"), X.to_sparse(), torch.nn.Parameter(X), *nested)
    for paths in ("", WRAPPED, "torch._is_functional_tensor"):
        with missing(paths) as stand_in:
            pass

        def note(x, told=stand_in.is_transformed):
            seen.append(told(x))
            return x.sum()

        assert not any(map(stand_in.is_transformed, plain))
        torch.func.vmap(note)(X), torch.func.grad(note)(X), torch.func.jvp(note, (X,), (X,))
        torch.func.functionalize(note)(X)
    assert seen == [True] * 12


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.bool))
def test_a_subclass_is_read_without_private_names(dtype):
    given = torch.arange(6.0).to(dtype).view(2, 3).t()
    with missing("torch._C.DisableTorchFunctionSubclass") as stand_in:
        for as_plain in (private.as_plain, stand_in.as_plain):
            plain = as_plain(given.as_subclass(Subclass))
            assert type(plain) is torch.Tensor and plain.data_ptr() == given.data_ptr()
            assert plain.stride() == given.stride() and torch.equal(plain, given)


class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "path", ("torch._C._len_torch_function_stack", "torch.overrides._get_current_function_mode_stack")
)
def test_overrides_are_found_without_private_names(path, monkeypatch):
    with missing(path) as stand_in:
        monkeypatch.setattr(overrides, "private", stand_in)
    assert not overrides.are_overridden(X)
    with Mode():
        assert overrides.are_overridden(X)


def test_a_class_may_ask_for_nothing(monkeypatch):
    class Disabled(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    disabled, asked = X.as_subclass(Disabled), X.as_subclass(Subclass)
    assert not overrides.are_overridden(disabled) and overrides.are_overridden(asked)
    with missing("torch._C._disabled_torch_function_impl") as stand_in:
        monkeypatch.setattr(overrides, "private", stand_in)
        assert overrides.are_overridden(disabled)


def test_modules_that_cannot_be_looked_into_are_called():
    with missing("torch.nn.modules.module._has_any_global_hook") as stand_in:
        assert stand_in.has_global_hook()
    assert not private.runs_forward_alone(types.SimpleNamespace())


def test_nothing_is_recorded_without_modes(monkeypatch):
    with missing("torch.utils._python_dispatch.TorchDispatchMode") as stand_in, stand_in.TorchDispatchMode():
        assert not stand_in.modes_see_operations
    assert launch_plan._can_be_recorded((X,))
    monkeypatch.setattr(launch_plan, "modes_see_operations", stand_in.modes_see_operations)
    assert not launch_plan._can_be_recorded((X,))


def test_pytorch_is_asked_publicly_for_its_precision_and_memory():
    with missing("torch._C._get_fp32_precision_getter torch._C._dynamo.guards._empty_strided_cuda") as stand_in:
        assert stand_in.empty_strided_cuda is None
    assert stand_in.matmul_precision() == private.matmul_precision()
    with missing("torch._C._dynamo.guards.TensorGuards torch._C._construct_storage_from_data_pointer") as stand_in:
        assert stand_in.tensor_guard((X,)) is None and stand_in.tensor_at(X.data_ptr(), (4, 6), X) is None
    assert torch.equal(private.tensor_at(X.data_ptr(), (4, 6), X), X)


def test_pytorch_has_guards_that_tell_tensors_apart():
    guard = private.tensor_guard((X, Y))
    assert guard is not None and guard(torch.ones(4, 6), torch.ones(6))
    assert not guard(torch.ones(4, 7), Y) and not guard(X.double(), Y) and not guard(torch.zeros(6, 4).t(), Y)


def test_pytorch_allocates_for_the_current_gpu():
    assert private.empty_strided_cuda is not None
    like = Allocation((2, 3), (3, 1), torch.float16, torch.device("cuda", 1))
    for current, name in ((1, "empty_strided_cuda"), (0, None), (None, None)):
        source = fast_path.FunctionBody()
        fast_path.allocated(source, like, current)
        chosen = next(iter(value for value in source.names.values() if callable(value)))
        assert chosen is (torch.empty_strided if name is None else private.empty_strided_cuda)


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="a PyTorch for CPUs has no current GPU")
def test_pytorch_knows_the_current_gpu_and_stream():
    assert private.current_device is torch._C._cuda_getDevice
    assert private.current_stream is torch._C._cuda_getCurrentRawStream


def test_dynamo_is_told_without_a_wrapper():
    def function():
        return 1

    assert private.hidden_from_dynamo(function) is function


def test_dynamo_that_changed_is_told_by_its_public_function(monkeypatch):
    from torch._C._dynamo import eval_frame

    monkeypatch.delattr(eval_frame, "set_code_exec_strategy")
    seen = []
    monkeypatch.setattr(torch.compiler, "disable", lambda function: seen.append(function) or function)
    private.hidden_from_dynamo(function := lambda: 1)
    assert seen == [function]


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Return a function that compiles a small kernel for a GPU, where nothing was compiled before."""
    pytest.importorskip("triton")
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path / "ninetoothed"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    launcher = Launcher(silu.make(1).definition)
    variant = launcher.trace((torch.zeros(64), torch.zeros(64)), {}, H200)
    return lambda: compile_for_gpu(launcher.definition, variant)


@pytest.mark.parametrize("path", sorted(names.OF_TRITON))
def test_each_of_triton_may_be_missing_and_is_named(path, told, compiled, monkeypatch):
    owner, _, name = path.rpartition(".")
    monkeypatch.delattr(pkgutil.resolve_name(owner), name)
    lacking = names.of(names.OF_TRITON)
    assert set(lacking) == {path}
    if name == "TensorDescriptor":
        assert not target.has_descriptors.__wrapped__()
    else:
        # Triton's own compiler needs most of them: ours says which.
        with contextlib.suppress(CompilationError):
            assert compiled().asm["cubin"]
        assert f"this Triton has no {path}: {lacking[path]}" in told()


@pytest.mark.parametrize("path", ("triton.compiler.ASTSource", "triton.backends.compiler.GPUTarget"))
def test_what_nothing_stands_in_for_is_a_named_error(path, compiled, monkeypatch):
    owner, _, name = path.rpartition(".")
    monkeypatch.delattr(pkgutil.resolve_name(owner), name)
    with pytest.raises(CompilationError, match=f"could not compile kernel `silu` .*(?s:.*)cannot import name '{name}'"):
        compiled()


def test_an_assembler_that_is_not_told_is_not_trusted(told, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.delattr("triton.backends.nvidia.compiler.get_ptxas")
    from triton import knobs

    assert private_triton.assembler(90).path == knobs.nvidia.ptxas.path
    monkeypatch.setattr(type(knobs.nvidia), "ptxas", property(lambda self: self.nothing), raising=False)
    monkeypatch.setattr(assembler, "_candidates", lambda: iter(()))
    assert assembler.for_hopper() == assembler.UNKNOWN and assembler.loses_registers(H200)
    assert "this Triton does not tell its assembler: it is taken for one that loses registers on Hopper" in told()


def test_kernels_that_cannot_be_told_apart_are_not_found_again(told, compiled, monkeypatch):
    monkeypatch.setattr(triton_cache, "_digest", lambda kernel: kernel.nothing)
    assert compiled().asm["cubin"] == compiled().asm["cubin"]
    assert [line for line in told() if "cannot be told apart" in line]


def test_registers_are_not_counted_without_a_tool(told, compiled, monkeypatch):
    from triton import knobs

    monkeypatch.setattr(type(knobs.nvidia), "cuobjdump", property(lambda self: self.nothing), raising=False)
    found = compiled()
    assert found.spills == 0 and found.registers == 0
    assert [line for line in told() if line.startswith("registers that spill are not counted")]


def test_triton_tells_what_a_compilation_depends_on(monkeypatch):
    compiler = pytest.importorskip("triton.backends.compiler")
    from triton import knobs

    from ninetoothed.backends.triton import emit
    from ninetoothed.runtime.compilation import compile as build
    from ninetoothed.runtime.dispatch import launcher_of
    from ninetoothed_ops.kernels import silu

    emitted = emit(launcher_of(silu.make()).trace((torch.zeros(64), torch.zeros(64)), {}, H200).program)
    source = build._source(emitted, build.write_module(emitted.name, emitted.source), frozenset())
    target = compiler.GPUTarget("cuda", 90, 32)
    first, other = (private_triton.compilation_key(source, target, {"num_warps": warps}) for warps in (4, 8))
    assert first is not None and first["source"] == other["source"] and first["options"] != other["options"]
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        assert private_triton.compilation_key(source, target, {}) is None
    monkeypatch.delattr("triton.compiler.compiler.get_cache_invalidating_env_vars")
    assert private_triton.compilation_key(source, target, {}) is None


def test_the_longest_entry_of_a_nested_tensor_is_read_without_private_names():
    nested = torch.nested.nested_tensor_from_jagged(torch.ones(9, 2), torch.tensor([0, 2, 9]))
    path = "torch.nested._internal.nested_tensor.NestedTensor"
    assert private.known_longest(nested) is None
    with missing(f"{path}._maybe_max_seqlen {path}._get_max_seqlen") as stand_in:
        assert stand_in.read_longest(nested, nested.offsets().diff()) == 7 and stand_in.known_longest(nested) is None
    assert private.read_longest(nested, nested.offsets().diff()) == 7 and private.known_longest(nested) == 7


@pytest.mark.parametrize("name", ("NestedTensor", "nested_view_from_values_offsets_lengths"))
@pytest.mark.parametrize("is_recorded", (False, True))
def test_nested_tensors_are_taken_apart_and_made_without_private_names(name, is_recorded):
    values = torch.randn(3, 9, 2, requires_grad=True)
    make = torch.nested.nested_tensor_from_jagged
    nested = make(values, torch.tensor([0, 2, 9]), jagged_dim=2, min_seqlen=2, max_seqlen=7)
    with missing(f"torch.nested._internal.nested_tensor.{name}") as stand_in:
        pass
    for own in (private, stand_in):
        with torch.set_grad_enabled(is_recorded):
            assert own.is_jagged(nested) and not own.is_jagged(values) and own.jagged_dim_of(nested) == 2
            taken = own.values_of(nested)
            again = own.nest(taken * 2, nested.offsets(), None, 2, own.known_ends(nested))
        assert torch.equal(again.values(), 2 * values) and again.shape == nested.shape
        assert again.requires_grad is is_recorded and own.known_longest(again) == 7
