"""`make` and `jit` integrate an arrangement and an application into a `Kernel`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, overload

from ninetoothed.annotations import annotations_of, place_of
from ninetoothed.arrangement.boundary import tells_mistakes
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import (
    ArgumentTypeError,
    ArrangementError,
    NineToothedError,
    UnsupportedError,
    arrangement_error,
    shortened,
    shortens_tracebacks,
)
from ninetoothed.frontend import oversights, preview
from ninetoothed.integrate import Application, ArrangementFunction, Choice, KernelOptions, integrate, run_arrangement
from ninetoothed.wording import brief, in_users_names

if TYPE_CHECKING:
    from ninetoothed.explain import KernelSource
    from ninetoothed.schedule import Schedule
    from ninetoothed.seeing.page import Page
    from ninetoothed.seeing.profile import Profile


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel, made by `make` or `jit`: call it with its tensors.

    It takes an argument for each parameter of the application, in order, then the values of constexpr symbols by
    keyword, and returns None. It runs where its tensors are: compiled by Triton on a GPU, by PyTorch on a CPU.
    """

    definition: KernelDefinition
    if TYPE_CHECKING:
        _launcher: ClassVar[Any]

    @property
    def __name__(self) -> str:
        return self.definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on its arguments, on the device and the current stream of its tensors.

        args: for each parameter in order, a tensor of that rank with any sizes, strides and type; for a `Tensor(0)` a
            number or a 0-d tensor.
        kwargs: the values of constexpr symbols and of constexpr sizes; parameters may be given by name, too.

        Raises `ArgumentError` where an argument does not fit, `SizeError` where sizes do not fit together, and
        `ApplicationError` for what the application may not do with these types. Nothing has been launched then.
        """
        try:
            launcher = self._launcher
        except AttributeError:  # the first call; later ones do without the import, which costs more than a launch
            from ninetoothed.runtime.dispatch import launcher_of

            launcher = launcher_of(self)
        try:
            launcher(args, kwargs)
        except NineToothedError as error:
            raise shortened(in_users_names(error, self.definition.given_names))  # noqa: B904

    def __getitem__(self, grid: object) -> None:
        raise ArgumentTypeError(
            f"kernel {self.definition.name!r} takes no grid: its arrangement says how many programs there are; call it"
            f" as `{self.definition.name}({', '.join(p.name for p in self.definition.given)})`"
        )

    @shortens_tracebacks
    def source(self, *args: Any, **kwargs: Any) -> KernelSource:
        """Return the Triton source that a call with these arguments runs on a GPU: a string.

        args, kwargs: those of a call, on any device. `gpu=` gives the GPU: a name ("a100", "h100", "h200" or "b200") or
            a `ninetoothed.runtime.selection.machine.Machine`; by default the present one, else an H200. It need not be
            there.

        The first line is a comment that tells the block sizes and the GPU; `.text` is without it, and `.configuration`
        and `.gpu` are what it tells. Raises what a call raises.

        >>> import torch
        >>> from ninetoothed import Tensor, make
        >>> def arrangement(x, y):
        ...     return x.tile((64,)), y.tile((64,))
        >>> def application(x, y):
        ...     y = 2 * x
        >>> double = make(arrangement, application, (Tensor(1), Tensor(1)), kernel_name="double")
        >>> "def double(" in double.source(torch.empty(100), torch.empty(100), gpu="h100")
        True
        """
        from ninetoothed.explain import source

        return source(self, args, kwargs)

    @shortens_tracebacks
    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Return how a call with these arguments is compiled for a GPU, as a text.

        args, kwargs: as for `source`.

        It tells in a table the configuration and the next two, their estimates and what bounds them, then why it was
        chosen, the guards that are left, and the registers, shared memory and spills once it is compiled. With
        `passes=True` it tells the class of the call (what is known of types, sizes and strides), the schedule, what
        each pass that applied did, the program that results, and the file with the Triton source. Nothing is
        compiled and nothing launched. `NINETOOTHED_DUMP=passes` prints the programs of every variant when it is traced.
        Raises what a call raises.
        """
        from ninetoothed.explain import explain

        return explain(self, args, kwargs)

    def debug(self, *args: Any, on_line: Any = None, **kwargs: Any) -> None:
        """Run a call on CPU tensors program by program and line by line, for a debugger.

        args, kwargs: those of a call. on_line: is called after each line with a `Line`, which has the program's index,
            the line, the values that it assigned and the elements that it touched.

        Each line of the application has a frame at its place in your file, named like the kernel, whose locals are the
        program's variables as real tensors: breakpoints that a debugger has set there (`b file.py:12` in pdb) stop, and
        `sys.settrace` sees them. Overhang is shown as `--`. An error is raised at its line, where `pdb.pm()` finds the
        variables. The tensors are written as by a call.

        Raises `ArgumentTypeError` for CUDA tensors, and what a call raises.
        """
        from ninetoothed.seeing.steps import debug

        debug(self, args, kwargs, on_line)

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Measure a call on a GPU, beside the least time that memory allows and what `explain` estimates.

        args, kwargs: those of a call, with CUDA tensors, which are as before afterwards. The result is a text;
            `.plot(path)` draws it. A line on stderr says that it is measuring.

        Raises `UnsupportedError` without CUDA tensors, and what a call raises.
        """
        from ninetoothed.seeing.profile import profile

        return profile(self, args, kwargs)

    def show(self, *args: Any, **kwargs: Any) -> Page:
        """Return a page of HTML that steps through the programs of a call on the CPU; none of the tensors is changed.

        args, kwargs: those of a call. A slider and the arrow keys choose the program and the line; the page shows which
        elements of each parameter the program touches, what several programs touch, overhang, and the values of each
        line. What is large is cut, and the page says so. A notebook shows it; `.save("page.html")` writes it, and it
        needs no other file and no network. Raises what `debug` raises.
        """
        from ninetoothed.seeing.page import show

        return show(self, args, kwargs)

    def _repr_html_(self) -> str:
        """Show a notebook the kernel's arrangement."""
        from ninetoothed.visualization.notebook import tensors_html

        parameters = self.definition.given
        return tensors_html((Tensor.of(each.as_given) for each in parameters), self.definition.given_names)

    def __repr__(self) -> str:
        return f"<kernel {self.definition.name}({', '.join(p.name for p in self.definition.given)})>"


@shortens_tracebacks
def tune(kernel: Kernel, /, *args: Any, **kwargs: Any) -> Schedule:
    """Choose a kernel's configuration for calls like this one by measuring, and return it.

    args, kwargs: those of a call of the kernel; none of the tensors is changed.

    Calls of the same class (types, layout, sizes up to a power of two) get the result from now on. It is kept on disk,
    in `NINETOOTHED_CACHE_DIR`, where later processes find it: nothing is measured twice. On the CPU there is nothing to
    choose and nothing is measured. `make(..., tune=True)` does this at a kernel's first call of each class, the
    environment variable `NINETOOTHED_TUNE=1` for every kernel, those of operators among them.

    Raises `ArgumentTypeError` for what is no kernel, and what a call raises.

    >>> import torch, ninetoothed
    >>> from ninetoothed import Tensor, block_size
    >>> BLOCK = block_size()
    >>> @ninetoothed.jit
    ... def double(x: Tensor(1).tile((BLOCK,)), y: Tensor(1).tile((BLOCK,))):
    ...     y = 2 * x
    >>> ninetoothed.tune(double, torch.ones(1000), torch.empty(1000)).num_warps
    4
    """
    if not isinstance(kernel, Kernel):
        raise ArgumentTypeError(
            f"`tune` takes a kernel that `make` or `jit` has made, and got {kernel!r}; operators are tuned at their"
            " first calls where the environment variable NINETOOTHED_TUNE is 1"
        )
    from ninetoothed.runtime.dispatch import launcher_of

    configuration: Schedule = launcher_of(kernel).tune(args, kwargs)
    return configuration


@shortens_tracebacks
@tells_mistakes
def make(
    arrangement: ArrangementFunction,
    application: Application,
    tensors: Iterable[Any],
    caller: str = "torch",
    kernel_name: str | None = None,
    output_dir: Any = None,
    num_warps: Choice = None,
    num_stages: Choice = None,
    max_num_configs: int | None = None,
    tune: bool = False,
    verify: bool = False,
) -> Kernel:
    """Make a kernel of an arrangement, which cuts tensors into tiles, and an application, which computes with them.

    arrangement: takes `tensors`, returns the arranged tensor or a tuple of them: the kernel's parameters, in order.
    application: works on one element of the outermost level of each parameter. What it names outside (globals,
        closures) is read when a variant is compiled, and compiled anew where it is another: what changes from call to
        call is passed as a `Tensor(0)`, constexpr or not.
    tensors: the symbolic tensors that the arrangement takes, such as `(Tensor(1), Tensor(1))`.
    kernel_name: the name in messages and in the Triton source; by default the application's.
    num_warps, num_stages: a number, or several to choose from; by default the compiler chooses.
    max_num_configs: how many configurations are measured at most.
    tune: choose by measuring at the first call of each class (as `ninetoothed.tune` does), not by a formula.
    verify: verify the kernel now, as `ninetoothed.verify` does without arguments. What is refuted is an error, what is
        not decided a warning.
    caller, output_dir: with `caller="cuda"` the kernel is built ahead of time into this folder, too, as
        `ninetoothed.build` does it for tensors whose `dtype` is given.

    Raises `ArrangementError` (a `ValueError`) where the arrangement is wrong or does not fit the application, and
    `ApplicationError` (a `SyntaxError`) for what no call could mend in the application;
    `VerificationError` for what `verify` refutes. Needs no GPU, and runs nothing.

    >>> import torch
    >>> from ninetoothed import Tensor
    >>> def arrangement(x, y):
    ...     return x.tile((64,)), y.tile((64,))
    >>> def application(x, y):
    ...     y = 2 * x
    >>> double = make(arrangement, application, (Tensor(1), Tensor(1)))
    >>> x, y = torch.arange(100), torch.empty(100)
    >>> double(x, y)
    >>> y[99]
    tensor(198.)
    """
    if not isinstance(caller, str) or (caller, output_dir is None) not in (("torch", True), ("cuda", False)):
        raise UnsupportedError(
            f"`make` is given caller={caller!r} and output_dir={output_dir!r}; a kernel is built ahead of time by"
            " caller='cuda' with the folder to build into, and called from Python by caller='torch' without one"
        )
    options = KernelOptions(kernel_name, num_warps, num_stages, max_num_configs, tune)
    arranged, given = run_arrangement(arrangement, application, tensors)
    definition = replace(integrate(arranged, application, options), given_names=given)
    preview.check(definition.name, definition.application)
    names = tuple(parameter.name for parameter in definition.given)
    origins = tuple(given.get(tensor.arrangement.source.name) for tensor in arranged)
    oversights.warn_if_reordered(definition.name, definition.application, names, origins)
    if names and preview.stores_nothing(definition.application, names):
        preview.warn_that_nothing_is_stored(definition.name, definition.application, names)
    kernel = Kernel(definition)
    if verify:
        from ninetoothed.verification.claims import demand  # needs PyTorch, which takes long to import

        demand(kernel)
    if caller == "cuda":
        from ninetoothed.ahead_of_time.builder import build_kernel

        build_kernel(definition, output_dir)
    return kernel


@overload
def jit(func: Application, **options: Any) -> Kernel: ...


@overload
def jit(
    func: None = None,
    *,
    caller: str = "torch",
    kernel_name: str | None = None,
    output_dir: Any = None,
    num_warps: Choice = None,
    num_stages: Choice = None,
    max_num_configs: int | None = None,
    tune: bool = False,
    verify: bool = False,
    _prettify: bool = False,
) -> Callable[[Application], Kernel]: ...


@shortens_tracebacks
@tells_mistakes
def jit(
    func: Application | None = None, *, _prettify: bool = False, **options: Any
) -> Kernel | Callable[[Application], Kernel]:
    """Make a kernel of a function whose parameters are annotated with arranged tensors; its body is the application.

    Use it bare, or with the options of `make`. A type checker takes such annotations for types: docs/language.md names
    the setting that tells it not to. `_prettify` is without effect: what is emitted is readable anyway.

    Raises `ArrangementError` for a parameter that is annotated with anything else, and what `make` raises.

    >>> import torch
    >>> from ninetoothed import Tensor, jit
    >>> @jit
    ... def double(x: Tensor(1).tile((64,)), y: Tensor(1).tile((64,))):
    ...     y = 2 * x
    >>> y = torch.empty(3)
    >>> double(torch.ones(3), y)
    >>> y
    tensor([2., 2., 2.])
    """
    if func is None:
        return lambda func: jit(func, **options)
    if not callable(func):
        raise ArrangementError(f"`jit` is given {brief(func)}; write it above a function, as `@ninetoothed.jit`")
    annotations = annotations_of(func)
    names = list(inspect.signature(func).parameters)
    for name in names:
        found = annotations.get(name)
        if not isinstance(found, Tensor):
            what = f"annotated with {brief(found)}" if name in annotations else "not annotated"
            raise arrangement_error(
                f"`jit` of {func.__name__!r}: parameter {name!r} is {what}",
                f"annotate it with an arranged tensor, such as `{name}: Tensor(1).tile((BLOCK,))`",
                place=place_of(func),
            )
    return make(lambda *tensors: tensors, func, tuple(annotations[name] for name in names), **options)
