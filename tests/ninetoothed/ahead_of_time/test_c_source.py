"""The C source: it compiles without CUDA and without warnings, and launches what the runtime would."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch

import ninetoothed
from ninetoothed import dtypes
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE
from tests.ninetoothed.ahead_of_time import launches
from tests.ninetoothed.ahead_of_time.conftest import (
    HERE,
    PRODUCTS,
    STREAM,
    matrices,
    product,
    scaled,
    scaled_call,
    vectors,
)

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="stands in for a GPU")
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1")
RESULTS = ("success", "no variant", "wrong GPU", "no driver", "driver", "memory")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory, library):
    """Compile a folder's source, once."""
    known = {}

    def compile(folder):
        if folder not in known:
            known[folder] = tmp_path_factory.mktemp("compiled") / "kernels.so"
            (source,) = folder.glob("*.c")
            subprocess.run(["cc", *STRICT, "-shared", "-fPIC", source, "-o", known[folder], "-ldl"], check=True)
        return known[folder]

    return compile


def given(value):
    if not isinstance(value, torch.Tensor):
        return value
    dtype = 1 + dtypes.ALL.index(dtypes.from_torch(value.dtype))
    return [value.data_ptr(), list(value.shape), list(value.stride()), dtype]


def call(compiled, library, folder, function, calls, tmp_path, widths=(), **settings):
    """Call a function of a folder's library, and return its results and what the driver recorded."""
    record = tmp_path / "record"
    record.write_text("")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "NT_RECORD": str(record),
        "NT_PARAMETERS": " ".join(map(str, widths)),
        **{f"NT_{name.upper()}": str(value) for name, value in settings.items()},
    }
    name = next(folder.glob("*.c")).stem
    command = [sys.executable, HERE / "call.py", compiled(folder), function, f"{name}_message", json.dumps(calls)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    return json.loads(output.stdout), record.read_text().splitlines()


def definition(premake, *args, **options):
    return ninetoothed.make(*premake(*args), **options).definition


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32))
def test_launches_are_those_of_the_runtime(compiled, library, scaled_folder, tmp_path, dtype):
    kernel, calls, expected = definition(scaled, dtype, num_warps=4, kernel_name="scaled"), [], []
    arguments = [scaled_call(*each) for each in ((4096, dtype, 0.5), (17, dtype, -2.0), (1001, dtype, 3.0, 3))]
    for each in arguments:
        head, parameters, widths = launches.launch(kernel, each, machine.H200, STREAM)
        name = str(dtype).removeprefix("torch.").encode()
        calls.append([{"address": STREAM}, *map(given, each), {"text": name.decode()}])
        expected.append((f"{head} ", parameters, widths))
    for made, (head, parameters, widths) in zip(calls, expected, strict=True):
        results, lines = call(compiled, library, scaled_folder, "launch_scaled", [made], tmp_path, widths)
        assert results == [[0, ""]] and lines == [head + " ".join(parameters)]


def test_products_take_descriptors_and_as_many_programs_as_run_at_once(compiled, library, mm_folder, tmp_path):
    kernel = definition(matrices, kernel_name="mm")
    head, parameters, widths = launches.launch(kernel, PRODUCTS[0], machine.H200, STREAM)
    made = [{"address": STREAM}, *map(given, PRODUCTS[0]), {"address": 0}, {"address": 0}]
    results, lines = call(compiled, library, mm_folder, "launch_mm", [made, made], tmp_path, widths)
    assert results == [[0, ""]] * 2
    assert lines[0].startswith("shared mm 8 ") and lines[1:] == [f"{head} {' '.join(parameters)}"] * 2
    _, lines = call(compiled, library, mm_folder, "launch_mm", [made], tmp_path, (), multiprocessors=114)
    assert " (114, 1, 1) " in lines[1]


def test_a_workspace_is_the_callers(compiled, library, mm_folder, tmp_path):
    kernel, memory = definition(matrices, kernel_name="mm"), [{"address": 0x1000}, {"address": 0x9000}]
    head, parameters, widths = launches.launch(kernel, PRODUCTS[1], machine.H200, STREAM, (0x1000, 0x9000))
    tensors = [*map(given, PRODUCTS[1])]
    ((result, _, workspace, semaphores),), _ = call(compiled, library, mm_folder, "workspace_mm", [tensors], tmp_path)
    built = ninetoothed.load(mm_folder).mm
    assert result == 0 and workspace >= 64 * 64 * 4 and semaphores >= 4 and workspace % 256 == semaphores % 256 == 0
    assert len(built.variants) == 2
    made = [{"address": STREAM}, *tensors]
    results, lines = call(compiled, library, mm_folder, "launch_mm", [made + memory], tmp_path, widths)
    assert results == [[0, ""]] and lines[-1] == f"{head} {' '.join(parameters)}"
    ((result, message),), lines = call(
        compiled, library, mm_folder, "launch_mm", [[*made, {"address": 0}, memory[1]]], tmp_path
    )
    assert RESULTS[result] == "memory" and "workspace_mm tells how much" in message and lines == []


def test_calls_are_refused_before_anything_is_launched(compiled, library, scaled_folder, mm_folder, tmp_path):
    (x, y, z), wide = vectors(64, torch.float32), torch.empty(512)
    kind = {"text": "float32"}
    cases = [
        ((x, 1.0, y, z.double()), "no variant", "z is of float32"),
        ((x, 1.0, y[None], z), "no variant", "y has 1 dimensions"),
        ((x, 1.0, y[:9], z), "no variant", "y.shape[0] == x.shape[0]"),
        ((x[:1].expand(64), 1.0, y, z[::2].as_strided((64,), (0,))), "memory", "`z`, which is written to, overlap"),
        ((x[4:], 1.0, y[4:], x[:-4]), "memory", "`z` is written to, and lies among the addresses of `x`"),
        ((wide[::8], 1.0, y, wide[4::8]), "memory", "`z` is written to, and lies among the addresses of `x`"),
    ]
    calls = [[{"address": STREAM}, *map(given, arguments), kind] for arguments, *_ in cases]
    results, lines = call(compiled, library, scaled_folder, "launch_scaled", calls, tmp_path)
    for (_, result, told), (number, message) in zip(cases, results, strict=True):
        assert RESULTS[number] == result and told in message, message
    assert lines == []
    made = [{"address": STREAM}, *map(given, product(64, 64, 100)), {"address": 0}, {"address": 0}]
    for settings, result, told in (
        ({}, "no variant", "input.shape[1] % 16 == 0"),
        ({"architecture": 100}, "wrong GPU", "`mm` was built for H200 (sm_90), and this GPU is sm_100"),
        ({"context": 0}, "driver", "this thread has no current CUDA context"),
    ):
        ((number, message),), lines = call(compiled, library, mm_folder, "launch_mm", [made], tmp_path, **settings)
        assert RESULTS[number] == result and told in message and lines == []
    made[1:4] = map(given, PRODUCTS[0])
    ((number, message),), _ = call(compiled, library, mm_folder, "launch_mm", [made], tmp_path, fails=222)
    assert RESULTS[number] == "driver" and re.search(
        r"12.8 could not load the machine code of ptxas [0-9.]+: it fails on purpose", message
    )


def test_without_a_driver_it_says_so(compiled, library, scaled_folder, tmp_path):
    class Nowhere:
        parent = tmp_path

    made = [{"address": STREAM}, *map(given, scaled_call(64, torch.float32)), {"text": "float32"}]
    ((number, message),), _ = call(compiled, Nowhere, scaled_folder, "launch_scaled", [made], tmp_path)
    assert RESULTS[number] == "no driver" and "there is no driver of CUDA: libcuda.so.1" in message


def test_an_older_driver_is_told_by_what_it_lacks(compiled, without, mm_folder, tmp_path):
    made = [{"address": STREAM}, *map(given, PRODUCTS[0]), {"address": 0}, {"address": 0}]
    for name, told in (("cuFuncSetAttribute", "no cuFuncSetAttribute"), ("cuTensorMapEncodeTiled", "no descriptors")):
        ((number, message),), lines = call(compiled, without(name), mm_folder, "launch_mm", [made], tmp_path)
        assert RESULTS[number] == "no driver" and f"CUDA's driver is too old: it has {told}" in message
        assert not any(line.startswith("launch") for line in lines)


def test_no_element_launches_nothing(compiled, library, scaled_folder, tmp_path):
    made = [{"address": STREAM}, *map(given, scaled_call(0, torch.float32)), {"text": "float32"}]
    results, lines = call(compiled, library, scaled_folder, "launch_scaled", [made], tmp_path)
    assert results == [[0, ""]] and lines == []


def test_the_header_is_one_of_cpp_too(scaled_folder, tmp_path):
    source = tmp_path / "program.cc"
    source.write_text('#include "scaled.h"\nint main() { auto call = &launch_scaled; (void)call; }\n')
    subprocess.run(["c++", "-Wall", "-Werror", "-fsyntax-only", f"-I{scaled_folder}", source], check=True)
