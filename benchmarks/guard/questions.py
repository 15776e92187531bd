"""Ask what the compiler makes of a call, as texts that two processes write alike.

`ask` uses what `kernel.source` and `kernel.explain` use. Where an older tree has it under another name, only the public
`kernel.source` is asked, and `unasked` says so.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

KINDS = ("error", "text", "picks", "launch")
_SHIPPED = re.compile(r"(<tree>/ninetoothed_ops/[\w/]+\.py)(:\d+)+")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
_NUMBERED = re.compile(r"\bninetoothed_(tensor|block_size)_\d+")


def ask(kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], gpu: str) -> dict[str, Any]:
    """`text`, `picks` and `launch` of a call; `variant` is what it is remembered by."""
    from ninetoothed.runtime import dispatch, executable
    from ninetoothed.runtime.selection import machine

    variant = dispatch.launcher_of(kernel).trace(args, dict(kwargs), machine.named(gpu))
    lowered = executable.lowered(variant)
    answers = {
        "text": lowered.emitted.source,
        "picks": "\n".join(picks(lowered.schedule)),
        "launch": "\n".join(
            (*_launch(variant, lowered.emitted, lowered.schedule), *_sharing_memory(kernel.definition, variant, gpu))
        ),
    }
    blocks = lowered.schedule.blocks
    return {**{kind: renamed(text, blocks) for kind, text in answers.items()}, "variant": variant_key(variant)}


def ask_publicly(kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], gpu: str) -> dict[str, Any]:
    """The text and the picks of a call, by `kernel.source` alone."""
    source = kernel.source(*args, **kwargs, gpu=gpu)
    blocks = dict(source.configuration.meta)
    found = {"text": source.text, "picks": "\n".join(picks(source.configuration))}
    return {kind: renamed(text, blocks) for kind, text in found.items()}


def variant_key(variant: Any) -> Any:
    """What a variant is remembered by; calls with equal keys compile once."""
    selection = variant.selection
    constants = tuple(repr(argument.value) for argument in selection.specialisation.arguments)
    return selection.specialisation, selection.schedule, constants, variant.precision


def picks(schedule: Any) -> Iterator[str]:
    """Yield the schedule, as the passes could apply it."""
    yield from _lines("", schedule)


def _launch(variant: Any, emitted: Any, applied: Any) -> Iterator[str]:
    """Yield what a launch passes and must know, and what a call must satisfy."""
    for argument in emitted.arguments:
        yield "argument " + ", ".join(f"{name} {plain(each)}" for name, each in _fields(argument))
    yield from _lines("", emitted, without=("source", "arguments"))
    selection = variant.selection
    chosen = dict(_fields(selection.schedule))
    yield from (
        f"asked for {name}: {plain(value)}" for name, value in chosen.items() if value != getattr(applied, name)
    )
    yield f"grid of tiles: {plain(selection.grid)}"
    yield f"programs: {plain(emitted.programs(selection.values, selection.schedule.programs))}"
    yield f"stored: {plain(variant.stored)}"
    yield f"touched: {plain(variant.touched)}"
    yield f"precision: {plain(variant.precision)}"
    for requirement in variant.program.requirements:
        yield f"requires {requirement.left} == {requirement.right}: {requirement.message} {plain(requirement.location)}"
    blocks = selection.schedule.blocks
    for name, each in _fields(selection.specialisation):
        # What is known is sorted by name, of which those of blocks are others in another process.
        told = [renamed(plain(item), blocks) for item in each] if isinstance(each, tuple) else [plain(each)]
        yield from (f"class {name}: {line}" for line in (told if name == "arguments" else sorted(told)))
    for free in variant.program.free_names:
        # Where it was found is a namespace, and what is no number is another object in each process.
        told = plain(free.value) if isinstance(free.value, int | float | str | None) else type(free.value).__name__
        yield f"free name {free.name}: {told}"


def _sharing_memory(definition: Any, variant: Any, gpu: str) -> Iterator[str]:
    """Yield which tensors may be the same memory, and which questions about races each call is asked.

    Answering takes as long as the rest, and is the same for every GPU where blocks are: one is asked.
    """
    from ninetoothed.runtime import aliasing

    for question in () if variant.program.footprints is None else variant.program.footprints.questions:
        yield f"asks whether programs race for {question.parameter}"
    if gpu != "H100":
        return
    names = [parameter.name for parameter in definition.parameters]
    for pair in aliasing.pairs(definition, variant, variant.selection.values):
        place = "may" if pair.may_be_in_place else "may not"
        yield f"{names[pair.output]} and {names[pair.other]} {place} be the same memory"


def _lines(head: str, value: Any, without: tuple[str, ...] = ()) -> Iterator[str]:
    yield from (f"{head}{name}: {plain(each)}" for name, each in _fields(value) if name not in without)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    yield from ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))


def plain(value: Any) -> str:
    """Write a value so that it is the same in every process: sets in order, no addresses."""
    match value:
        case set() | frozenset():
            return "{" + ", ".join(sorted(map(plain, value))) + "}"
        case dict():
            return "{" + ", ".join(f"{plain(key)}: {plain(each)}" for key, each in value.items()) + "}"
        case tuple() | list():
            return "(" + ", ".join(map(plain, value)) + ")"
        case str() | int() | float() | bool() | None:
            return str(value)
        case torch.Tensor():
            return f"tensor {value.dtype}{list(value.shape)}"
    # Schedules are printed without what is usual, which is to be seen here.
    if type(value).__str__ is not object.__str__ and not type(value).__module__.endswith(".schedule"):
        return tidy(str(value))
    if dataclasses.is_dataclass(value) and value.__dataclass_params__.repr:
        inner = ", ".join(f"{name}={plain(each)}" for name, each in _fields(value))
        return f"{type(value).__name__}({inner})"
    return tidy(repr(value))


def tidy(text: str, roots: Iterable[str] = ()) -> str:
    """Leave out of a text what differs from process to process, and lines of our kernels, which a comment moves.

    Numbered names are numbered in the order in which they stand there.
    """
    for root in roots:
        text = text.replace(root, "<tree>")
    text = _SHIPPED.sub(r"\1", text)
    numbers: dict[str, str] = {}
    text = _NUMBERED.sub(lambda found: numbers.setdefault(found[0], f"{found[1]}_#{len(numbers)}"), text)
    return _ADDRESS.sub("0x...", text)


def renamed(text: str, blocks: Mapping[str, int]) -> str:
    """Number block sizes in the order in which the kernel has them: their own numbers count all that were ever made."""
    names = {name: f"block_{number}" for number, name in enumerate(blocks)}
    return _NUMBERED.sub(lambda found: names.get(found[0], found[0]), text)
