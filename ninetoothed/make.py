"""`make` and `jit`: an arrangement and an application, integrated into a kernel."""

from __future__ import annotations

import inspect
import itertools
import keyword
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed.arrangement import Arrangement
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import ArgumentTypeError, ArrangementError, UnsupportedError
from ninetoothed.frontend.parse import called, mentioned_names, signature, unwrap
from ninetoothed.symbol import Symbol
from ninetoothed.tensor import Tensor
from ninetoothed.wording import in_users_names, parameter_names

# What may be chosen for an option, and in words.
_CHOICES = {
    "num_warps": ((1, 2, 4, 8, 16, 32), "a power of two from 1 to 32"),
    "num_stages": (range(1, 17), "from 1 to 16"),
}


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: call it with one argument a parameter, then the values of constexpr symbols by keyword.

    Calling returns None. It runs where its tensors are: compiled by Triton on a GPU, evaluated by PyTorch on a CPU.
    """

    definition: KernelDefinition

    @property
    def __name__(self) -> str:
        return self.definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        try:
            launcher = self._launcher
        except AttributeError:  # the first call; later ones do without the import, which costs more than a launch
            from ninetoothed.runtime.dispatch import launcher_of

            launcher = launcher_of(self)
        launcher(args, kwargs)

    def __getitem__(self, grid):
        raise ArgumentTypeError(
            f"kernel {self.definition.name!r} takes no grid: its arrangement says how many programs there are; call it"
            f" as `{self.definition.name}({', '.join(p.name for p in self.definition.parameters)})`"
        )

    def source(self, *args, **kwargs):
        """Return the Triton text and the configuration that a call with these arguments runs on a GPU.

        It is the present one, else an H200, unless `gpu=` gives another: a name ("a100", "h100", "h200" or "b200"), or
        a `ninetoothed.runtime.selection.machine.Machine`. None of them need be there.
        """
        from ninetoothed.runtime.dispatch import source

        return source(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<kernel {self.definition.name}({', '.join(p.name for p in self.definition.parameters)})>"


def tune(kernel: Kernel, /, *args, **kwargs):
    """Choose a kernel's configuration for calls like this one by measuring, and return it.

    Takes what a call of the kernel takes, and changes none of it. Calls of the same class (types, layout, sizes up to a
    power of two) get the result from now on. It is kept on disk, in `NINETOOTHED_CACHE_DIR`, where later processes
    find it: what was measured is not measured again. On the CPU there is nothing to choose and nothing is measured.

    `make(..., tune=True)` does this at a kernel's first call of each class, the environment variable
    `NINETOOTHED_TUNE=1` for every kernel, those of operators among them. Raises `ArgumentTypeError` for what is no
    kernel.
    """
    if not isinstance(kernel, Kernel):
        raise ArgumentTypeError(
            f"`tune` takes a kernel that `make` or `jit` has made, and got {kernel!r}; operators are tuned at their"
            " first calls where the environment variable NINETOOTHED_TUNE is 1"
        )
    from ninetoothed.runtime.dispatch import launcher_of

    return launcher_of(kernel).tune(args, kwargs)


def make(
    arrangement: Callable,
    application: Callable,
    tensors: typing.Iterable[Any],
    caller: str = "torch",
    kernel_name: str | None = None,
    output_dir: Any = None,
    num_warps: int | tuple[int, ...] | None = None,
    num_stages: int | tuple[int, ...] | None = None,
    max_num_configs: int | None = None,
    tune: bool = False,
) -> Kernel:
    """Integrate an arrangement and an application.

    arrangement: takes `tensors`, returns the arranged tensor or a tuple of them: the kernel's parameters, in order.
    application: works on one element of the outermost level of each parameter. What it names outside (globals,
        closures) is read when a variant is compiled: what changes later is passed as a `Tensor(0)`, constexpr or not.
    num_warps, num_stages: a number, or several to choose from; by default the compiler chooses.
    tune: choose by measuring at the first call of each class (as for `ninetoothed.tune`), not by a formula.
    max_num_configs: how many configurations are measured at most.

    Raises `ArrangementError` (a `ValueError`) where the two do not fit. Needs no GPU, and runs nothing.
    """
    if caller != "torch" or output_dir is not None:
        raise UnsupportedError(
            "compiling ahead of time (`caller` other than 'torch', or `output_dir`) is not offered"
            " yet; call the kernel instead"
        )
    if max_num_configs is not None and (type(max_num_configs) is not int or max_num_configs < 1):
        raise ArrangementError(f"max_num_configs={max_num_configs!r} is no number of configurations; give 1 or more")
    if not callable(arrangement) or isinstance(tensors, Tensor) or not isinstance(tensors, typing.Iterable):
        given = "one tensor" if isinstance(tensors, Tensor) else repr(tensors)
        what = f"the arrangement is {arrangement!r}" if not callable(arrangement) else f"`tensors` is {given}"
        raise ArrangementError(f"{what}; give a function, and a tuple of the tensors that it takes")
    tensors = tuple(tensors)
    with in_users_names(parameter_names(arrangement, tensors)):
        arranged = arrangement(*tensors)
    arranged = tuple(arranged) if isinstance(arranged, tuple | list) else (arranged,)
    if arranged == (None,):
        raise ArrangementError("the arrangement returns None; let it return the arranged tensors")
    return _integrate(arranged, application, kernel_name, num_warps, num_stages, max_num_configs, tune)


@typing.overload
def jit(function: Callable[..., Any], **options: Any) -> Kernel: ...
@typing.overload
def jit(
    function: None = None,
    *,
    caller: str = "torch",
    kernel_name: str | None = None,
    output_dir: Any = None,
    num_warps: int | tuple[int, ...] | None = None,
    num_stages: int | tuple[int, ...] | None = None,
    max_num_configs: int | None = None,
    tune: bool = False,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def jit(function: Callable[..., Any] | None = None, **options: Any) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a function whose parameters are annotated with arranged tensors; its body is the application.

    Options are those of `make`; it is used bare or with options. A type checker takes such annotations for types: the
    page on the language (docs/language.md) names the setting that tells it not to.

    Raises `ArrangementError` (a `ValueError`) for a parameter that is annotated with anything else.

    >>> @jit
    ... def double(x: Tensor(1).tile((64,)), y: Tensor(1).tile((64,))):
    ...     y = x * 2
    """
    if function is None:
        return lambda function: _jit(function, options)
    return _jit(function, options)


def _jit(function: Callable[..., Any], options: dict[str, Any]) -> Kernel:
    annotations = _annotations(function)
    names = list(inspect.signature(function).parameters)
    for name in names:
        found = annotations.get(name)
        if not isinstance(found, Tensor):
            what = f"annotated with {found!r}" if name in annotations else "not annotated"
            raise ArrangementError(
                f"`jit` of {function.__name__!r}: parameter {name!r} is {what}; annotate it with an arranged tensor,"
                f" such as `{name}: Tensor(1).tile((BLOCK,))`{_place_of(function)}"
            )
    return make(lambda *tensors: tensors, function, tuple(annotations[name] for name in names), **options)


def _place_of(function: Callable) -> str:
    code = getattr(function, "__code__", None)
    return f"\n  at {code.co_filename}:{code.co_firstlineno}" if code else ""


def _annotations(function: Callable) -> dict[str, Any]:
    """Annotations as objects, also where `from __future__ import annotations` made them text."""
    found = dict(getattr(function, "__annotations__", {}))
    if any(isinstance(value, str) for value in found.values()):
        closure = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
        scope = {**function.__globals__, **closure}
        found = {name: _evaluated(function, name, value, scope) for name, value in found.items()}
    return found


def _evaluated(function: Callable, name: str, annotation: Any, scope: dict[str, Any]) -> Any:
    try:
        return eval(annotation, scope) if isinstance(annotation, str) else annotation
    except NameError as error:
        raise ArrangementError(
            f"`jit` of {function.__name__!r}: the annotation `{annotation}` of parameter {name!r} cannot be read:"
            f" {error}. `from __future__ import annotations` makes it a text, which local variables are not seen from:"
            f" drop that import, or make the variable global{_place_of(function)}"
        ) from None


def _integrate(arranged, application, kernel_name, num_warps, num_stages, max_num_configs, tune) -> Kernel:
    name = _name_of(application) if kernel_name is None else kernel_name
    application = called(application)
    names = _parameter_names(application, len(arranged))
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name in ("tl", "triton"):
        raise ArrangementError(f"a kernel cannot be named {name!r}; give a Python identifier, not `tl` or `triton`")
    for parameter, tensor in zip(names, arranged, strict=True):
        if not isinstance(tensor, Tensor):
            raise ArrangementError(
                f"kernel {name!r}: parameter {parameter!r} is arranged to {_kind_of(tensor)}; an arrangement takes"
                " and returns symbolic tensors, such as `ninetoothed.Tensor(1)`, and calling the kernel real ones"
            )
        if tensor.jagged_dim is not None:
            raise UnsupportedError(
                f"kernel {name!r}: parameter {parameter!r} is jagged; jagged tensors are not offered yet"
            )
    arrangements = _renamed(tuple(tensor.arrangement for tensor in arranged), names)
    touched = mentioned_names(application, names)
    parameters = tuple(
        KernelParameter(parameter, arrangement, parameter in touched)
        for parameter, arrangement in zip(names, arrangements, strict=True)
    )
    definition = KernelDefinition(
        name,
        parameters,
        application,
        _symbols(name, parameters),
        _choices("num_warps", num_warps),
        _choices("num_stages", num_stages),
        max_num_configs,
        tune,
    )
    _check_outermost(definition)
    return Kernel(definition)


def _choices(option: str, value: int | tuple[int, ...] | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not values or any(isinstance(each, bool) or not isinstance(each, int) for each in values):
        raise ArrangementError(f"{option}={value!r} is no choice; give a number, or several to choose from")
    allowed, told = _CHOICES[option]
    wrong = [each for each in values if each not in allowed]
    if wrong:
        raise ArrangementError(f"{option}={wrong[0]} is nothing that a GPU has; give {told}, or leave it out")
    return values


def _name_of(application: Callable) -> str:
    name = getattr(unwrap(application), "__name__", "kernel")
    return name if name.isidentifier() else "kernel"


def _parameter_names(application: Callable, count: int) -> tuple[str, ...]:
    try:
        parameters = list(signature(application).parameters.values())
    except (TypeError, ValueError):
        raise ArrangementError(f"the application is {application!r}; give a function written in Python") from None
    unbound = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
    if unbound:
        raise ArrangementError(
            f"the application {_name_of(application)!r} takes {unbound[0]!r} by keyword alone, which no tensor gives;"
            " give it a default, or bind it with `functools.partial`"
        )
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = [p.name for p in parameters if p.kind == p.VAR_POSITIONAL]
    required = sum(p.default is p.empty for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    if variadic and count > len(positional):
        numbered = (f"{variadic[0]}_{i}" for i in itertools.count())
        free = (name for name in numbered if name not in positional)
        positional = [*positional, *itertools.islice(free, count - len(positional))]
    if not required <= count <= len(positional):
        counts = required if required == len(positional) else f"{required} to {len(positional)}"
        raise ArrangementError(
            f"the application {_name_of(application)!r} takes"
            f" {counts}"
            f" parameters ({', '.join(positional)}), and the arrangement gives {count} tensors"
        )
    return tuple(positional[:count])


def _kind_of(value: Any) -> str:
    """The type of a value as one would import it."""
    module = type(value).__module__
    return type(value).__qualname__ if module == "builtins" else f"a {module}.{type(value).__qualname__}"


def _renamed(arrangements: tuple[Arrangement, ...], names: tuple[str, ...]) -> tuple[Arrangement, ...]:
    """Sources named after the application's parameters, whatever number they were created under."""
    values: dict[str, Symbol] = {}
    for arrangement, name in zip(arrangements, _stems(arrangements, names), strict=True):
        source = arrangement.source
        for kind, sizes in (("size", source.sizes), ("stride", source.strides)):
            for d, symbol in enumerate(sizes):
                if (
                    isinstance(symbol, Symbol)
                    and symbol.name == f"{source.name}_{kind}_{d}"
                    and symbol.name not in values
                ):
                    values[symbol.name] = _copy_options(symbol, f"{name}_{kind}_{d}")

    def rename(size):
        return size.subs(values) if isinstance(size, Symbol) else size

    renamed = []
    for arrangement, name in zip(arrangements, names, strict=True):
        arrangement = arrangement.map_sizes(rename)
        renamed.append(replace(arrangement, source=replace(arrangement.source, name=name)))
    return tuple(renamed)


def _stems(arrangements: tuple[Arrangement, ...], names: tuple[str, ...]) -> list[str]:
    """What names of sizes and strides begin with: the parameter's own, unless a parameter has a name that results."""
    stems: list[str] = []
    for arrangement, name in zip(arrangements, names, strict=True):
        dims, stem, others = range(arrangement.source.ndim), name, {*names, *stems} - {name}
        while stem in others or any(f"{stem}_{kind}_{d}" in names for kind in ("size", "stride") for d in dims):
            stem += "_"
        stems.append(stem)
    return stems


def _copy_options(symbol: Symbol, name: str) -> Symbol:
    return Symbol(
        name,
        constexpr=symbol.constexpr,
        meta=symbol.meta,
        lower_bound=symbol.lower_bound,
        upper_bound=symbol.upper_bound,
        power_of_two=symbol.power_of_two,
    )


def _symbols(name: str, parameters: tuple[KernelParameter, ...]) -> dict[str, Symbol]:
    """The constexpr and meta symbols of an arrangement; any other free name has no one to give it a value."""
    sizes = {str(size) for parameter in parameters for size in (*parameter.source.sizes, *parameter.source.strides)}
    taken = {parameter.name for parameter in parameters}
    symbols: dict[str, Symbol] = {}
    for parameter in parameters:
        for symbol_name, symbol in parameter.arrangement.symbols.items():
            if symbol_name in taken:
                raise ArrangementError(
                    f"kernel {name!r}: {symbol_name!r} is a parameter of the application and a symbol in the"
                    f" arrangement of {parameter.name!r}; give one of them another name"
                )
            if symbol_name in sizes:
                continue
            if not (symbol.constexpr or symbol.meta):
                raise ArrangementError(
                    f"kernel {name!r}: the arrangement of {parameter.name!r} uses {symbol_name!r},"
                    " which is no size of a parameter"
                    " and is marked neither constexpr=True nor meta=True, so it never gets a value"
                )
            symbols[symbol_name] = symbol
    return symbols


def _check_outermost(definition: KernelDefinition) -> None:
    """Shapes that are numbers already must agree now; the others are checked at each call."""
    known = [
        (parameter.name, tuple(size for size in parameter.outermost if size != 1))
        for parameter in definition.parameters
        if all(isinstance(size, int) for size in parameter.outermost) and parameter.source.ndim
    ]
    for (first, expected), (name, shape) in zip(known, known[1:], strict=False):
        if shape != expected:
            raise ArrangementError(
                f"kernel {definition.name!r}: outermost shapes must agree, but {first!r} has"
                f" {expected} and {name!r} has {shape}"
                " (dimensions of size 1 dropped); rearrange one of them, for example with `expand`"
            )
