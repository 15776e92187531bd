"""Tell what PyTorch and Triton lack of the private names that are used here, and what is done without each.

They are asked for by name, whatever the version. The logger `ninetoothed` has a line for each that is missing when the
first kernel is made, or when it is missed, and `python -m ninetoothed info` a row.
"""

from __future__ import annotations

import functools
import logging
import pkgutil
from collections.abc import Callable, Mapping

_LOG = logging.getLogger("ninetoothed")

_SLOWER = "calls take longer"
_DISPATCHED = "what autograd has to record is told in another way, and calls take longer"
_UNTRANSFORMED = "`torch.func.grad` and its like cannot transform operators"
_UNPUSHED = "operators have no tangents under `torch.func.jvp` and `jacfwd`"
_MODULES = "modules are called, where their forwards might be"
_OWN_KEY = "each process finds compiled kernels by Triton's own key"
_LONGEST = "the longest entry of a nested tensor is read from the GPU at each call"
_NESTED = "nested tensors are taken apart and made by public functions, which takes longer and breaks graphs"
_UNSHARED = "operators take no DTensors, and modules compute PyTorch's functions of them"
_TRACED = "`torch.jit.trace` sees the insides of operators, and its check refuses them"
_MODES = "launches of operators are not recorded, and steps of `generate` not replayed"

# The names that private.py uses.
OF_PYTORCH = {
    "torch._C._cuda_getDevice": _SLOWER,
    "torch._C._cuda_getCurrentRawStream": _SLOWER,
    "torch._C._get_fp32_precision_getter": "the precision of products is read by its public name",
    "torch._C._dynamo.guards._empty_strided_cuda": "results are allocated by `torch.empty_strided`",
    "torch._C._dynamo.guards.TensorGuards": "calls are recognised in Python",
    "torch._C._construct_storage_from_data_pointer": _SLOWER,
    "torch.Tensor._version": "what was written to is not told, and nothing is kept that depends on it",
    "torch.Tensor._base": "a cache that is a view is taken for none",
    "torch._C._functorch.is_functorch_wrapped_tensor": "tensors of transformations are told by their memory",
    "torch._is_functional_tensor": "tensors of transformations are told by their memory",
    "torch.nested._internal.nested_tensor.NestedTensor": _NESTED,
    "torch.nested._internal.nested_tensor.nested_view_from_values_offsets_lengths": _NESTED,
    "torch.nested._internal.nested_tensor.NestedTensor._maybe_max_seqlen": _LONGEST,
    "torch.nested._internal.nested_tensor.NestedTensor._get_max_seqlen": _LONGEST,
    "torch._C.DisableTorchFunctionSubclass": "subclasses are read through DLPack",
    "torch._C._disabled_torch_function_impl": "each subclass is asked",
    "torch._C._dynamo.eval_frame._FrameAction": "`torch.compiler.disable` hides kernels from Dynamo",
    "torch._C._dynamo.eval_frame._FrameExecStrategy": "`torch.compiler.disable` hides kernels from Dynamo",
    "torch._C._dynamo.eval_frame.set_code_exec_strategy": "`torch.compiler.disable` hides kernels from Dynamo",
    "torch.utils._python_dispatch.TorchDispatchMode": _MODES,
    "torch._C._len_torch_dispatch_stack": "modes that see each operation are not looked for before steps are replayed",
    "torch._C._len_torch_function_stack": "modules ask PyTorch's functions wherever a mode may be",
    "torch.autograd._profiler_enabled": "operators are called through the dispatcher, which takes longer",
    "torch.overrides._get_current_function_mode_stack": "modules ask PyTorch's functions wherever a mode may be",
    "torch.nn.modules.module._has_any_global_hook": _MODULES,
    "torch.nn.Module._call_impl": _MODULES,
    "torch._C.parse_schema": "schemas are read by defining them",
    "torch._C._get_tracing_state": _TRACED,
    "torch._C._set_tracing_state": _TRACED,
    "torch.library._impls": "kernels that others register for our operators are passed by",
    "torch.library.Library._destroy": "libraries are left to the collector",
    "torch._C.DispatchKey": "operators turn autocast off by its context, and calls are told apart in Python",
    "torch._C.DispatchKeySet": "operators turn autocast off by its context, and calls are told apart in Python",
    "torch._C.DispatchKeySet.raw_repr": _SLOWER,
    "torch._C._dispatch_keys": _SLOWER,
    "torch._C._dispatch_tls_local_include_set": _SLOWER,
    "torch._C._dispatch_tls_local_exclude_set": _SLOWER,
    "torch._C._ExcludeDispatchKeyGuard": "operators turn autocast off by its context",
    "torch._C._dispatch_has_kernel_for_dispatch_key": "what autocast casts is seen from one call",
    "torch._C._any_requires_grad": _SLOWER,
    "torch._C._dispatch_tls_is_dispatch_key_excluded": _DISPATCHED,
    "torch._C.DispatchKey.AutogradFunctionality": _DISPATCHED,
    "torch._C._are_functorch_transforms_active": "transformations are looked for by a tensor of their making",
    "torch._C._is_fwd_grad_enabled": "tangents count wherever there may be some",
    "torch.autograd.forward_ad._current_level": "each tensor is asked for a tangent",
    "torch._functorch.utils.enable_single_level_autograd_function": _UNTRANSFORMED,
    "torch.autograd.function._SingleLevelFunction": _UNTRANSFORMED,
    "torch.autograd.Function._compiled_autograd_key": "compiled autograd knows no operator's gradient",
    "torch._functorch.pyfunctorch.retrieve_current_functorch_interpreter": _UNPUSHED,
    "torch._C._functorch._unwrap_for_grad": _UNPUSHED,
    "torch._C._functorch._wrap_for_grad": _UNPUSHED,
    "torch._C._ForceDispatchKeyGuard": _UNPUSHED,
    "torch._C._parse_dispatch_key": _UNPUSHED,
    "torch._C._AutoDispatchBelowAutograd": "PyTorch's own kernel for autograd hands calls on",
    "torch._C._after_autograd_keyset": "PyTorch's own kernel for autograd hands calls on",
}
# Names of Triton, most of them of private_triton.py.
OF_TRITON = {
    "triton.backends.nvidia.compiler.get_ptxas": "the assembler is the one that its settings name",
    "triton.compiler.compiler.get_cache_invalidating_env_vars": _OWN_KEY,
    "triton.compiler.compiler.make_backend": _OWN_KEY,
    "triton.runtime.cache.get_cache_manager": _OWN_KEY,
    "triton.compiler.CompiledKernel": _OWN_KEY,
    "triton.compiler.compiler.LazyDict": "hooks of launches are told nothing of them",
    "triton.tools.tensor_descriptor.TensorDescriptor": "no tile is fetched by the copy engine",
}
# The names that private_dtensor.py uses, of a module that is asked for only where someone has imported it.
OF_DTENSORS = {
    "torch.distributed.tensor._op_schema.OpStrategy": _UNSHARED,
    "torch.distributed.tensor._op_schema.RuntimeSchemaInfo": _UNSHARED,
    "torch.distributed.tensor._ops.utils.expand_to_full_mesh_op_strategy": _UNSHARED,
    "torch.distributed.tensor.DTensor._op_dispatcher.sharding_propagator.register_op_strategy": _UNSHARED,
    "torch.distributed.tensor.DTensor._op_dispatcher.sharding_propagator.op_to_shape_and_stride_idx": _UNSHARED,
}


def of(names: Mapping[str, str]) -> dict[str, str]:
    """Return those of some names that are missing, with what is done without each."""
    return {name: instead for name, instead in names.items() if not has(name)}


def has(name: str) -> bool:
    """Tell whether a module, or what a module has by a name, is there."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@functools.cache
def tell(line: str) -> None:
    """Log a line, once in a process."""
    _LOG.info("%s", line)


def _teller(package: str, names: Mapping[str, str]) -> Callable[[], None]:
    """Make the function that logs, once in a process, what a package lacks."""

    @functools.cache
    def tell_all() -> None:
        for name, instead in of(names).items():
            tell(f"this {package} has no {name}: {instead}")

    return tell_all


tell_of_pytorch, tell_of_dtensors = _teller("PyTorch", OF_PYTORCH), _teller("PyTorch", OF_DTENSORS)
tell_of_triton = _teller("Triton", OF_TRITON)
