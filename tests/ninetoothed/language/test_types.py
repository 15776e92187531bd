"""Each function with each element type is refused by name, or compiles for GPUs and is right: samples of all cases.

python -m pytest -m gpu -n 16 tests/ninetoothed/language/test_types.py       # all of them on a GPU, against the CPU
"""

import importlib.util
import re
from importlib import metadata

import pytest
import torch

from benchmarks.types.cases import FAULTS, REFUSED, RIGHT, cases, difference, on_cpu, on_gpu, run, unlimited
from benchmarks.types.rows import rows
from ninetoothed.errors import ApplicationError, UnsupportedError
from ninetoothed.language.functions import FUNCTIONS, LIBDEVICE
from ninetoothed.runtime.selection.machine import named
from tests.conftest import DEVICE, needs_triton

# Functions of no elements, and those whose formats and texts say which types they take.
OTHERS = """
static_range static_print static_assert program_id num_programs assume condition debug_barrier max_constancy
max_contiguous expect_zero dot_scaled inline_asm_elementwise range
"""
ALL = list(cases())
# One case of each row at least, but for libdevice; rows have 15 types or 225 pairs of them.
OF_LIBDEVICE, OTHER = (
    [case for case in ALL if case.row.name.startswith("libdevice.") == is_there] for is_there in (True, False)
)
SAMPLE = OTHER[::23] + OF_LIBDEVICE[::89]
GPUS = ("h100", "h100", "a100", "b200")
# In one process, this version converts float8e5 as the first GPU does that it compiles for, and fails on older ones.
IS_TRITON_3_6 = importlib.util.find_spec("triton") is not None and metadata.version("triton").startswith("3.6.")


def gpu_of(place, case):
    return "h100" if IS_TRITON_3_6 and "float8e5" in str(case) else GPUS[place % len(GPUS)]


def test_every_function_has_a_row():
    texts = " ".join(row.body for row in rows())
    called = set(re.findall(r"ntl\.(\w+)", texts)) | {
        f"libdevice.{name}" for name in re.findall(r"libdevice\.(\w+)", texts)
    }
    offered = {*FUNCTIONS, *(f"libdevice.{name}" for name in LIBDEVICE)} - set(OTHERS.split())
    assert offered <= called


@needs_triton
@pytest.mark.parametrize("case, gpu", [(case, gpu_of(i, case)) for i, case in enumerate(SAMPLE)], ids=str)
def test_a_type_is_refused_by_name_or_right_everywhere(case, gpu):
    found = {"cpu": on_cpu(case), gpu: on_gpu(case, named(gpu), {})}
    assert not any(outcome.kind in FAULTS for outcome in found.values()), found
    is_gap = found[gpu].kind == REFUSED and f"GPUs of sm_{named(gpu).architecture}" in found[gpu].said
    assert found["cpu"].kind == found[gpu].kind or is_gap, found


@needs_triton
@pytest.mark.parametrize(
    "case", [case for case in ALL if re.match("atomic|umulhi|xor_sum|reduce_or", case.row.name)][::7], ids=str
)
def test_no_type_is_refused_that_triton_compiles(case):
    has_no_meaning = case.dtype.is_floating and re.match("atomic_(and|or|xor)", case.row.name)  # bits of floats
    if on_gpu(case, named("h100"), {}).kind == REFUSED and not has_no_meaning:
        with unlimited():
            assert on_gpu(case, named("h100"), {}).kind != RIGHT


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", dict.fromkeys(f"{case.row.name} of {case.dtype}" for case in ALL if DEVICE == "cuda"))
def test_a_gpu_computes_what_the_cpu_does(name):
    wrong = []
    for case in (case for case in ALL if f"{case.row.name} of {case.dtype}" == name):
        try:
            expected = run(case, "cpu")
        except ApplicationError:
            with pytest.raises(ApplicationError):
                run(case, "cuda")
            continue
        try:
            found = run(case, "cuda").cpu()
        except UnsupportedError as error:
            assert "on GPUs of sm_" in str(error)
            continue
        said = difference(found, expected, tolerance(case))
        wrong += [f"{case}: {said}"] if said else []
    assert not wrong, "\n".join(wrong)


def tolerance(case):
    """What functions of a GPU may be off by, relatively: some are approximations of float32."""
    return 2e-3 if "fast_" in case.row.name else 1e-10 if case.dtype.name == "float64" else 1e-5
