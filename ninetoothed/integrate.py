"""Integrate an arrangement and an application: from `tensors` and two functions to a `KernelDefinition`."""

from __future__ import annotations

import ast
import inspect
import itertools
import keyword
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed.arrangement.operands import several
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.arrangement.value import Arrangement
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.errors import (
    ApplicationError,
    ArrangementError,
    ArrangementTypeError,
    NineToothedError,
    arrangement_error,
    line_of,
    was_raised_by_user,
)
from ninetoothed.frontend.parse import called, mentioned_names, parse_application, returns_value, signature, unwrap
from ninetoothed.jagged import spelled_out
from ninetoothed.wording import brief, counted, given_names, in_users_names

# The numbers that an option may have, and how messages describe them.
_CHOICES = {
    "num_warps": ((1, 2, 4, 8, 16, 32), "a power of two from 1 to 32"),
    "num_stages": (range(1, 17), "from 1 to 16"),
}

ArrangementFunction = Callable[..., Any]
Application = Callable[..., Any]
Choice = int | tuple[int, ...] | None


@dataclass(frozen=True)
class KernelOptions:
    """The options of `make` for a kernel; see there."""

    name: str | None = None
    num_warps: Choice = None
    num_stages: Choice = None
    max_num_configs: int | None = None
    tune: bool = False

    def __post_init__(self) -> None:
        count = self.max_num_configs
        if count is not None and (type(count) is not int or count < 1):
            raise ArrangementError(f"max_num_configs={brief(count)} is no number of configurations; give 1 or more")


def run_arrangement(
    arrangement: ArrangementFunction, application: Application, tensors: Iterable[Any]
) -> tuple[tuple[Any, ...], dict[str, str]]:
    """Call the arrangement and return its results. Raises errors that name mistakes in the arguments of `make`."""
    is_one = isinstance(tensors, Tensor) or _is_real(tensors)
    if not callable(arrangement) or is_one or not isinstance(tensors, Iterable):
        told = "one tensor" if is_one else brief(tensors)
        what = f"the arrangement is {brief(arrangement)}" if not callable(arrangement) else f"`tensors` is {told}"
        raise ArrangementError(f"{what}; give a function, and a tuple of the tensors that it takes")
    tensors = tuple(tensors)
    _check_count(arrangement, tensors)
    names = given_names(arrangement, tensors, application)
    try:
        arranged = arrangement(*tensors)
    except Exception as error:
        in_users_names(error, names)
        if _is_mistake(error) and _are_exchanged(arrangement, application):
            raise _exchanged(arrangement, application) from error
        unfit = [(i, each) for i, each in enumerate(tensors) if not isinstance(each, Tensor)]
        real = [(i, each) for i, each in unfit if _is_real(each)]
        if not _is_mistake(error) and not (real and not isinstance(error, NineToothedError)):
            raise
        told = f"there is no key {error}" if isinstance(error, KeyError) else str(error)
        what = f"the arrangement {_told(arrangement)} fails: {told}"
        kind = ArrangementTypeError if isinstance(error, TypeError) else ArrangementError
        raise arrangement_error(what, _remedy(error, (real or unfit)[:1]), kind, line_of(error)) from error
    arranged = several(arranged)
    if arranged == (None,):
        if _are_exchanged(arrangement, application):
            raise _exchanged(arrangement, application)
        raise ArrangementError("the arrangement returns None; let it return the arranged tensors")
    return arranged, names


def _is_mistake(error: Exception) -> bool:
    """Tell whether Python, or the language, refused what an arrangement does; not what it raises itself, or we say."""
    if isinstance(error, ApplicationError):
        return True
    return not isinstance(error, NineToothedError) and not was_raised_by_user(error)


def _remedy(error: Exception, unfit: Iterable[tuple[int, Any]]) -> str:
    """Say how to mend what Python refused. `unfit`: an item of `tensors` that is no symbolic tensor."""
    for position, value in unfit:
        kind = type_of(value) if _is_real(value) else brief(value)
        return (
            f"`tensors[{position}]` is {kind}: give symbolic tensors, such as `ninetoothed.Tensor(1)`; calling the"
            " kernel takes real ones"
        )
    text = str(error)
    if isinstance(error, ApplicationError) or "'Tensor'" in text:
        return "a symbolic tensor has no numbers: rearrange it by its methods, such as `tile` and `expand`"
    if isinstance(error, NameError):
        return "define it before, or give it to the arrangement as a parameter"
    if "'Symbol'" in text:
        return "a size such as `x.shape[0]` stands for a number that only a call tells: add, multiply and divide it"
    return "an arrangement is run once, when the kernel is made, on symbolic tensors; mend that line"


def _is_real(value: object) -> bool:
    """Tell whether a value is a tensor of PyTorch, of a subclass too."""
    return any(base.__module__.partition(".")[0] == "torch" for base in type(value).__mro__)


def _check_count(arrangement: ArrangementFunction, tensors: tuple[Any, ...]) -> None:
    try:
        signature = inspect.signature(arrangement)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*tensors)
    except TypeError as error:
        raise ArrangementError(
            f"the arrangement {_told(arrangement)} takes {signature}, and `tensors` has {len(tensors)}: {error};"
            " give one for each parameter"
        ) from None


def _are_exchanged(arrangement: ArrangementFunction, application: Application) -> bool:
    """Tell whether arrangement and application are swapped: only the latter's text returns a value."""
    return not _returns(arrangement) and _returns(application)


def _returns(function: Any) -> bool:
    """Tell whether a function's text returns a value; where it cannot be read, whatever makes no suspicion."""
    try:
        tree = parse_application(function).tree
    except ApplicationError:
        return False
    return isinstance(tree, ast.Lambda) or returns_value(tree)


def _exchanged(arrangement: ArrangementFunction, application: Application) -> ArrangementError:
    return ArrangementError(
        f"the arrangement {_told(arrangement)} returns no tensors, and the application {_told(application)} does: they"
        " are exchanged; give `make` the arrangement first, then the application"
    )


# Attributes of a parameter that need none of its tile's elements. `x.offsets()` is a tile as large as its elements.
_NOT_OF_TILES = ("source", "shape", "ndim", "dtype", "data_ptr")


def _told(function: Any) -> str:
    return repr(getattr(function, "__name__", function))


def integrate(arranged: tuple[Any, ...], application: Application, options: KernelOptions) -> KernelDefinition:
    """Return the definition of a kernel whose parameters are arranged as `arranged`, in order.

    Raises `ArrangementError` where arrangement, application and options do not fit together, and `ApplicationError`
    where the application's source cannot be read.
    """
    name = name_of(application) if options.name is None else options.name
    application = called(application)
    names = _parameter_names(application, len(arranged))
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name in ("tl", "triton"):
        raise ArrangementError(
            f"a kernel cannot be named {brief(name)}; give a Python identifier, not `tl` or `triton`"
        )
    for parameter, tensor in zip(names, arranged, strict=True):
        _check_arranged(name, parameter, tensor)
    own = [tensor.arrangement for tensor in arranged]
    arrangements = renamed(own, names, _stems(own, names))
    touched = mentioned_names(application, names)
    tiled = mentioned_names(application, names, besides=_NOT_OF_TILES)
    parameters = tuple(
        KernelParameter(parameter, arrangement, parameter in touched, parameter in tiled)
        for parameter, arrangement in zip(names, arrangements, strict=True)
    )
    definition = KernelDefinition(
        name,
        parameters,
        application,
        _symbols(name, parameters),
        _choices("num_warps", options.num_warps),
        _choices("num_stages", options.num_stages),
        options.max_num_configs,
        options.tune,
    )
    _check_outermost(definition)
    return replace(definition, parameters=spelled_out(name, parameters))


def name_of(function: Application) -> str:
    """Return the name of a function, or "kernel" where that is no identifier, as of a lambda."""
    name = getattr(unwrap(function), "__name__", "kernel")
    return name if name.isidentifier() else "kernel"


def type_of(value: object) -> str:
    """Describe the type of a value in a message, such as `a torch.Tensor`."""
    module = type(value).__module__
    return type(value).__qualname__ if module == "builtins" else f"a {module}.{type(value).__qualname__}"


def _check_arranged(name: str, parameter: str, tensor: object) -> None:
    if isinstance(tensor, Symbol | int):
        raise ArrangementError(
            f"kernel {name!r}: parameter {parameter!r} is arranged to the number {tensor}; an arrangement returns"
            " tensors: let the application read sizes off them, as by `x.shape[0]`, and name symbols as any other value"
        )
    if not isinstance(tensor, Tensor):
        raise ArrangementError(
            f"kernel {name!r}: parameter {parameter!r} is arranged to {type_of(tensor)}; an arrangement takes and"
            " returns symbolic tensors, such as `ninetoothed.Tensor(1)`, and calling the kernel real ones"
        )


def _choices(option: str, value: Choice) -> tuple[int, ...] | None:
    if value is None:
        return None
    values = several(value)
    if not values or any(isinstance(each, bool) or not isinstance(each, int) for each in values):
        raise ArrangementError(f"{option}={brief(value)} is no choice; give a number, or several to choose from")
    allowed, told = _CHOICES[option]
    wrong = [each for each in values if each not in allowed]
    if wrong:
        raise ArrangementError(f"{option}={wrong[0]} is nothing that a GPU has; give {told}, or leave it out")
    return values


def _parameter_names(application: Application, count: int) -> tuple[str, ...]:
    """Return the names of the parameters to which an arrangement gives so many tensors."""
    try:
        parameters = list(signature(application).parameters.values())
    except (TypeError, ValueError):
        raise ArrangementError(f"the application is {brief(application)}; give a function written in Python") from None
    unbound = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
    if unbound:
        raise ArrangementError(
            f"the application {name_of(application)!r} takes {unbound[0]!r} by keyword alone, which no tensor gives;"
            " give it a default, or bind it with `functools.partial`"
        )
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in by_position]
    required = sum(p.default is p.empty for p in by_position)
    variadic = [p.name for p in parameters if p.kind == p.VAR_POSITIONAL]
    if variadic and count > len(names):
        numbered = (f"{variadic[0]}_{i}" for i in itertools.count())
        free = (name for name in numbered if name not in names)
        names = [*names, *itertools.islice(free, count - len(names))]
    if not required <= count <= len(names):
        counts = required if required == len(names) else f"{required} to {len(names)}"
        raise ArrangementError(
            f"the application {name_of(application)!r} takes {counts} parameters ({', '.join(names)}), and the"
            f" arrangement gives {counted(count, 'tensor')}; let it return one for each parameter, in that order"
        )
    return tuple(names[:count])


def renamed(
    arrangements: Sequence[Arrangement], names: Sequence[str], stems: Sequence[str] | None = None
) -> tuple[Arrangement, ...]:
    """Name sources, and after `stems` (by default the same names) their sizes and strides."""
    values = dict(_new_names(arrangements, stems or names))
    mapped = (arrangement.subs(values) for arrangement in arrangements)
    return tuple(
        replace(each, source=replace(each.source, name=name)) for each, name in zip(mapped, names, strict=True)
    )


def _new_names(arrangements: Iterable[Arrangement], stems: Iterable[str]) -> Iterator[tuple[str, Symbol]]:
    """Yield each name of a size or stride with its replacement; a name that several share gets the first's."""
    seen = set()
    for arrangement, stem in zip(arrangements, stems, strict=True):
        source = arrangement.source
        for suffix, sizes in (("size", source.sizes), ("stride", source.strides)):
            for d, symbol in enumerate(sizes):
                old, end = str(symbol), f"_{suffix}_{d}"
                is_own = old.endswith(end) and old.removesuffix(end).rstrip("_") == source.name.rstrip("_")
                if isinstance(symbol, Symbol) and is_own and old not in seen:
                    seen.add(old)
                    yield old, symbol.renamed(f"{stem}{end}")


def _stems(arrangements: Iterable[Arrangement], names: tuple[str, ...]) -> list[str]:
    """Return the parameters' names, with underscores after those whose sizes would clash with another name."""
    stems: list[str] = []
    for arrangement, name in zip(arrangements, names, strict=True):
        dims, stem, others = range(arrangement.source.ndim), name, {*names, *stems} - {name}
        while stem in others or any(f"{stem}_{suffix}_{d}" in names for suffix in ("size", "stride") for d in dims):
            stem += "_"
        stems.append(stem)
    return stems


def _symbols(name: str, parameters: tuple[KernelParameter, ...]) -> dict[str, Symbol]:
    """Return the constexpr and meta symbols of all arrangements; raise for other free names, which get no value."""
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
                    f"kernel {name!r}: the arrangement of {parameter.name!r} uses {symbol_name!r}, which is no size of"
                    " a parameter and is marked neither constexpr=True nor meta=True, so it never gets a value"
                )
            symbols[symbol_name] = symbol
    return symbols


def _check_outermost(definition: KernelDefinition) -> None:
    """Check that outermost shapes agree where they are numbers; each call checks the others."""
    known = [
        (parameter.name, tuple(size for size in parameter.outermost if size != 1))
        for parameter in definition.parameters
        if all(isinstance(size, int) for size in parameter.outermost) and parameter.source.ndim
    ]
    for (first, expected), (name, shape) in zip(known, known[1:], strict=False):
        if shape != expected:
            raise ArrangementError(
                f"kernel {definition.name!r}: outermost shapes must agree, but {first!r} has {expected} and {name!r}"
                f" has {shape} (dimensions of size 1 dropped); rearrange one of them, for example with `expand`"
            )
