"""Read what the machine code of a compiled kernel takes, off its arguments and what Triton says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ninetoothed.backends.triton import Emitted, KernelArgument
from ninetoothed.errors import CompilationError
from ninetoothed.runtime.launching import code
from ninetoothed.runtime.launching.code import CodeParameter
from ninetoothed.runtime.launching.driver import Encoding

# What a launch of ours does not do, by how Triton says that it need not.
_NOT_DONE = {
    **{"num_ctas": 1, "global_scratch_size": 0, "profile_scratch_size": 0},
    **{"launch_cooperative_grid": False, "launch_pdl": False},
}
# Of Triton's element types on a device, those that the driver numbers otherwise.
_ON_HOST = {8: 10, 9: 8, 10: 9}


def why_through_triton(metadata: Any) -> str | None:
    """Say why only Triton's own launcher can launch a kernel; None where any can."""
    architecture = metadata.target.arch
    if not isinstance(architecture, int):
        return f"{architecture} is no GPU of NVIDIA's"
    found = ((name, getattr(metadata, name, value), value) for name, value in _NOT_DONE.items())
    return next((f"Triton compiled it with {name}={given}" for name, given, value in found if given != value), None)


def parameters(emitted: Emitted, metadata: Any) -> Iterator[CodeParameter]:
    """Yield the parameters of a kernel. Raises `CompilationError` where Triton does not tell those of a descriptor."""
    described = iter(getattr(metadata, "tensordesc_meta", None) or ())
    for argument in emitted.arguments:
        if argument.role == "descriptor":
            yield from code.descriptor(encoding(argument, next(described, None)))
        elif argument.role == "pointer":
            yield code.POINTER
        else:
            yield _number(argument)


def _number(argument: KernelArgument) -> CodeParameter:
    dtype = argument.dtype
    return code.number(dtype.bits, dtype.is_floating, dtype.category == "uint", dtype.name == "bfloat16")


def encoding(argument: KernelArgument, metadata: Mapping[str, Any] | None) -> Encoding:
    """Tell how a descriptor is encoded. Raises `CompilationError` where Triton does not."""
    if metadata is None or metadata.get("fp4_padded") or metadata.get("is_im2col"):
        raise CompilationError(f"Triton does not tell how the descriptor of `{argument.source}` is encoded")
    element_type = metadata["elem_type"]
    return Encoding(
        swizzle=metadata["swizzle"],
        element_type=_ON_HOST.get(element_type, element_type),
        element_size=metadata["elem_size"],
        block=tuple(metadata["block_size"]),
    )
