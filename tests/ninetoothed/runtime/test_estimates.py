"""Estimates: the work that is counted is that of a hand's count, and what follows is near what was measured."""

import itertools
import json
import math
import pathlib

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.runtime.dispatch import launcher_of
from ninetoothed.runtime.estimates import Estimates, Roofline, roofline
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.selection.work import Multiplied, work_of
from ninetoothed_ops.kernels import mm
from tests.ninetoothed_ops.kernels import calls

RESULTS = pathlib.Path(__file__).parents[3] / "benchmarks" / "results"


def selected(kernel, arguments, gpu=machine.H200):
    return launcher_of(kernel).trace(arguments, {}, gpu)


def work(kernel, *arguments):
    variant = selected(kernel, arguments)
    return work_of(variant.reports[0].program, variant.selection.values)


def estimate(name, dtype=torch.float16, gpu=machine.H200):
    kernel, arguments = calls.large(name, dtype)
    selection = selected(kernel, arguments, gpu).selection
    estimates = Estimates(selection, gpu)
    return estimates.of(selection.schedule), estimates.roofline()


def thrice(x, y):
    total = ntl.zeros((16, 16), dtype=ntl.float32)
    for _ in range(3):
        total += ntl.dot(ntl.exp(x), ntl.trans(x))
    y = total


def made(x, y):
    return x.tile((16, 16)), y.tile((16, 16))


def make(application):
    return ninetoothed.make(made, application, (Tensor(2), Tensor(2)))


def test_products_of_made_operands_are_counted_by_the_rounds_around_them():
    x = torch.empty(64, 32)
    found = work(make(thrice), x, x.clone())
    assert found.programs == 8 and found.limit == "exact"
    assert found.products == {Multiplied(32, 16, is_exact=True): 3 * 16**3}
    assert found.special == 3 * 256 and found.moved == 2 * 64 * 32 * 4 and found.copied == 2 * 256 * 4


def test_rounds_that_depend_on_the_program_are_averaged():
    """Half of the keys are seen on average by a causal attention, and the diagonal."""
    kernel, arguments = calls.large("sdpa")
    assert arguments[-1] is True
    found, blocks = work(kernel, *arguments), 1024 // 64
    rounds = (blocks + 1) / 2
    assert found.programs == 4 * 48 * blocks and list(found.products.values()) == [rounds * 2 * 64**3]
    assert found.special == rounds * (64 * 64 + 64) + 64 * 64 + 1


def test_a_tensor_that_is_not_touched_takes_no_time_and_a_repeated_one_little():
    """The mask of a call without one is a number, expanded to four gigabytes' worth."""
    kernel, arguments = calls.large("sdpa")
    assert work(kernel, *arguments).moved == 4 * 4 * 48 * 1024 * 64 * 2
    kernel = ninetoothed.make(made, copy, (Tensor(2), Tensor(2)))
    assert work(kernel, torch.empty(1, 64).expand(64, 64), torch.empty(64, 64)).moved == (64 + 64 * 64) * 4


def copy(x, y):
    y = x


def until(x, y):
    while ntl.sum(x) > 1.0:
        x = x / 2
    y = x


def so_often(x, n, y):
    for _ in range(n):
        x = x / 2
    y = x


def test_loops_of_which_data_decide_say_so():
    x = torch.empty(64, 32)
    assert work(make(until), x, x.clone()).limit == "least"
    kernel = ninetoothed.make(
        lambda x, n, y: (*made(x, y)[:1], n, made(x, y)[1]), so_often, (Tensor(2), Tensor(0), Tensor(2))
    )
    assert work(kernel, x, 5, x.clone()).limit == "least"
    selection = selected(make(until), (x, x.clone())).selection
    assert str(Estimates(selection, machine.H200).of(selection.schedule)).startswith("at least 3.")


TYPES = (("A100", torch.float32), ("H200", torch.float32), ("MI300X", torch.float16), ("B200", torch.bfloat16))


def test_all_shipped_kernels_are_estimated():
    for name, (gpu, dtype) in zip(calls.NAMES + calls.OPTIONS + calls.GRADIENTS, itertools.cycle(TYPES), strict=False):
        found, least = estimate(name, dtype, machine.named(gpu))
        assert math.isfinite(found.time) and found.time >= 0.9 * least.time > 0, (name, found, least)


def measured(file):
    kernels = json.loads((RESULTS / f"{file}.json").read_text())["results"]["kernels"]
    return {(each["op"], each["case"]): 1e3 * each["milliseconds"]["ninetoothed"] for each in kernels}


def test_estimates_are_near_what_was_measured():
    """Those of the paper's kernels, on an H200; a memory that is not counted, or twice, would not be."""
    times = measured("kernels-nvidia-h200-float16")
    cases = {name: times[name, "paper"] for name in calls.NAMES if (name, "paper") in times and name != "sdpa"}
    cases["sdpa"] = measured("cases-nvidia-h200-float16")["sdpa", "causal"]
    assert len(cases) == 10
    for name, time in cases.items():
        found, least = estimate(name)
        assert 0.7 * time < found.time < 1.2 * time and least.time < time, (name, found, time)


def test_float32_products_take_the_time_of_multipliers_without_tensor_cores():
    found, least = estimate("mm", torch.float32)
    by_hand = 4096**3 / (128 * 132 * 1.7e9) * 1e6
    assert least.multiplying == pytest.approx(by_hand) and by_hand < found.time < 1.1 * by_hand
    assert found.bound_by == "multiplications"


def test_the_roofline_of_exponentials():
    kernel, arguments = calls.large("sdpa")
    found = roofline(work(kernel, *arguments), machine.H200)
    assert isinstance(found, Roofline) and found.moving < found.special < found.multiplying == found.time


def test_a_call_of_nothing_takes_no_time():
    empty, weight = torch.empty(0, 64), torch.empty(64, 32)
    selection = selected(mm.make(), (empty, weight, torch.empty(0, 32))).selection
    assert Estimates(selection, machine.H200).of(selection.schedule).time == 0
