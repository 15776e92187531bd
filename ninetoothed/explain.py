"""Show what a call runs, without running it: the Triton source, and how it came about."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import ArgumentTypeError
from ninetoothed.passes.report import show, texts
from ninetoothed.runtime import summary
from ninetoothed.runtime.compilation.compile import write_module
from ninetoothed.runtime.dispatch import Launcher, launcher_of
from ninetoothed.runtime.executable import lowered
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.selection.pattern import AttentionPattern, ProductPattern, pattern_of
from ninetoothed.runtime.variants import Selection
from ninetoothed.schedule import Schedule
from ninetoothed.specialisation import ArgumentClass, Specialisation
from ninetoothed.visualization.notebook import source_html
from ninetoothed.wording import reworded

# The lines of a change that `explain` shows.
_LONGEST_CHANGE = 80
_LEGEND = """In a program, `program_0` counts along dimension 0 of the grid, `lane_0` along dimension 0 of a tile, and
`f32[n of 64]` is a tile of n elements in 64 lanes. `load ... where a < n else 0.0` reads 0.0 where the condition fails,
`store ... where` writes nothing there. The pass overhang leaves out what is `(overhang past it)`."""


class KernelSource(str):
    """The Triton source of a call, under a comment that tells the configuration and the GPU.

    text: the source without that comment. configuration: what was chosen, such as `.blocks` and `.num_warps`. gpu: the
    `Machine` that it is for.
    """

    text: str
    configuration: Schedule
    gpu: machine.Machine
    _names: Mapping[str, str] | None

    def __new__(
        cls, text: str, configuration: Schedule, gpu: machine.Machine, names: Mapping[str, str] | None = None
    ) -> KernelSource:
        source = super().__new__(cls, f"# {reworded(str(configuration), names or {})} for {gpu}\n{text}")
        source._names = names
        source.text, source.configuration, source.gpu = text, configuration, gpu
        return source

    def __reduce__(self) -> tuple[Any, ...]:
        return KernelSource, (self.text, self.configuration, self.gpu, self._names)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return source_html(str(self))


class Explanation(str):
    """A text that a console shows as it is."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def source(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], gpu: Any = None) -> KernelSource:
    """Return the Triton source of a call: for the GPU given, else the present one, else an H200.

    `gpu` is a `Machine` or the name of one, such as "h100", and may stand among the keywords of the call.
    """
    kwargs = dict(kwargs)
    gpu = _gpu(kwargs.pop("gpu", None) if gpu is None else gpu)
    variant = launcher_of(kernel).trace(args, kwargs, gpu)
    text = lowered(variant)
    return KernelSource(text.emitted.source, text.schedule, gpu, kernel.definition.given_names)


def explain(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    """Return how a call is compiled; see `Kernel.explain`."""
    kwargs = dict(kwargs)
    gpu, is_long = _gpu(kwargs.pop("gpu", None)), kwargs.pop("passes", False)
    launcher = launcher_of(kernel)
    variant = launcher.trace(args, kwargs, gpu)
    text = lowered(variant)
    emitted, reports = text.emitted, (*variant.reports, *text.reports)
    if not is_long:
        told = "\n".join(summary.lines(launcher, variant.selection, text.schedule, reports[-1].program, gpu))
        return Explanation(
            reworded(f"kernel {kernel.definition.name} for {gpu}\n\n{told}\n", kernel.definition.given_names)
        )
    sections = {
        "specialisation": "\n".join(_known(kernel.definition, variant.selection.specialisation)),
        "schedule": "\n".join(_chosen(launcher, variant.selection, text.schedule, gpu)),
        "passes": f"{_LEGEND}\n\n{show(reports, _LONGEST_CHANGE, all_passes=False)}",
        "program": "\n".join(texts(reports)[-1]),
        "source": f"The Triton source is in {write_module(emitted.name, emitted.source)}",
    }
    head = f"kernel {kernel.definition.name} for {gpu}"
    parts = (f"{title}\n{textwrap.indent(text.rstrip(), '    ')}" for title, text in sections.items())
    return Explanation(reworded("\n\n".join((head, *parts)) + "\n", kernel.definition.given_names))


def _known(definition: KernelDefinition, specialisation: Specialisation) -> Iterator[str]:
    """Yield lines that tell the class of a call."""
    for parameter, argument in zip(definition.given, specialisation.arguments, strict=False):
        yield f"{parameter.name}: {_class(argument)}"
    numbers = ", ".join(f"{name} = {value}" for name, value in specialisation.numbers.items())
    yield from textwrap.wrap(f"known: {numbers or 'no size, stride or block'}", 110, subsequent_indent="    ")
    for multiple in (16, 8):
        names = [name for name, divisor in specialisation.divisors if divisor == multiple]
        if names:
            told = f"multiples of {multiple}: {', '.join(names)}"
            yield from textwrap.wrap(told, 110, subsequent_indent="    ")
    formulas = ((name, value) for name, value in specialisation.known if not isinstance(value, int))
    yield from (f"equal: {name} = {formula}" for name, formula in formulas)
    yield from (f"at most: {name} <= {bound}" for name, bound in specialisation.bounds)
    yield "Another call of this class runs the same code, whatever its other sizes and strides."


def _class(argument: ArgumentClass) -> str:
    if argument.role == "constant":
        return f"the constant {argument.value!r}"
    if argument.role == "absent":
        return "never touched"
    wide = ", 64-bit offsets" if argument.wide else ""
    unaligned = ", its address no multiple of 16" if not argument.aligned else ""
    return f"a {argument.role} of {argument.dtype}{wide}{unaligned}"


def _chosen(launcher: Launcher, selection: Selection, applied: Schedule, gpu: machine.Machine) -> Iterator[str]:
    """Yield lines that tell the schedule, as far as the passes could apply it, and why it was chosen."""
    yield str(applied)
    chosen = selection.schedule
    if (applied.sharing, applied.overlaps) != (chosen.sharing, chosen.overlaps):
        yield f"Asked for was {chosen}, of which passes below are not applied: the program has no such form."
    yield f"{_work(launcher.definition, selection)}, over a grid of {' x '.join(map(str, selection.grid)) or 'one'}."
    ranked, is_measured = launcher.ranked(selection)
    if is_measured:
        yield f"Measuring chose it among {len(ranked)} that fit these sizes."
    elif len(ranked) > 1:
        yield f"The formula for the {gpu.name} ranks it first of {len(ranked)} that fit these sizes."
    else:
        yield f"The formula for the {gpu.name} has only this one for such sizes, types and options."


def _work(definition: KernelDefinition, selection: Selection) -> str:
    values = {**selection.values, **selection.schedule.blocks}
    match pattern_of(definition, selection.specialisation):
        case ProductPattern(rows=rows, columns=columns, depth=depth):
            tile = " x ".join(str(values[name]) for name in (rows, columns, depth))
            return f"The arrangement is that of a matrix product, in tiles of {tile} (rows, columns, depth)"
        case AttentionPattern(rows=rows, keys=keys):
            return f"The arrangement is that of an attention: {values[rows]} queries, {values[keys]} keys a step"
    return "The work is done element by element, or a row at a time"


def _gpu(asked: Any) -> machine.Machine:
    gpu = machine.named(asked) if isinstance(asked, str) else asked
    if gpu is None:
        gpu = machine.current() or machine.H200
    if not isinstance(gpu, machine.Machine):
        raise ArgumentTypeError(
            f'`gpu` is given {gpu!r}; pass a name, such as "H200", or a `ninetoothed.runtime.selection.machine.Machine`'
        )
    return gpu
