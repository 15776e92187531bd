"""The pipeline: one order, each pass a file, each report reported and verified, and what a target rules out."""

import dataclasses
import pathlib

import pytest
import torch

import ninetoothed.passes
from ninetoothed import ir, passes
from ninetoothed.backends.triton import emit
from ninetoothed.passes import Pass, Target
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.compilation.target import target_of
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import DataParallel, Persistent, Schedule, SplitK, StreamK
from ninetoothed_ops.kernels import mm, softmax

FOLDER = pathlib.Path(ninetoothed.passes.__file__).parent


def traced(kernel, *shapes):
    arguments = tuple(torch.empty(shape, dtype=torch.float16) for shape in shapes)
    return dispatch.launcher_of(kernel).trace(arguments, {}, machine.H200).program


@pytest.fixture(scope="module")
def product():
    return traced(mm.make(), *[(4096, 4096)] * 3)


def everywhere(program):
    return frozenset(parameter.name for parameter in program.parameters)


def applied(program, schedule, target=None):
    scheduled = passes.run(program, target or Target(), schedule, passes.GPU)
    assert [report.name for report in scheduled.reports] == [each.name for each in passes.GPU]
    assert scheduled.reports[-1].program == scheduled.program
    return scheduled, {report.name for report in scheduled.reports if report.applied}


def test_every_pass_is_a_file_of_its_name_that_shows_before_and_after():
    files = [*FOLDER.glob("*.py"), *FOLDER.glob("*/__init__.py")]
    told = {path.parent.name if path.stem == "__init__" else path.stem: path.read_text() for path in files}
    declared = {name for name, text in told.items() if text.startswith('"""Pass: ')}

    assert declared == {each.name for each in passes.PASSES}
    assert all("->" in told[name].split('"""')[1] for name in declared)


def test_tiles_are_shared_out_in_one_way(product):
    tma = everywhere(product)
    ways = {"persistent", "remainder_subtile", "stream_k", "split_k", "coarsening"}

    scheduled, found = applied(product, Schedule(use_tma=tma, sharing=Persistent(132)))
    assert found & ways == {"persistent"} and "epilogue_subtile" in found
    assert scheduled.persistent_loop in scheduled.program.body and not scheduled.buffers

    scheduled, found = applied(product, Schedule(use_tma=tma, sharing=StreamK(132, 4, 6)))
    assert found & ways == {"remainder_subtile"}
    assert scheduled.remainder.subtiles == 4 and len(scheduled.buffers) == 2 and scheduled.coarsening == 1

    scheduled, found = applied(product, Schedule(sharing=StreamK(132, 4)))
    assert found & ways == {"stream_k"} and scheduled.remainder.subtiles == 1

    scheduled, found = applied(product, Schedule(sharing=SplitK(4)))
    assert found & ways == {"split_k"} and scheduled.remainder is None and len(scheduled.buffers) == 2


def test_coarsening_is_told():
    scheduled, found = applied(traced(softmax.make(2), (4096, 64), (4096, 64)), Schedule(sharing=DataParallel(4)))
    assert "coarsening" in found and scheduled.coarsening == 4


def test_without_a_copy_engine_nothing_goes_through_descriptors(product):
    schedule, target = Schedule(use_tma=everywhere(product), sharing=Persistent(132)), Target(has_tma=False)

    assert "persistent" not in applied(product, schedule, target)[1]
    plain = emit(product, schedule, target)
    assert not plain.descriptors and not plain.persistent and plain == emit(product)


@pytest.mark.parametrize("gpu", (machine.A100, machine.H200, machine.B200), ids=lambda gpu: gpu.name)
def test_targets_of_gpus(gpu):
    target = target_of(gpu)
    assert target.architecture == gpu.architecture and target.has_wgmma == (gpu is machine.H200)
    assert target.has_tma == (gpu is not machine.A100)


def test_what_a_pass_breaks_is_found_at_once(product):
    def without_its_first_value(scheduled, target, schedule):
        program = scheduled.program
        return dataclasses.replace(scheduled, program=dataclasses.replace(program, body=program.body[1:]))

    with pytest.raises(AssertionError, match="not defined before"):
        passes.run(product, Target(), passes=(Pass("broken", without_its_first_value),))


def test_dead_code_says_whether_there_was_some(product):
    (dead_code,) = (each for each in passes.PORTABLE if each.name == "dead_code")
    unread = ir.Constant(ir.Value(ir.TileType(ninetoothed.float32)), 1.0)
    more = dataclasses.replace(product, body=(unread, *product.body))

    for program, is_dead in ((product, False), (more, True)):
        scheduled = passes.run(program, Target(), passes=(dead_code,))
        assert scheduled.reports[0].applied == is_dead and len(scheduled.program.body) == len(product.body)
