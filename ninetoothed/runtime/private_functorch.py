"""Private names of `torch.func`: how a kernel of one of its levels computes at the level below."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

try:
    from torch._C._functorch import _unwrap_for_grad as _unwrap, _wrap_for_grad as _wrap
    from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter as _interpreter

    _force, _is_active = torch._C._ForceDispatchKeyGuard, torch._C._are_functorch_transforms_active
    _included, _excluded = torch._C._dispatch_tls_local_include_set, torch._C._dispatch_tls_local_exclude_set
    _own = ["FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"]
    # What a level of gradients or tangents hides from the operators that it runs.
    _hidden = ["Functionalize", "Conjugate", "Negative", "ZeroTensor", "Tracer", "FuncTorchBatched", "Batched"]
    _hidden += ["BatchedNestedTensor", "VmapMode", "FuncTorchGradWrapper", "DeferredInit", "PythonTLSSnapshot"]
    _parse: Callable[[str], Any] = torch._C._parse_dispatch_key
    _OWN, _HIDDEN = ([torch._C.DispatchKeySet(_parse(name)) for name in names] for names in (_own, [*_hidden, _own[0]]))
    IS_THERE = True
except (ImportError, AttributeError):
    IS_THERE = False


def run_below(call: Callable[..., Any], *values: Any) -> Any:
    """Call a function of tensors at the level below this one, as if that were the last; wrap tensors that it gives.

    values: tensors, and lists of them. Other levels of `torch.func` may be entered there.
    """
    interpreter = _interpreter()
    level = interpreter.level()
    lowered = _mapped(lambda tensor: _unwrap(tensor, level), list(values))
    with interpreter.lower(), _as_if_called_by_users():
        found = call(*lowered)

    return _mapped(lambda tensor: _wrap(tensor, level), found)


@contextlib.contextmanager
def _as_if_called_by_users() -> Iterator[None]:
    included, excluded = _included(), _excluded()
    for keys in _HIDDEN:
        excluded = excluded - keys
    if not _is_active():
        for keys in _OWN:
            included = included - keys
    with _force(included, excluded):
        yield


def _mapped(convert: Callable, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_mapped(convert, item) for item in value)
    return convert(value) if isinstance(value, torch.Tensor) else value
