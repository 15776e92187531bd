"""`build` compiles kernels ahead of time into a folder, and `load` lets Python call them without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ninetoothed.built.folder import BuiltFolder
from ninetoothed.errors import shortens_tracebacks
from ninetoothed.make import make

if TYPE_CHECKING:
    from ninetoothed.ahead_of_time.recording import Recording
    from ninetoothed.runtime.loading.loaded import Loaded
    from ninetoothed.runtime.selection.machine import Machine

__all__ = ["build", "load", "recording"]


@shortens_tracebacks
def build(
    premake: Callable[..., Any],
    configs: Iterable[Any],
    *,
    meta_parameters: Iterable[str] = (),
    kernel_name: str,
    output_dir: Any,
    lazy: bool = False,
    gpus: Iterable[str | Machine] | None = None,
    calls: Callable[..., Iterable[Sequence[Any]]] | Iterable[Sequence[Any]] | None = None,
) -> BuiltFolder:
    """Compile a kernel ahead of time into a folder: machine code, a C header and source, and a manifest.

    premake: `premake(*args, **kwargs)` gives `(arrangement, application, tensors)`, which `make` takes.
    configs: each is `(args, kwargs, options)`: what `premake` is called with, and options of `make`.
    meta_parameters: the parameters of `premake` that only change speed. Of configurations that differ in those alone
        the fastest is kept, as it is measured on the GPU that is here, or as the cost model estimates it for another.
        Those that differ in others are told apart in calls.
    kernel_name: the name of the kernel, and of its function in C, `launch_NAME`.
    lazy: build nothing where the folder was built of the same `premake`, configurations, calls and versions already;
        what `premake` refers to is not compared.
    gpus: names such as "h100"; by default the GPU that is there, else an A100, an H100 and a B200. None need be there.
    calls: the calls to build for: tuples of arguments, or a function of `premake`'s that gives them. Their elements are
        never read. By default sizes and strides of a few classes, of tensors whose `dtype` is given.

    Raises `UnsupportedError` for what cannot be built ahead of time, and what `make` and calls of the kernel raise.
    """
    from ninetoothed.ahead_of_time import builder  # needs PyTorch, which takes long to import

    request = builder.Request(
        make, premake, tuple(configs), frozenset(meta_parameters), kernel_name, builder.machines(gpus), calls
    )
    return builder.build(request, Path(output_dir), lazy)


@shortens_tracebacks
def load(path: Any) -> Loaded:
    """Load kernels that were built ahead of time, and return them as attributes: `load("folder").add(x, y, z)`.

    path: a folder, or a package of `ninetoothed_ops.aoti_compile_and_package`, which carries one.

    Nothing is compiled or traced, and Triton is not imported. The machine code of each is read when it is first
    launched on a GPU. Raises `LoadError` where files are missing or damaged.
    """
    from ninetoothed.runtime.loading import loaded

    return loaded.load(path)


@shortens_tracebacks
def recording(path: Any, *, gpus: Iterable[str | Machine] | None = None) -> AbstractContextManager[Recording]:
    """Build what is called in a `with` block into a folder, which `load(path).serve()` lets another process use.

    path: the folder. gpus: as for `build`.

    The calls run as they would; run what depends on the device on the GPU that is to be served. What cannot be built is
    named by a line of the logger `ninetoothed`, and by `left_out` of what the block is given. What a CUDA graph replays
    is no call.
    """
    from ninetoothed.ahead_of_time import builder
    from ninetoothed.ahead_of_time.recording import recording as recorded

    return recorded(Path(path), builder.machines(gpus))
