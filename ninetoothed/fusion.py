"""Fuse two kernels into one, decided from their arrangements: tiles that the first stores are those the second loads.

    mm:    input[i, :], other[:, j] -> output[i, j]
    silu:                               input[i, j] -> output[i, j]
->         input[i, :], other[:, j] ------------------> output[i, j]     the product stays in registers
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed import dtypes
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.arrangement.unification import Difference, unify
from ninetoothed.arrangement.value import Size
from ninetoothed.definition import KernelDefinition, KernelParameter
from ninetoothed.dtypes import DType
from ninetoothed.errors import ArgumentTypeError, FusionError, shortens_tracebacks
from ninetoothed.frontend import between, preview
from ninetoothed.frontend.parse import assigned_names, parse_application
from ninetoothed.integrate import KernelOptions, integrate, renamed
from ninetoothed.make import Kernel
from ninetoothed.wording import in_users_names, near, unused

# What comes before the names of tensors while two kernels become one, so that those of one are not those of the other.
_FIRST, _SECOND = "ninetoothed_first", "ninetoothed_second"


@shortens_tracebacks
def fuse(
    first: Kernel,
    second: Kernel,
    through: Mapping[str, str] | None = None,
    *,
    keep: Iterable[str] = (),
    kernel_name: str | None = None,
) -> Kernel:
    """Fuse two kernels: do what `second` does with each tile that `first` computes, in one launch.

    first, second: kernels of `make` or `jit`.
    through: which parameters of `second` are which outputs of `first`, `{"input": "output"}`; by default the first
        parameter of `second` is the last one of `first`.
    keep: the outputs among these that are stored, too: last, so that what `second` reads need not wait for it, where
        `first` assigns them before all else and both use no more of them than the tile. The others are no parameters of
        the fused kernel: their tiles stay in registers.
    kernel_name: by default both names, joined by an underscore.

    The parameters of the result are those of `first`, then those of `second`, without what goes `through` and is not
    kept. A name that both have gets the name of `second` before it: `add_other`. Parameters that are kept, or that
    `second` stores, must not share memory with others, unless each program reads of them just the tile that it writes;
    that is read before it is written.

    The result is that of one kernel after the other, with a tensor between them: what `first` assigns is broadcast to
    its tile and rounded to its type. That is the type of the tensor that is kept, else the `dtype` given to
    `Tensor(...)` in either kernel; else that of the first parameter of the highest kind (floats before integers before
    bools) among those that are arranged alike, those that are stored before the others, `second` before `first`.

    The pair is decided from the arrangements alone: both must cut the tensor between them into the same tiles, for the
    same programs. Block sizes that the compiler chooses (`block_size()`) become equal where that makes them fit, within
    the bounds given to either.

    Raises `FusionError` (a `ValueError`) where the arrangements do not fit, with the dimension, or where an application
    uses more of the tensor between the two than its tile.

    >>> import torch, ninetoothed
    >>> from ninetoothed import Tensor, block_size
    >>> BLOCK, OTHER_BLOCK = block_size(), block_size()
    >>> @ninetoothed.jit
    ... def double(x: Tensor(1).tile((BLOCK,)), y: Tensor(1).tile((BLOCK,))):
    ...     y = 2 * x
    >>> @ninetoothed.jit
    ... def increment(x: Tensor(1).tile((OTHER_BLOCK,)), y: Tensor(1).tile((OTHER_BLOCK,))):
    ...     y = x + 1
    >>> both = ninetoothed.fuse(double, increment)
    >>> both
    <kernel double_increment(x, y)>
    >>> y = torch.empty(3)
    >>> both(torch.arange(3), y)
    >>> y
    tensor([1., 3., 5.])
    """
    for kernel in (first, second):
        if not isinstance(kernel, Kernel):
            raise ArgumentTypeError(f"`fuse` takes two kernels that `make` or `jit` has made, and got {kernel!r}")
    names = {**second.definition.given_names, **first.definition.given_names}
    try:
        definitions = first.definition.as_given(), second.definition.as_given()
        fused = _Fusion.of(*definitions, through, frozenset(keep))
        return Kernel(replace(fused.integrated(kernel_name), given_names=names))
    except FusionError as error:
        told = str(error).replace(f"{_FIRST}_", "").replace(f"{_SECOND}_", "")
        pair = f"cannot fuse kernel {first.definition.name!r} with {second.definition.name!r}"
        raise in_users_names(FusionError(f"{pair}: {told}"), names) from None


@dataclass(frozen=True)
class _Link:
    """A tensor between the two kernels: the position of the first's output, and of the second's parameter."""

    output: int
    input: int


@dataclass(frozen=True)
class _Fusion:
    """Two kernels whose sources have names apart, what links them, and the symbols that became others.

    models: for each output whose tile stays in registers the fused kernel's parameters that are arranged like it.
    dtypes: the types of these that were given, by the same positions.
    late: the outputs that are kept, and stored only when `second` is done, so that what it reads need not wait.
    """

    first: KernelDefinition
    second: KernelDefinition
    links: tuple[_Link, ...]
    kept: frozenset[int]
    names: tuple[dict[int, str], dict[int, str]]
    models: dict[int, tuple[str, ...]]
    dtypes: dict[int, DType | None]
    values: dict[str, Size]
    late: frozenset[int]

    @classmethod
    def of(
        cls, first: KernelDefinition, second: KernelDefinition, through: Mapping[str, str] | None, keep: frozenset[str]
    ) -> _Fusion:
        links = tuple(_links(first, second, through))
        kept = frozenset(link.output for link in links if first.parameters[link.output].name in keep)
        unlinked = keep - {first.parameters[link.output].name for link in links}
        if unlinked:
            raise _error(f"{min(unlinked)!r} is kept and goes nowhere", "keep what goes `through` alone")
        for link in links:
            _check_uses(first, second, link, link.output in kept)
        names = _names(first, second, links, kept)
        late = frozenset(link.output for link in links if link.output in kept and _is_a_tile(first, second, link))
        given = {link.output: _given_dtype(first, second, links, link.output) for link in links}
        first, second = _apart(first, _FIRST), _apart(second, _SECOND)
        fusion = cls(first, second, links, kept, names, {i: (names[0][i],) for i in late}, given, {}, late)
        for link in links:
            fusion = fusion._unified(link)
        for link in links:
            fusion = fusion._modelled(link)
        return fusion

    def _unified(self, link: _Link) -> _Fusion:
        """Make block sizes equal where that makes the two arrangements of a link so; raise where none does."""
        output, input = self.first.parameters[link.output], self.second.parameters[link.input]
        blocks = frozenset({*self.first.meta_symbols, *self.second.meta_symbols})
        values = unify(output.arrangement, input.arrangement, blocks, self.values)
        if isinstance(values, Difference):
            what = values.told(repr(output.name), repr(input.name))
            raise _error(what, "arrange both alike, with blocks of `block_size()`")
        return replace(self, values=values)

    def _modelled(self, link: _Link) -> _Fusion:
        """Find parameters that stay and are arranged like an output that does not: they tell its sizes in a call."""
        if link.output in self.kept or link.output in self.models:
            return self
        output, known = self.first.parameters[link.output], self.values
        models: tuple[str, ...] = ()
        for names, position, parameter in self._staying():
            if parameter.source.ndim != output.source.ndim or parameter.source.jagged_dim != output.source.jagged_dim:
                continue
            values = unify(parameter.arrangement, output.arrangement, frozenset(), known)
            if not isinstance(values, Difference):
                models, known = (*models, names[position]), values if not models else known
        if models:
            return replace(self, models={**self.models, link.output: models}, values=known)
        raise _error(
            f"no parameter that stays is arranged like {output.name!r}, so that a call would tell its sizes",
            f"store it, too, by `keep=({output.name!r},)`",
        )

    def _staying(self) -> Iterator[tuple[dict[int, str], int, KernelParameter]]:
        """Yield the fused kernel's parameters, those first that an application stores: they are there in every call."""
        sides = ((self.names[1], self.second), (self.names[0], self.first))
        found = [
            (names, i, definition.parameters[i], definition.parameters[i].name in stored)
            for names, definition in sides
            for stored in [assigned_names(parse_application(definition.application).tree)]
            for i in names
        ]
        yield from (each[:3] for each in sorted(found, key=lambda each: not each[3]))

    def integrated(self, name: str | None) -> KernelDefinition:
        """Return the definition of the fused kernel."""
        first, second = self.first, self.second
        name = f"{first.name}_{second.name}" if name is None else name
        arranged = tuple(
            Tensor.of(definition.parameters[i].arrangement.subs(self.values))
            for names, definition in zip(self.names, (first, second), strict=True)
            for i in names
        )
        options = KernelOptions(
            name,
            first.num_warps or second.num_warps,
            first.num_stages or second.num_stages,
            first.max_num_configs or second.max_num_configs,
            first.tune or second.tune,
        )
        return integrate(arranged, self._application(name), options)

    def _application(self, name: str) -> Any:
        """Write the fused application and return the function; errors in it show its text, which `linecache` keeps."""
        parameters = [*self.names[0].values(), *self.names[1].values()]
        inputs = {link.output: self.second.parameters[link.input] for link in self.links}
        inner: dict[str, Any] = {"first": self.first.application, "second": self.second.application}
        inner |= {"hold": between.hold, "pass_on": between.pass_on}
        inner |= {f"type_{output}": dtype for output, dtype in self.dtypes.items()}
        inner |= {f"other_{output}": input.source.other for output, input in inputs.items()}
        called = {key: unused(key, parameters) for key in inner}
        tiles = {output: unused(f"tile_{output}", parameters) for output in self.models}
        linked = {link.input: link.output for link in self.links}
        before = [tiles.get(i) or self.names[0][i] for i in range(len(self.first.parameters))]
        after = [self.names[1].get(i) or before[linked[i]] for i in range(len(self.second.parameters))]
        lines = [f"def fused({', '.join(parameters)}):"]
        for output, models in self.models.items():
            dtype = f"{models[0]}.dtype" if output in self.late else called[f"type_{output}"]
            held = (tiles[output], repr(self.first.parameters[output].name), dtype, *models)
            lines += [f"    {tiles[output]} = None", f"    {called['hold']}({', '.join(held)})"]
        lines.append(f"    {called['first']}({', '.join(before)})")
        lines += [f"    {called['pass_on']}({before[i]}, {called[f'other_{i}']})" for i in inputs]
        lines.append(f"    {called['second']}({', '.join(after)})")
        lines += [f"    {self.names[0][i]} = {tiles[i]}" for i in sorted(self.late)]
        file = _kept_text(name, "".join(f"{line}\n" for line in lines))
        scope = {"__name__": "fused", **{called[key]: value for key, value in inner.items()}}
        exec(compile("\n".join(lines), file, "exec"), scope)
        return scope["fused"]


def _kept_text(name: str, text: str) -> str:
    """Let `linecache` keep a text, as a notebook's cells, and return the name of its file, one for each text."""
    file = f"<ninetoothed.fuse: {name}>"
    while file in linecache.cache and "".join(linecache.getlines(file)) != text:
        file += "'"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return file


# -- which parameters are linked, and what they are called ------------------------------------------------------------


def _links(first: KernelDefinition, second: KernelDefinition, through: Mapping[str, str] | None) -> Iterator[_Link]:
    """Yield the links that `through` names."""
    if through is None:
        through = (
            {second.parameters[0].name: first.parameters[-1].name} if first.parameters and second.parameters else {}
        )
    if not isinstance(through, Mapping) or not through:
        raise _error(f"`through` is {through!r}", 'write for example `through={"input": "output"}`')
    for name, output in through.items():
        link = _Link(_position(first, output), _position(second, name))
        if not (first.parameters[link.output].source.ndim and second.parameters[link.input].source.ndim):
            raise _error(f"{output!r} and {name!r} are no tensors of tiles both", "link tensors")
        yield link


def _position(owner: KernelDefinition, name: Any) -> int:
    names = [parameter.name for parameter in owner.parameters]
    if name not in names:
        hint = near(str(name), names) or f"it has {', '.join(names)}"
        raise _error(f"kernel {owner.name!r} has no parameter {name!r}", hint)
    return names.index(name)


def _names(
    first: KernelDefinition, second: KernelDefinition, links: Iterable[_Link], kept: frozenset[int]
) -> tuple[dict[int, str], dict[int, str]]:
    """Name the parameters that stay, by their positions in the first kernel and in the second."""
    dropped = {link.output for link in links} - kept
    before = {i: p.name for i, p in enumerate(first.parameters) if i not in dropped}
    after: dict[int, str] = {}
    for i, parameter in enumerate(second.parameters):
        if not any(link.input == i for link in links):
            taken = [*before.values(), *after.values()]
            name = f"{second.name}_{parameter.name}" if parameter.name in taken else parameter.name
            after[i] = unused(name, taken)
    return before, after


def _apart(definition: KernelDefinition, prefix: str) -> KernelDefinition:
    """Give a kernel's sources and their sizes names that the other kernel does not have."""
    own, names = definition.parameters, [f"{prefix}_{parameter.name}" for parameter in definition.parameters]
    arrangements = renamed([parameter.arrangement for parameter in own], names)
    parameters = (replace(each, arrangement=new) for each, new in zip(own, arrangements, strict=True))
    return replace(definition, parameters=tuple(parameters))


# -- what the applications do with the tensor between them ------------------------------------------------------------


def _check_uses(first: KernelDefinition, second: KernelDefinition, link: _Link, is_kept: bool) -> None:
    """Raise where an application uses more of the tensor between the two kernels than a tile: its source, say."""
    output, input = first.parameters[link.output], second.parameters[link.input]
    if output.source.jagged_dim != input.source.jagged_dim:
        found = (f"{each.name!r} has jagged_dim={each.source.jagged_dim}" for each in (output, input))
        raise _error(" and ".join(found), "give one tensor the same in both kernels")
    if len(output.arrangement.levels) > 2:
        what = f"{output.name!r} is stored tile by tile (it has {len(output.arrangement.levels)} levels)"
        raise _error(what, "arrange it so that a program stores one tile of it")
    if not output.touched:
        raise _error(f"kernel {first.name!r} never stores {output.name!r}", "link an output")
    if is_kept:
        if repr(output.source.other) != repr(input.source.other):
            what = f"{output.name!r} has other={output.source.other!r} and {input.name!r} other={input.source.other!r}"
            raise _error(what, "give a tensor that is kept one of them in both kernels")
        if preview.roams(second.application, input.name):
            what = (
                f"kernel {second.name!r} reads elements of {input.name!r} that other programs may still have to store"
            )
            raise _error(what, "call one kernel after the other")
        return
    if preview.reads_first(first.application, output.name):
        what = f"kernel {first.name!r} reads what {output.name!r} held before it assigns it, and no call passes that"
        raise _error(what, f"keep it: `keep=({output.name!r},)`")
    for definition, parameter in ((first, output), (second, input)):
        used = preview.uses_of_memory(definition.application, parameter.name)
        if used:
            what = f"kernel {definition.name!r} uses `{used}`, and {parameter.name!r} is in registers alone"
            raise _error(what, f"use another parameter's, or keep it: `keep=({output.name!r},)`")


def _is_a_tile(first: KernelDefinition, second: KernelDefinition, link: _Link) -> bool:
    """Tell whether an output is no more to both applications than a tile, which the first assigns in every call."""
    output, input = first.parameters[link.output].name, second.parameters[link.input].name
    uses = preview.uses_of_memory(first.application, output) or preview.uses_of_memory(second.application, input)
    return not uses and preview.assigns_first(first.application, output)


def _given_dtype(
    first: KernelDefinition, second: KernelDefinition, links: Iterable[_Link], output: int
) -> DType | None:
    """Return the type that a kernel gives to a tensor between the two; None where neither does."""
    tensors = [first.parameters[output], *(second.parameters[link.input] for link in links if link.output == output)]
    given = {each.name: dtypes.from_torch(each.source.dtype) for each in tensors if each.source.dtype is not None}
    if len({*given.values()} - {None}) > 1:
        what = " and ".join(f"{name!r} is of {dtype}" for name, dtype in given.items())
        raise _error(f"{what}, where one is the other", "give one `dtype`, or none")
    return next(filter(None, given.values()), None)


def _error(what: str, remedy: str) -> FusionError:
    return FusionError(f"{what}; {remedy}")
