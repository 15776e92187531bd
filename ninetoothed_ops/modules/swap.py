"""Swap: NineToothed's modules in the place of a model's own, and back.

A swap gives a module another class: it stays the same object, with the same parameters, buffers, hooks and attributes,
wherever it is referenced from. Two things are done to weights, which stay the same Parameters with the same values, and
are taken back by undoing: convolutions get theirs with channels last (conv2d.py), and `join` moves some (joint.py).
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from ninetoothed.errors import ArgumentTypeError, NineToothedError

from . import conv2d, decoder_layer
from .joint import JointProjection, join_all, separate
from .replacements import ON_REQUEST, REPLACEMENTS, RULES, Rule, requested
from .residual import unlink
from .rotary_module import NTRotary
from .share import TABLES, Share, of_flops, of_weights, own_parameters
from .substitute import kind_of, substitute

Filter = Callable[[nn.Module, str], bool]


class SwapError(NineToothedError, RuntimeError):
    """A swap that cannot be taken back as things are."""


class Row(NamedTuple):
    """One module of a report: swapped from `old` to `new`, or, where `new` is None, left alone for a `reason`.

    A module of which `new` computes a part alone has a reason, too. Its class is a subclass of both; see substitute.py.
    """

    name: str
    old: type[nn.Module]
    new: type[nn.Module] | None
    reason: str = ""


class Attribute(NamedTuple):
    """An attribute that a swap put on an instance."""

    module: nn.Module
    name: str
    value: Any

    def take_back(self) -> None:
        """Leave what was put there since."""
        if vars(self.module).get(self.name) is self.value:
            delattr(self.module, self.name)


@dataclass(frozen=True, repr=False, eq=False)
class SwapReport:
    """The outcome of `swap_modules`: iterates over rows `(name, old, new, reason)`, prints as a table, and can undo it.

    A report that is copied or pickled together with its model, as `(model, report)`, undoes the swap of the copy.
    """

    rows: tuple[Row, ...]
    modules: tuple[nn.Module, ...] = field(repr=False)
    repacked: tuple[str, ...] = ()
    joint: tuple[JointProjection, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    # What is said of steps of `generate`, beside why the last call replayed none.
    steps: str = ""
    # Modules that were ours before joining, which may link them, too.
    known: tuple[nn.Module, ...] = field(default=(), repr=False)
    # Of the elements of the model's weights, embeddings aside.
    share: Share = Share()
    # Of the floating-point operations of a forward's products, where one was counted.
    flops: Share = Share()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def swapped(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.new is not None)

    @property
    def skipped(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.new is None)

    def count_flops(self, model: nn.Module, *args: Any, **kwargs: Any) -> "SwapReport":
        """Call `model(*args, **kwargs)` once, and return the report with the share of its FLOPs in the first line.

        Counted are products, as `torch.utils.flop_counter.FlopCounterMode` counts them, attention's whole whatever its
        mask.

            print(swap_modules(model).count_flops(model, input_ids))
        """
        return replace(self, flops=of_flops(model, *args, **kwargs))

    def undo(self) -> None:
        """Give every module its class back, whatever its weights have become since; one that has it stays as it is.

        Weights that were joined get a memory of their own each, those that were repacked the strides that they had.

        Raises SwapError, and changes nothing, where a module has been given a third class in between, or a forward of
        its own, which may call that of the class it would lose.
        """
        swapped = [(row, module) for row, module in zip(self.rows, self.modules) if row.new is not None]
        pending = [(row, module) for row, module in swapped if type(module) is not row.old]
        hindrance = next(filter(None, (_hindrance(row, module) for row, module in pending)), None)
        if hindrance:
            raise SwapError(f"undo: {hindrance}, then call undo() again.")
        for row, module in pending:
            vars(module).pop("forward", None)
            module.__class__ = row.old
        for module in (*self.modules, *self.known, *(each.module for each in self.joint)):
            separate(module)
            unlink(module)
            conv2d.unpack(module)
        for each in self.attributes:
            each.take_back()
        _forget_compiled_code()

    def __repr__(self) -> str:
        """Print the share of the weights that runs on NineToothed, and a table.

        It has one line for modules that differ only in the number of their layer.
        """
        groups: dict[tuple[str, str, str], list[str]] = {}
        for row in self.rows:
            pattern = _pattern(row.name)
            reason = f"left alone: {row.reason}" if row.reason else ""
            outcome = reason if row.new is None else ", else ".join(filter(None, (row.new.__name__, reason)))
            groups.setdefault((pattern, row.old.__name__, outcome), []).append(_named(row))
        lines = [
            (names[0] if len(names) == 1 else pattern, str(len(names)), old, outcome)
            for (pattern, old, outcome), names in groups.items()
        ]
        table = [("module", "count", "was", "is now"), *lines]
        widths = [max(len(line[column]) for line in table) for column in range(3)]
        body = "\n".join(
            "  ".join((*(cell.ljust(width) for cell, width in zip(line, widths)), line[3])) for line in table
        )
        repacked = f"\n{len(self.repacked)} weights were given the strides of channels_last" if self.repacked else ""
        counts = f"{len(self.swapped)} swapped, {len(self.skipped)} left alone"
        if self.share.total:
            forward = f" and {self.flops} of the forward's FLOPs" if self.flops.total else ""
            counts += f"; {self.share} of the weights (embeddings aside){forward} run on NineToothed"
        return f"{counts}\n{body}{repacked}{self._joint_lines()}{self._step_lines()}"

    def _joint_lines(self) -> str:
        """Print a line for each number of modules whose projections are one product, or are not for one reason."""
        counts = Counter((_pattern(each.name), each.layers, each.reason) for each in self.joint)
        return "".join(
            f"\n{pattern}: {', '.join(layers)} of {count} "
            + (f"are left apart: {reason}" if reason else "are one product each, their weights joined in memory")
            for (pattern, layers, reason), count in counts.items()
        )

    def _step_lines(self) -> str:
        """Print whether `generate` may replay steps, and why the last call replayed none, or not all."""
        reasons = [getattr(each.value, "reason", "") for each in self.attributes]
        told = [self.steps, *(f"steps are not replayed: {reason}" for reason in reasons if reason)]
        return "".join(f"\ngenerate: {each}" for each in told if each)


def _pattern(name: str) -> str:
    """Write a module's name with a star for the number of its layer."""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def swap_modules(
    model: nn.Module,
    filter_fn: Filter | None = None,
    *,
    join: bool = False,
    replay: bool = False,
    loss: bool = False,
    also: Iterable[type[nn.Module]] = (),
) -> SwapReport:
    """Put NTLinear, NTConv2d, NTRMSNorm and their sisters in the place of a model's own modules, itself included.

    Only instances inside `model` change, and of them only the class and the strides of some weights of convolutions on
    a GPU: these are laid out once as `module.to(memory_format=torch.channels_last)` does, and results keep the layouts
    that they have without the swap. (PyTorch's fused optimisers refuse state that has other strides than its weight:
    swap before their first step.) `filter_fn(module, name)` says of each module that could be swapped whether it shall
    be. Modules that look like one of these and cannot be swapped are reported with the reason, and so is whatever else
    has weights of its own, embeddings and the model itself aside. Containers and modules that run on NineToothed
    already are not. The report's first line says which share of the weights runs on NineToothed; `count_flops` adds
    that of a forward's operations. A module that two models share is one module, and is swapped in both; one at several
    names goes by the first. Of attention that is not known otherwise, the rotary embedding alone is swapped, where it
    is known: it becomes an NTRotary.

    `join=True` also makes one product of the q, k and v projections of each NTAttention, and of gate and up of each
    gated MLP of transformers, which becomes an NTGatedMLP. For that their weights move into one memory: the Parameters
    stay the same objects, and are saved and loaded as before, but tensors outside the model that shared memory with
    them, and CUDA graphs captured before, keep the old one. It is off unless asked for, as these cannot be seen. The
    report says what was joined and what was not. It is one product in compiled code and where gradients are recorded,
    too. A layer computes its own, as without joining, with hooks or adapters on it, under autocast, under transforms of
    `torch.func`, and wherever its weights were moved or replaced since, as in copies of a model.
    Decoder layers become NTDecoderLayers, in which a residual sum and the norm behind it are one launch, and gated MLPs
    whose gate and up are one weight already NTFusedGatedMLPs, in which the activation and the product are.

    `replay=True` lets `generate` over a static cache on a GPU replay a CUDA graph for each step, where transformers
    would compile the model: the model gets functions of ours for its steps and their masks, until `undo()`. It is a
    contract: each step of a kind launches the same work on the same memory, and nobody changes the model within one
    call of `generate`. One step of each kind is checked, and modules, addresses, shapes and types at each step; what
    does not hold runs as it would without, and the report says why. Weights may be updated in place. Hooks, attributes,
    functions and settings that a callback changes between two steps of a call are not seen.

    `loss=True` lets models of transformers compute their loss without logits, in training with labels: they
    become NTCausalLMs, whose output has then no logits, unless they are called with `skip_logits=False`. Loss
    functions, `num_items_in_batch` and soft caps are theirs. The report says of each model that it is so, or why not.

    `also=[nn.BatchNorm2d, nn.Dropout]` swaps these classes, too, which are left alone unless they are named: batch
    norms, GroupNorm, Embedding, whose gradients have the same bits in each run, and Dropout, which keeps a seed where
    PyTorch keeps a mask, draws from the same generator, and draws other numbers: a seeded run is another one.

        report = swap_modules(model)
        print(report)
        report.undo()
    """
    if not isinstance(model, nn.Module):
        raise ArgumentTypeError(f"swap_modules: model must be a torch.nn.Module, and is a {type(model).__name__}.")
    integration = _integration(model)
    rules = (*requested(also), *(() if integration is None else integration.rules(model, join, loss)), *RULES)
    # Every decision before the first change: a filter_fn that raises leaves the model as it was.
    verdicts = ((_decide(module, name, rules, filter_fn), module) for name, module in model.named_modules())
    decisions = [(row, module) for row, module in verdicts if row is not None]
    known = tuple(module for module in model.modules() if join and isinstance(module, REPLACEMENTS))
    report = SwapReport(tuple(row for row, _ in decisions), tuple(module for _, module in decisions), known=known)
    classes = [(module, substitute(row.new, row.old)) for row, module in decisions if row.new is not None]
    for module, cls in classes:
        module.__class__ = cls
    repacked = conv2d.repack_all(model, {row.name: module for row, module in decisions if row.new is not None})
    report = replace(report, repacked=repacked)
    if join:
        report = replace(report, joint=join_all(model))
        decoder_layer.link_all(model)
    if integration is not None:
        found = tuple(Attribute(*each) for each in integration.attributes(model))
        if replay:
            steps = "" if found else "there is no model to replay steps of: none that generates runs on NineToothed"
            report = replace(report, attributes=found, steps=steps)
        elif found:
            report = replace(report, steps="over a static cache on a GPU, `replay=True` makes its steps faster")
        for module, name, value in report.attributes:
            setattr(module, name, value)
    _forget_compiled_code()
    # Of an NTRotary the rotation alone is ours.
    return replace(report, share=of_weights(model, REPLACEMENTS, NTRotary))


def _hindrance(row: Row, module: nn.Module) -> str | None:
    """Tell what stands in the way of giving a module its class back, and what to do about it."""
    assert row.new is not None, "a module that was swapped"
    if kind_of(module) is not row.new:
        return (
            f"{_named(row)} was {row.old.__name__}, was made {row.new.__name__}, and something has made it "
            f"{type(module).__name__} since. Take that back first (remove the parametrisation, unshard)"
        )
    forward = vars(module).get("forward")
    # Libraries that take back a patch leave the method of the class behind, which may go with the class.
    own = type(module).forward
    left_over = getattr(forward, "__self__", None) is module and getattr(forward, "__func__", None) is own
    if forward is None or left_over:
        return None
    return (
        f"the forward of {_named(row)} was patched on this instance since. Take that back first (remove the hook that "
        "did it, or delete the attribute)"
    )


def _forget_compiled_code() -> None:
    """Let compiled code be made anew: that of some releases does not notice that a module has another class."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


def _decide(module: nn.Module, name: str, rules: tuple[Rule, ...], filter_fn: Filter | None) -> Row | None:
    old = type(module)
    if isinstance(module, REPLACEMENTS) or _is_container(module):
        return None
    verdict = next((verdict for rule in rules if (verdict := rule(module)) is not None), None)
    # Of a model, its parts tell.
    is_part = bool(name) or not any(True for _ in module.children())
    verdict = _unmatched(module) if verdict is None and is_part else verdict
    if verdict is None:
        return None
    if isinstance(verdict, str):
        return Row(name, old, None, verdict)
    if filter_fn is not None and not filter_fn(module, name):
        return Row(name, old, None, "filter_fn said no")
    new, reason = verdict if isinstance(verdict, tuple) else (verdict, "")
    return Row(name, old, new, reason)


def _is_container(module: nn.Module) -> bool:
    """Tell whether a module has no weights and no forward but those of its parts."""
    is_bare = type(module).forward in (nn.Module.forward, nn.Sequential.forward)
    return is_bare and not any(True for _ in own_parameters(module))


def _unmatched(module: nn.Module) -> str | None:
    """Give the reason why a module with weights of its own stays, where no rule knows it; None for one with none.

    A table that is looked up and a container compute nothing. Parametrised weights belong to the module that uses them,
    not to the container that holds them for it.
    """
    if isinstance(module, (*TABLES, nn.ParameterList, nn.ParameterDict, ParametrizationList)):
        return None
    holders = [module, *(module.get_submodule("parametrizations").children() if is_parametrized(module) else ())]
    has_weights = any(True for holder in holders for _ in own_parameters(holder))
    if has_weights and type(module) in ON_REQUEST:
        return "swapped where `also` names it"
    return "NineToothed has no module for it" if has_weights else None


def _integration(model: nn.Module) -> Any:
    """Import what knows transformers, where the model has a module of its."""
    if "transformers" not in sys.modules or not any(map(_from_transformers, model.modules())):
        return None
    from ..integrations import names

    names.check("swap_modules")
    from ..integrations import transformers

    return transformers


def _from_transformers(module: nn.Module) -> bool:
    # Models with code of their own on the hub live in `transformers_modules`.
    packages = {base.__module__.partition(".")[0] for base in type(module).__mro__}
    return not packages.isdisjoint({"transformers", "transformers_modules"})


def _named(row: Row) -> str:
    return row.name or "the model itself"
