"""Collect the private names of PyTorch: why each is used, and its fallback.

Most only save time. Another version may lack one or change its meaning, so that each has a fallback that is right, and
slower; missing.py lists them with what is done without each, and logs it. tests/ninetoothed/runtime/test_private.py
says whether the pinned versions have the names, and takes them away one by one. Those of Triton: private_triton.py.

The dictionaries of modules (`_parameters`, `_buffers`, `_modules`) are taken for granted: their pickles hold them.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional

if TYPE_CHECKING:
    from torch._C import FunctionSchema as FunctionSchema
    from torch._ops import OpOverload as OpOverload
else:  # Types, for annotations alone.
    FunctionSchema, OpOverload = Any, type(torch.ops.aten.add.Tensor)

F = TypeVar("F", bound=Callable[..., Any])

# -- PyTorch: devices, memory, guards --


def _public_stream(device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)


# The index of the current GPU, and the address of its current stream: without the checks of the public functions.
current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _public_stream)
_float32_precision: Callable[[str, str], str] = getattr(
    torch._C, "_get_fp32_precision_getter", lambda *_: torch.backends.cuda.matmul.fp32_precision
)


def matmul_precision() -> str:
    """Return "high" where products of float32 may be of tf32, else "highest", in whichever way that was set.

    `torch.set_float32_matmul_precision` sets what is read here too; to read by its counterpart raises where
    `fp32_precision` was set, of `torch.backends` or of `torch.backends.cuda.matmul`.
    """
    return "high" if _float32_precision("cuda", "matmul") == "tf32" else "highest"


try:  # Inductor's, for the current GPU: (size, stride, dtype) in half the time of `torch.empty_strided`.
    from torch._C._dynamo import guards as _guards
except ImportError:
    _guards = None  # type: ignore[assignment]
empty_strided_cuda: Callable[..., torch.Tensor] | None = getattr(_guards, "_empty_strided_cuda", None)
# Guards of `torch.compile`: they compare types, devices, shapes and strides of all tensors in one call into C++.
TensorGuards: Callable[..., Any] | None = getattr(_guards, "TensorGuards", None)


def tensor_guard(tensors: Sequence[torch.Tensor]) -> Callable[..., bool] | None:
    """Compile a predicate that tells whether other tensors are like these; None where guards are not as expected.

    "Like" means of one Python type, dispatch keys, dtype, device, shape, strides and `requires_grad`.
    """
    if TensorGuards is None or not tensors:
        return None
    shapes, strides = [list(tensor.shape) for tensor in tensors], [list(tensor.stride()) for tensor in tensors]
    try:
        check = TensorGuards(*tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides).check
        works = check(*tensors) and not check(*(tensor.unsqueeze(0) for tensor in tensors))
    except (TypeError, RuntimeError):
        return None
    return check if works else None


# The memory belongs to others.
_storage_at: Callable[..., Any] | None = getattr(torch._C, "_construct_storage_from_data_pointer", None)


def tensor_at(address: int, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor | None:
    """View memory as a contiguous tensor of the type and device of another, without keeping it; None if it cannot."""
    if _storage_at is None:
        return None
    storage: Any = _storage_at(address, like.device, math.prod(shape) * like.itemsize)
    return torch.empty(0, dtype=like.dtype, device=like.device).set_(storage, 0, torch.Size(shape))  # type: ignore[call-overload]


# How often a tensor was written to in place; None where that is unknown.
version_of: Callable[[torch.Tensor], int | None] = (
    operator.attrgetter("_version") if hasattr(torch.Tensor, "_version") else lambda _: None
)

# The tensor of which another is a view; None where it is none, or that is unknown.
base_of: Callable[[torch.Tensor], torch.Tensor | None] = (
    operator.attrgetter("_base") if hasattr(torch.Tensor, "_base") else lambda _: None
)


# -- PyTorch: what tensors are --


def _hides_memory(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor has no memory although its type should: transformations wrap such tensors."""
    is_subclass = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    if is_subclass or tensor.layout != torch.strided or tensor.is_nested:
        return False
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return True
    return False


_functorch: Any = getattr(torch._C, "_functorch", None)
_is_wrapped: Callable[[Any], bool] = getattr(_functorch, "is_functorch_wrapped_tensor", _hides_memory)
_is_functional: Callable[[Any], bool] = getattr(torch, "_is_functional_tensor", _hides_memory)


def is_transformed(tensor: torch.Tensor) -> bool:
    """Tell whether a transformation (vmap, grad, functionalize) wraps a tensor."""
    return _is_wrapped(tensor) or _is_functional(tensor)


_unasked: Callable[[], AbstractContextManager] | None = getattr(torch._C, "DisableTorchFunctionSubclass", None)


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    """View memory of a subclass as a plain `torch.Tensor`, without asking the subclass."""
    if _unasked is None:
        return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))
    with _unasked():
        return tensor.as_subclass(torch.Tensor)


# -- PyTorch: jagged tensors --

try:
    from torch.nested._internal import nested_tensor as _jagged
except ImportError:
    _jagged = None  # type: ignore[assignment]
# The class of nested tensors of layout `torch.jagged`: all its attributes are Python's.
_NestedTensor: Any = getattr(_jagged, "NestedTensor", None)
# What `nested_tensor_from_jagged` does where no graph is traced, which it refuses.
_nested_view: Callable[..., Any] | None = getattr(_jagged, "nested_view_from_values_offsets_lengths", None)


def is_jagged_class(cls: type) -> bool:
    """Tell whether a class is that of nested tensors of layout `torch.jagged`; where it is not known, none is."""
    return _NestedTensor is not None and cls is _NestedTensor


def is_jagged(value: Any) -> bool:
    """Tell whether a value is a nested tensor of layout `torch.jagged`."""
    if _NestedTensor is not None and type(value) is _NestedTensor:
        return True
    return isinstance(value, torch.Tensor) and value.is_nested and value.layout == torch.jagged


def values_of(nested: Any) -> torch.Tensor:
    """Return the values of a nested tensor. Where nothing is recorded, no view is made: it takes 17 microseconds."""
    is_recorded = torch.is_grad_enabled() and any_requires_grad(nested)
    values = None if is_recorded else getattr(nested, "_values", None)
    return nested.values() if values is None else values


def jagged_dim_of(nested: Any) -> int:
    """Return the dimension of a nested tensor that is jagged."""
    dim = getattr(nested, "_ragged_idx", None)
    return next(d for d, size in enumerate(nested.shape) if not isinstance(size, int)) if dim is None else dim


def known_ends(nested: Any) -> Any:
    """Return what PyTorch knows of a nested tensor's longest and shortest entries: what it finds out is known then."""
    known = getattr(nested, "_metadata_cache", None)
    return {} if known is None else known


def nest(values: torch.Tensor, offsets: torch.Tensor, lengths: torch.Tensor | None, dim: int, known: Any) -> Any:
    """Nest values by the offsets and lengths of a nested tensor, of which `known_ends` are known.

    Where something may be recorded, the result is a view of them; else they are the caller's own.
    """
    if _NestedTensor is not None and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return _NestedTensor(values, offsets, lengths=lengths, _ragged_idx=dim, _metadata_cache=known)
    ends = {end: known[end].shape[0] for end in ("min_seqlen", "max_seqlen") if known.get(end) is not None}
    if _nested_view is None:
        return torch.nested.nested_tensor_from_jagged(values, offsets, lengths, jagged_dim=dim, **ends)
    return _nested_view(values, offsets, lengths, ragged_idx=dim, **ends)


def known_longest(nested: Any) -> int | None:
    """Return the length of a nested tensor's longest entry, if PyTorch has it; a symbol where a graph is traced."""
    return getattr(nested, "_maybe_max_seqlen", None)


def read_longest(nested: torch.Tensor, lengths: torch.Tensor) -> int:
    """Read the length of a nested tensor's longest entry, and let PyTorch keep it."""
    read = getattr(nested, "_get_max_seqlen", None)
    return int(lengths.max() if read is None else read())


# The `__torch_function__` of a class that does not want to be asked.
disabled_torch_function: Any = getattr(torch._C, "_disabled_torch_function_impl", None)


# -- PyTorch: what watches calls --


def hidden_from_dynamo(function: F) -> F:
    """Let `torch.compile` call a function between graphs, rather than trace it and all that it calls.

    `torch.compiler.disable`, the fallback, does the same through a wrapper that costs half a microsecond a call, and
    imports Dynamo.
    """
    marked: Any = function
    marked._torchdynamo_disable = True
    marked._torchdynamo_disable_msg = "a NineToothed kernel: register it with `ninetoothed_ops.register`"
    try:
        from torch._C._dynamo import eval_frame

        action = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(marked.__code__, eval_frame._FrameExecStrategy(action, action))
    except (ImportError, AttributeError):
        return torch.compiler.disable(function)
    return function


# A mode that sees every operation: documented by PyTorch, and under no public name. Without it nothing is recorded.
try:
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
except ImportError:
    TorchDispatchMode = contextlib.nullcontext  # type: ignore[assignment, misc]
modes_see_operations: bool = TorchDispatchMode is not contextlib.nullcontext
count_dispatch_modes: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)

_count_function_modes: Callable[[], int] | None = getattr(torch._C, "_len_torch_function_stack", None)
# How many modes there are that see each function of PyTorch, and whether a profiler names what it sees.
count_function_modes: Callable[[], int] = _count_function_modes or (lambda: len(function_modes()))
is_profiled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: True)
_list_function_modes: Callable[[], list] | None = getattr(torch.overrides, "_get_current_function_mode_stack", None)


def function_modes() -> Sequence[Any]:
    """Return the function modes that are active; where they are unknown, an object in their place."""
    if _count_function_modes is None or _list_function_modes is None:
        return (object(),) if torch.overrides.has_torch_function((None,)) else ()
    return _list_function_modes() if _count_function_modes() else ()


# Whether a hook watches the calls of all modules.
has_global_hook: Callable[[], bool] = getattr(nn.modules.module, "_has_any_global_hook", lambda: True)
# The functions that stand between the call of a module and its forward.
calls_of_modules: tuple[Any, ...] = (nn.Module.__call__, getattr(nn.Module, "_call_impl", nn.Module.__call__))


def runs_forward_alone(module: nn.Module) -> bool:
    """Tell whether calling a module only runs its class's `forward`: there is no hook, patch or compiled code."""
    try:
        # `torch.compile` remembers what is in a dictionary, and looks again for what it has looked up.
        is_patched = "forward" in module.__dict__ or module.forward is None
        if is_patched or module._compiled_call_impl is not None:
            return False
        hooks = module._forward_hooks or module._forward_pre_hooks
        return not (hooks or module._backward_hooks or module._backward_pre_hooks)
    except AttributeError:
        return False


# -- PyTorch: operators --


def _parse_schema(schema: str) -> FunctionSchema:
    """Define an operator for its schema, and take it back."""
    library = torch.library.Library("ninetoothed_schemas", "FRAGMENT")
    library.define(schema.partition("::")[2])
    packet, _, overload = schema.partition("::")[2].partition("(")[0].partition(".")
    parsed = getattr(getattr(torch.ops.ninetoothed_schemas, packet), overload or "default")._schema
    forget_operator("ninetoothed_schemas", packet)
    destroy(library)
    return parsed


# The schema of an operator, read from its text: `RuntimeError` where PyTorch cannot.
parse_schema: Callable[[str], FunctionSchema] = getattr(torch._C, "parse_schema", _parse_schema)


def destroy(library: torch.library.Library) -> None:
    """Take back what a library registered, which PyTorch does anyway once nothing refers to it."""
    getattr(library, "_destroy", lambda: None)()


def forget_operator(namespace: str, packet: str) -> None:
    """Let `torch.ops` look an operator up anew."""
    operators = getattr(torch.ops, namespace)
    if packet in vars(operators):
        delattr(operators, packet)
        names = getattr(operators, "_dir", [])
        if packet in names:
            names.remove(packet)


def without_autocast(device_type: str) -> Callable[[], AbstractContextManager]:
    """Return a context in which operators on devices of this type are not given to autocast."""
    try:
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device_type.upper()}"))
        return functools.partial(torch._C._ExcludeDispatchKeyGuard, keys)
    except AttributeError:
        return functools.partial(torch.autocast, device_type, enabled=False)


_has_kernel: Callable[[str, str], bool] | None = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)


def casts_rms_norm(device_type: str) -> bool:
    """Tell, under autocast, whether it casts what `rms_norm` takes to float32, which differs between releases."""
    if _has_kernel is None:
        return _is_rms_norm_cast(device_type)
    return _has_kernel("aten::rms_norm", f"Autocast{device_type.upper()}")


@functools.cache
def _is_rms_norm_cast(device_type: str) -> bool:
    given = torch.ones(1, dtype=torch.bfloat16, device=device_type)
    return functional.rms_norm(given, (1,)).dtype is torch.float32


# -- PyTorch: derivatives --


def _any_requires_grad(*args: Any, **kwargs: Any) -> bool:
    values = (*args, *kwargs.values())
    flat = (item for value in values for item in (value if isinstance(value, list | tuple) else (value,)))
    return any(isinstance(item, torch.Tensor) and item.requires_grad for item in flat)


any_requires_grad: Callable[..., bool] = getattr(torch._C, "_any_requires_grad", _any_requires_grad)


def is_below_autograd() -> bool:
    """Tell whether this thread runs an operator that autograd has recorded already; False where PyTorch hides that."""
    try:
        return torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradFunctionality)
    except AttributeError:
        return False


# Whether `torch.func` transforms what is called. It wraps whatever tensor is made then.
has_transforms: Callable[[], bool] = getattr(
    torch._C, "_are_functorch_transforms_active", lambda: is_transformed(torch.empty(0))
)
# Whether tangents count, which only internals of PyTorch turn off.
counts_tangents: Callable[[], bool] = getattr(torch._C, "_is_fwd_grad_enabled", lambda: True)


def may_have_tangents() -> bool:
    """Tell whether a level of `forward_ad` is entered. One of a traced graph is not counted there."""
    return getattr(forward_ad, "_current_level", 0) >= 0


try:  # For each level of `torch.func` to record for itself alone, and sooner. Without both, none can.
    from torch._functorch.utils import enable_single_level_autograd_function as at_one_level
    from torch.autograd.function import _SingleLevelFunction

    class FunctionOfOneLevel(_SingleLevelFunction):
        """A Function of one level, which compiled autograd knows as it knows a `torch.autograd.Function`."""

        if hasattr(torch.autograd.Function, "_compiled_autograd_key"):
            _compiled_autograd_key = staticmethod(torch.autograd.Function._compiled_autograd_key)

except ImportError:
    at_one_level, FunctionOfOneLevel = None, torch.autograd.Function  # type: ignore[assignment, misc]


def below_autograd() -> tuple[Callable[[], AbstractContextManager], Any] | None:
    """Return a context and the keys by which a kernel for autograd hands a call on; None where PyTorch's own has to."""
    try:
        return torch._C._AutoDispatchBelowAutograd, torch._C._after_autograd_keyset
    except AttributeError:
        return None


def is_plain(*tensors: torch.Tensor) -> bool:
    """Tell whether nothing but autograd stands between a call with these tensors and the kernels of their device."""
    try:
        keys = functools.reduce(operator.or_, map(torch._C._dispatch_keys, tensors))
        keys = (keys | torch._C._dispatch_tls_local_include_set()) - torch._C._dispatch_tls_local_exclude_set()
        plain = _keys_of_plain(tensors[0].device.type.upper())
    except AttributeError:
        return False
    return read_keys(keys | plain) == read_keys(plain)


@functools.cache
def _keys_of_plain(device: str) -> Any:
    names = (device, f"Autograd{device}", "ADInplaceOrView", "BackendSelect")
    keys = (torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)) for name in names)

    return functools.reduce(operator.or_, keys)


# The dispatch keys of a call as a number; where PyTorch does not tell, a number that no call has.
read_keys: Callable[[Any], int] = getattr(getattr(torch._C, "DispatchKeySet", None), "raw_repr", lambda _: -1)


def plain_keys(device: str) -> int | None:
    """Return the keys of a call of plain tensors on a "CPU" or "CUDA": no mode, subclass, transform, lazy negation."""
    try:
        of_device, of_autograd = (getattr(torch._C.DispatchKey, name) for name in (device, f"Autograd{device}"))
        return read_keys(torch._C.DispatchKeySet(of_device) | torch._C.DispatchKeySet(of_autograd))
    except AttributeError:
        return None
