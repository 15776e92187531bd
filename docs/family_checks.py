"""Compare families of transformers on our attention with the same on eager attention, in small random models.

HF_HUB_OFFLINE=1 python -m docs.family_checks [--processes N] [FAMILY ...]
"""

import argparse
import contextlib
import copy
import dataclasses
import inspect
import json
import multiprocessing
import os
import pathlib
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any
from unittest import mock

import torch
import transformers

from docs.family_forms import Given
from docs.family_inputs import inputs
from docs.family_models import VARIANTS, WAYS_TO_SHRINK, families, real
from ninetoothed_ops.integrations import attention_interface
from ninetoothed_ops.integrations.attention_interface import NAME, register_attention
from ninetoothed_ops.integrations.recognition import looks_up

MASK = "attention_mask"
TOLERANCE = 1e-4
REGISTRY = "ALL_ATTENTION_FUNCTIONS"
# What is to be asked for where a model's part for images, or what is around it, looks up no attention by name.
IMPLEMENTATIONS: tuple[Any, ...] = (
    NAME,
    {**dict.fromkeys(("", "text_config", "vision_config"), NAME), "high_res_vision_config": "eager"},
    {"": NAME, "vision_config": "eager"},
    {"": "eager", "vision_config": NAME},
)
SECONDS = 240.0
GIGABYTES = 6


@dataclasses.dataclass
class Check:
    """Tell by class of attention how far what a model gives is from what it gives on eager attention."""

    family: str
    seconds: float = 0.0
    errors: dict[str, float] = dataclasses.field(default_factory=dict)
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    wrong: list[str] = dataclasses.field(default_factory=list)
    # Calls of which the family's own "eager" and "sdpa" differ, and ours is as the latter.
    apart: list[str] = dataclasses.field(default_factory=list)
    called: list[str] = dataclasses.field(default_factory=list)


def check(family: str) -> Check:
    """Compare a family, of as few layers and as narrow as it can be made and called."""
    found, start = Check(family), time.monotonic()
    for variant in VARIANTS:
        missing = dict(found.missing)
        for shrink in WAYS_TO_SHRINK:
            classes = _compared(found, family, variant, shrink)
            if classes is not None and not classes - found.errors.keys():
                break
        # A variant may be good for nothing.
        found.missing = missing if variant else found.missing
    found.missing = {name: why for name, why in found.missing.items() if name not in found.errors}
    found.seconds = round(time.monotonic() - start, 1)
    return found


def _compared(found: Check, family: str, variant: dict, shrink: Callable) -> set[str] | None:
    """Compare a variant of a family; give the classes of attention that look their function up, if it can be made."""
    try:
        ours, eager = _pair(family, variant, shrink)
    except Exception as error:
        if not variant:
            found.missing.setdefault("", _said(error))
        return None
    found.missing.pop("", None)
    classes = {type(module).__name__ for module in looking(ours)}
    parts = {name: part for name, part in eager.named_modules() if isinstance(part, transformers.PreTrainedModel)}
    for name, part in parts.items():
        wanted = {type(module).__name__ for module in looking(part)}
        # Attention of other kinds reads the masks that are made for this name, too.
        if wanted - found.errors.keys() or not (classes or found.called or found.wrong):
            _compare_part(found, name, ours.get_submodule(name), part, wanted)
    for name in classes - found.errors.keys():
        found.missing.setdefault(name, "not called")
    return classes


def _pair(family: str, variant: dict, shrink: Callable) -> tuple[Any, Any]:
    """Make two models of the same weights: on our attention and on eager's."""
    for implementation in IMPLEMENTATIONS:
        with contextlib.suppress(KeyError, ValueError):
            ours = real(family, variant, shrink, implementation)
            return ours, real(family, variant, shrink, "eager")
    return real(family, variant, shrink, NAME), real(family, variant, shrink, "eager")


def _compare_part(found: Check, name: str, ours: Any, eager: Any, wanted: set[str]) -> None:
    """Compare a model, or one that it is made of, by calls of all forms, until all classes of attention were called."""
    failures: list[str] = []
    for given in inputs(eager):
        try:
            expected = _call(eager, copy.deepcopy(given))
        except Exception as error:
            failures.append(f"{name or type(eager).__name__}({', '.join(given)}): {_said(error)}")
            continue
        _compare_call(found, f"{name or type(eager).__name__}({', '.join(given)})", ours, eager, given, expected)
        if MASK in given:
            # Without it, too: no padding is another case.
            less = {key: value for key, value in given.items() if key != MASK}
            with contextlib.suppress(Exception):
                expected = _call(eager, copy.deepcopy(less))
                _compare_call(found, f"{name or type(eager).__name__}({', '.join(less)})", ours, eager, less, expected)
        if not wanted - found.errors.keys():
            return
    for each in wanted - found.errors.keys():
        if failures:
            found.missing[each] = " / ".join(dict.fromkeys((found.missing.get(each, ""), *failures)))[:1500]


def _compare_call(found: Check, name: str, ours: Any, eager: Any, given: Given, expected: list[torch.Tensor]) -> None:
    """Compare what our attention gives with what is expected.

    Where these differ, what both give in float64 is compared, since some models make much of eager's own rounding; and
    then what "sdpa" gives.
    """
    called: set[str] = set()
    try:
        with _recorded(called):
            worst = difference(_call(ours, copy.deepcopy(given)), expected)
    except Exception as error:
        found.wrong.append(f"{name} raises {_said(error)}")
        return
    if not worst < TOLERANCE:
        with contextlib.suppress(Exception):
            worst = min(
                worst, difference(*(_call(copy.deepcopy(each).double(), _wide(given)) for each in (ours, eager)))
            )
    if not worst < TOLERANCE:
        with contextlib.suppress(Exception):
            ours.set_attn_implementation("sdpa")
            other = _call(ours, copy.deepcopy(given))
            ours.set_attn_implementation(NAME)
            again = difference(_call(ours, copy.deepcopy(given)), other)
            if again < TOLERANCE:
                found.apart.append(f"{name}: {worst:.1e}")
                worst = again
    found.called.append(f"{name}: {worst:.1e}")
    for each in called:
        found.errors[each] = max(worst, found.errors.get(each, 0.0))
    if not worst < TOLERANCE:
        found.wrong.append(f"{name}: {worst:.1e}")


def looking(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Find the modules that look their attention function up."""
    return (module for module in model.modules() if looks_up(inspect.unwrap(type(module).forward), REGISTRY))


@contextlib.contextmanager
def _recorded(called: set[str]) -> Iterator[None]:
    """Record the classes of the modules that call our attention."""
    check_call = attention_interface._check

    def record(module: torch.nn.Module, kwargs: dict) -> None:
        check_call(module, kwargs)
        called.add(type(module).__name__)

    with mock.patch.object(attention_interface, "_check", record):
        yield


def _call(model: torch.nn.Module, given: Given) -> list[torch.Tensor]:
    """Call a model; give all tensors that it gives, and those that its modules of attention give."""
    seen: list[torch.Tensor] = []

    def see(module: Any, args: Any, output: Any) -> None:
        seen.extend(list(tensors(output))[:1])

    hooks = [module.register_forward_hook(see) for module in looking(model)]
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            if "inference_session" in given:
                return [
                    *(each for frame in range(2) for each in tensors(model(**{**given, "frame_idx": frame}))),
                    *seen,
                ]
            return [*tensors(model(**given)), *seen]
    finally:
        for hook in hooks:
            hook.remove()


def _wide(given: Given) -> Given:
    """Copy what a model is called with, in float64."""
    copied = copy.deepcopy(given)
    numbers = {name: each for name, each in copied.items() if isinstance(each, torch.Tensor)}
    return copied | {name: each.double() for name, each in numbers.items() if each.is_floating_point()}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Find all tensors in an output, attention's weights aside, which only "eager" has."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors([each for name, each in value.items() if not str(name).endswith("attentions")])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def difference(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Measure the largest relative error among tensors; infinite if number, shapes or places of NaNs differ."""
    if [each.shape for each in actual] != [each.shape for each in expected]:
        return float("inf")
    return max((_error(*pair) for pair in zip(actual, expected)), default=float("inf"))


def _error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    if not expected.is_floating_point():
        return 0.0 if torch.equal(actual, expected) else float("inf")
    kept = torch.isfinite(expected)
    if not torch.equal(kept, torch.isfinite(actual)):
        return float("inf")
    actual, expected = actual[kept].double(), expected[kept].double()
    return ((actual - expected).norm() / expected.norm().clamp_min(1e-20)).item()


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def prepare() -> None:
    """Make a process ready to check families."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    register_attention()


def _answer(family: str, sender: Any) -> None:
    """Check a family in a process of its own."""
    prepare()
    try:
        found = check(family)
    except Exception as error:
        found = Check(family, missing={"": _said(error)})
    sender.send(found)


def checked_apart(family: str, seconds: float = SECONDS) -> Check:
    """Check a family in a process of its own, which is ended if it takes too much time or memory."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["docs.family_checks"])
    receiver, sender = context.Pipe(duplex=False)
    process, end = context.Process(target=_answer, args=(family, sender)), time.monotonic() + seconds
    process.start()
    sender.close()
    why = f"longer than {seconds} s"
    try:
        while time.monotonic() < end:
            if receiver.poll(0.5):
                return receiver.recv()
            if _gigabytes(process.pid) > GIGABYTES:
                why = f"more than {GIGABYTES} GB"
                break
    except (EOFError, OSError):
        why = "its process ended"
    finally:
        process.kill()
        process.join()
    return Check(family, missing={"": why})


def _gigabytes(process: int | None) -> float:
    """Read how much memory a process has."""
    with contextlib.suppress(OSError):
        pages = int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e9
    return 0.0


def checked(families: list[str], processes: int = 2, seconds: float = SECONDS) -> Iterator[Check]:
    """Check families, some at a time."""
    with futures.ThreadPoolExecutor(processes) as pool:
        waiting = [pool.submit(checked_apart, family, seconds) for family in families]
        for each in futures.as_completed(waiting):
            yield each.result()


def main() -> None:
    """Print what was found of each family, a line each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("families", nargs="*")
    options = parser.parse_args()
    for found in checked(options.families or families(), options.processes, options.seconds):
        print(json.dumps(dataclasses.asdict(found)), flush=True)


if __name__ == "__main__":
    main()
