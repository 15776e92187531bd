"""Record the programs of the corpus with the packages that are on the path: `...recorder PATH [--quick]`."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
import json
import os
import pathlib
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import questions
from .census import Census
from .corpus import PARTS, Attempt, Call, Program

GPUS = ("A100", "H100", "H200", "B200")
QUICK_GPUS = ("A100", "H100")
# Like an H100 but for its memory: asked of what is shipped alone.
ALIKE = "H200"
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Recorder:
    """Ask about programs, one after another.

    unasked: what this tree cannot be asked, and why. results: of each program by target (`cpu` or a GPU) and kind.
    """

    def __init__(self, quick: bool, only: tuple[str, ...] = (), reverse: bool = False, census: Census | None = None):
        self.quick, self.reverse = quick, reverse
        self.gpus = QUICK_GPUS if quick else GPUS
        self.parts = [part for part in PARTS if not only or part.__name__ in only][:: -1 if reverse else 1]
        self.unasked: dict[str, str] = {}
        self.results: dict[str, dict[str, dict[str, Any]]] = {}
        self.counts: dict[str, dict[str, int]] = {}
        self.seconds: dict[str, float] = {}
        self.roots = [str(ROOT)]
        self.census = census
        self.ask: Callable[..., dict[str, Any]] = census or questions.ask

    def run(self) -> dict[str, Any]:
        import ninetoothed

        self.roots.append(str(pathlib.Path(ninetoothed.__file__).resolve().parents[1]))
        stand_in_for_missing_kernels(pathlib.Path(self.roots[-1]))
        if self.census is None:
            self.probe()
        for part in self.parts:
            self.part(part)
        return {
            "programs": self.results,
            "variants": self.counts,
            "unasked": self.unasked | (self.census.watch.missing if self.census else {}),
            "seconds": self.seconds,
            "watched": self.census.watch.watched if self.census else [],
        }

    def probe(self) -> None:
        """Find out by one program whether internals are as this working tree knows them."""
        import ninetoothed
        from ninetoothed import Tensor

        def arrangement(x, y):
            return x.tile((64,)), y.tile((64,))

        def double(x, y):
            y = x + x

        kernel = ninetoothed.make(arrangement, double, (Tensor(1), Tensor(1)))
        try:
            questions.ask(kernel, (torch.empty(100), torch.empty(100)), {}, "H100")
        except Exception as error:
            self.ask = questions.ask_publicly
            self.unasked["launch, variants"] = self.said(error)

    def part(self, part: Callable[[bool], Iterator[Program]]) -> None:
        start, groups = time.process_time(), {}
        try:
            for program in part(self.quick):
                if isinstance(program, Call):
                    groups.setdefault(program.group or program.name, {}).setdefault(program.name, program)
                else:
                    self.results[program.name] = {"cpu": self.attempted(program)}
        except Exception as error:
            self.unasked[f"part {part.__name__}"] = self.said(error)
        listed = list(groups.items())
        for group, calls in listed[:: -1 if self.reverse else 1]:
            self.group(group, list(calls.values()))
        self.seconds[part.__name__] = round(time.process_time() - start, 1)

    def group(self, group: str, calls: list[Call]) -> None:
        """Ask about the calls of one kernel, each as the first one, and count the variants of all of them together."""
        counts: dict[str, int] = {}
        for gpu in (gpu for gpu in self.gpus if gpu != ALIKE or calls[0].is_shipped):
            keys = set()
            for call in calls:
                if call.is_told:
                    answer = self.told(call, gpu)
                    keys.add(answer.pop("variant", None))
                    self.results.setdefault(call.name, {})[gpu] = answer
            keys.discard(None)
            if len(calls) > 1 and all(call.is_told for call in calls) and keys:
                counts[gpu] = len(keys)
        if calls[0].is_run and self.census is None:
            self.run_on_cpu(calls, counts)
        elif calls[0].is_run:
            self.results[calls[0].name]["cpu"] = self.told(calls[0], None)
        if counts:
            self.counts[group] = counts

    def told(self, call: Call, gpu: str | None) -> dict[str, Any]:
        """All answers about a call, of a kernel that has not been called, or the error."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answer = self.ask(fresh(call.kernel), call.args, call.kwargs, gpu)
            except Exception as error:
                return {"error": self.said(error)}
        return {kind: self.tidy(value) if isinstance(value, str) else value for kind, value in answer.items()}

    def run_on_cpu(self, calls: list[Call], counts: dict[str, int]) -> None:
        """Run calls one after another; note the numbers they give, or errors, and how many variants they took."""
        kernel = fresh(calls[0].kernel)
        for call in calls:
            answer: dict[str, Any] = {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    kernel(*call.args, **call.kwargs)
                except Exception as error:
                    answer["error"] = self.said(error)
                else:
                    answer["numbers"] = numbers(call.args)
            self.results.setdefault(call.name, {})["cpu"] = answer
        try:
            from ninetoothed.runtime.dispatch import launcher_of

            counts["cpu"] = len(launcher_of(kernel).variants)
        except Exception as error:
            self.unasked["variants on the CPU"] = self.said(error)

    def attempted(self, attempt: Attempt) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                attempt.run()
            except Exception as error:
                return {"error": self.said(error)}
        return {}

    def said(self, error: BaseException) -> str:
        return self.tidy(f"{type(error).__name__}: {error}")

    def tidy(self, text: str) -> str:
        return questions.tidy(text, self.roots)


def fresh(kernel: Any) -> Any:
    """A kernel of the same definition that has not been called."""
    return type(kernel)(kernel.definition)


def numbers(args: tuple[Any, ...]) -> str:
    """A digest of what tensors hold; all NaN are one."""
    digest = hashlib.sha256()
    for value in args:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.device.type == "cpu":
            own = torch.empty(value.shape, dtype=value.dtype).copy_(value.detach())
            if own.is_floating_point():
                own = torch.where(own.isnan(), torch.full_like(own, float("nan")), own)
            digest.update(own.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def stand_in_for_missing_kernels(tree: pathlib.Path) -> None:
    """Let the corpus import kernels that the packages under test do not have: calls of them are left out."""
    here = {path.stem for path in (ROOT / "ninetoothed_ops" / "kernels").glob("*.py")}
    there = {path.stem for path in (tree / "ninetoothed_ops" / "kernels").glob("*.py")}
    if here - there:
        folder = importlib.import_module("ninetoothed_ops.kernels")
        for name in here - there:
            module = types.ModuleType(f"ninetoothed_ops.kernels.{name}")
            sys.modules[module.__name__] = module
            setattr(folder, name, module)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", action="append", default=[])
    parser.add_argument("--census", action="store_true", help="count what applies, instead")
    parser.add_argument("--reverse", action="store_true", help="the programs in another order, which changes nothing")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    record = Recorder(options.quick, tuple(options.part), options.reverse, Census() if options.census else None).run()
    text = json.dumps(record, sort_keys=True)
    temporary = options.path.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(gzip.compress(text.encode(), 3, mtime=0))
    temporary.replace(options.path)


if __name__ == "__main__":
    main()
