"""Compile what the gallery's kernels and their peers need, in parallel processes that leave it in the caches on disk.

It stands in a file of its own: processes that are spawned import it by its name.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import multiprocessing
from collections.abc import Callable, Iterable
from typing import Any

import torch

from benchmarks.gallery.files import IN_TRITON, Example, examples

OURS = "ninetoothed"

Call = Callable[..., Any]


def functions(example: Example, device: str, with_inductor: bool) -> tuple[tuple[Any, ...], dict[str, Call]]:
    """Return the arguments and the function of each peer."""
    arguments, ours, eager = example.module.timed(device)
    found = {OURS: ours, "eager": eager}
    if with_inductor:
        torch._dynamo.reset()
        found["inductor"] = torch.compile(lambda *args: eager(*args), dynamic=False)
    if example.in_triton:
        module = importlib.import_module(f"examples.kernels.{IN_TRITON}.{example.name}")
        found["triton"] = getattr(module, example.name)
    return arguments, found


def warm(name: str, with_inductor: bool) -> None:
    """Compile what a kernel needs, and leave it in the caches on disk: in a process of its own."""
    example = next(each for each in examples() if each.name == name)
    with torch.no_grad():
        arguments, found = functions(example, "cuda", with_inductor)
        for function in found.values():
            with contextlib.suppress(Exception):
                function(*copied(arguments))
        torch.cuda.synchronize()


def compile_all(names: Iterable[str], with_inductor: bool, workers: int, patience: float) -> None:
    """Compile in parallel; what takes longer than so many seconds is left to the process that times."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = [pool.submit(warm, name, with_inductor) for name in names]
        concurrent.futures.wait(waiting, timeout=patience)
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list((pool._processes or {}).values()):
            process.terminate()


def copied(arguments: Iterable[Any]) -> list[Any]:
    """Copy tensors: optimisers change theirs."""
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]
