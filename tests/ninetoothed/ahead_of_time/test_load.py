"""Kernels that were built, called from Python: what reaches the driver is what the runtime would launch."""

import collections
import dataclasses
import shutil
import subprocess
import sys
import threading
import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ninetoothed
from ninetoothed.ahead_of_time import builder
from ninetoothed.errors import ArgumentError, ArgumentTypeError, LoadError
from ninetoothed.runtime.launching import driver
from ninetoothed.runtime.loading import loaded
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE
from tests.ninetoothed.ahead_of_time import launches
from tests.ninetoothed.ahead_of_time.conftest import (
    PRODUCTS,
    STREAM,
    halves,
    matrices,
    product,
    scaled,
    scaled_call,
    vectors,
)

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="stands in for a GPU")


def definition(premake, *args, **options):
    return ninetoothed.make(*premake(*args), **options).definition


def expect(monkeypatch, kernel, arguments):
    line, parameters, widths = launches.launch(kernel, arguments, machine.H200, STREAM)
    monkeypatch.setenv("NT_PARAMETERS", " ".join(map(str, widths)))
    return f"{line} {' '.join(parameters)}"


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32))
@pytest.mark.parametrize("size, step", ((4096, 1), (256, 1), (4095, 1), (17, 1), (1001, 3), (5, 2)))
def test_launches_are_those_of_the_runtime(scaled_folder, record, monkeypatch, dtype, size, step):
    built = ninetoothed.load(scaled_folder).scaled
    kernel = definition(scaled, dtype, num_warps=4, kernel_name="scaled")
    expected = []
    for alpha in (0.5, -2.0, 1e300):  # a new variant, one found by its signature, a fast path
        arguments = scaled_call(size, dtype, alpha, step)
        given = (*arguments[:1], min(alpha, float("inf")) if alpha < 1e300 else float("inf"), *arguments[2:])
        expected.append(expect(monkeypatch, kernel, given))
        built(*arguments)
    assert record() == expected


def test_products_take_descriptors_and_as_many_programs_as_run_at_once(mm_folder, record, monkeypatch):
    built, arguments = ninetoothed.load(mm_folder).mm, PRODUCTS[0]
    variant = built.variants[0]
    assert variant.most == 132 and [each.role for each in variant.passed].count("descriptor") == 3
    line = expect(monkeypatch, definition(matrices, kernel_name="mm"), arguments)
    for _ in range(3):
        built(*arguments)
    lines = record()
    assert lines[0] == f"shared mm 8 {variant.shared}"
    assert lines[1:] == [line] * 3 and " (132, 1, 1) " in line
    smaller = dataclasses.replace(loaded.device_of(None), multiprocessors=114)
    monkeypatch.setattr(loaded, "device_of", lambda place: smaller)
    ninetoothed.load(mm_folder).mm(*arguments)
    assert " (114, 1, 1) " in record()[-1]


def test_a_workspace_is_that_of_the_runtime(mm_folder, record, monkeypatch):
    arguments = PRODUCTS[1]
    built = ninetoothed.load(mm_folder).mm
    (variant,) = (each for each in built.variants if each.workspace != 0)
    widths = [128 if each.role == "descriptor" else each.bits // 8 for each in variant.passed]
    monkeypatch.setenv("NT_PARAMETERS", " ".join(map(str, widths)))
    built(*arguments)
    shared, line = record()
    found = line.split(" ")[-len(widths) :]
    places = {each.role: int.from_bytes(bytes.fromhex(text), "little") for each, text in zip(variant.passed, found)}
    assert places["workspace"] and places["semaphores"] and places["workspace"] != places["semaphores"]
    kernel = definition(matrices, kernel_name="mm")
    head, expected, _ = launches.launch(
        kernel, arguments, machine.H200, STREAM, (places["workspace"], places["semaphores"])
    )
    assert line == f"{head} {' '.join(expected)}"


def test_threads_share_a_kernel(scaled_folder, record, monkeypatch):
    built, kernel = ninetoothed.load(scaled_folder).scaled, definition(scaled, torch.float32, kernel_name="scaled")
    calls = [scaled_call(4096, torch.float32, float(number)) for number in range(4)]
    lines = [expect(monkeypatch, kernel, each).partition(" (128, 1, 1) ")[2] for each in calls]
    barrier = threading.Barrier(len(calls))

    def launch(arguments):
        barrier.wait()
        for _ in range(50):
            built(*arguments)

    threads = [threading.Thread(target=launch, args=(each,)) for each in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = collections.Counter(line.partition(" (128, 1, 1) ")[2] for line in record())
    assert found == dict.fromkeys(lines, 50)


def test_each_gpu_has_machine_code_of_its_own(scaled_folder, record):
    built, first = ninetoothed.load(scaled_folder).scaled, loaded.device_of(None)
    second = dataclasses.replace(first, index=1)
    variant = next(each for each in built.variants if each.architecture == 90)
    codes = [built._loaded(variant, device) for device in (first, second, first, second)]
    assert codes[0] is codes[2] and codes[1] is codes[3] and codes[0] is not codes[1]


def test_nothing_is_launched_over_no_element(scaled_folder, record):
    ninetoothed.load(scaled_folder).scaled(*scaled_call(0, torch.float32))
    assert record() == []


def test_calls_of_other_classes_are_refused_before_anything_is_launched(scaled_folder, record):
    built = ninetoothed.load(scaled_folder).scaled
    x, y, z = vectors(64, torch.float32)
    for arguments, error, told in (
        ((x, 1.0, y, z.half()), ArgumentError, "`z` was built as a tensor of float32"),
        ((x, 1, y, z), ArgumentError, "`alpha` was built as a number of float32, and is 1"),
        ((x, 1.0, y[None], z), ArgumentError, "`y` was built as a tensor of 1 dimensions"),
        ((x, 1.0, y[:9], z), ArgumentError, r"it was built for y.shape\[0\] == x.shape\[0\]"),
        ((x, 1.0, y), ArgumentTypeError, "takes x, alpha, y, z; got 3"),
        ((x[:1].expand(64), 1.0, y, z[:1].expand(64)), ArgumentError, "`z` is written to, and elements"),
        ((x[4:], 1.0, y[4:], x[:-4]), ArgumentError, "`z` is written to, and shares memory with elements of `x`"),
    ):
        with pytest.raises(error, match=told):
            built(*arguments)
    with pytest.raises(ArgumentError, match="was built with .*dtype.*float16.*and the call gives.*float64"):
        built(x, 1.0, y, z, dtype="float64")
    with pytest.raises(ArgumentTypeError, match="has no keyword nonsense; it was built with BLOCK, dtype"):
        built(x, 1.0, y, z, nonsense=1)
    assert record() == []


def test_tensors_without_memory_are_refused_and_subclasses_are_not(scaled_folder, record, monkeypatch):
    class Own(torch.Tensor):
        pass

    built = ninetoothed.load(scaled_folder).scaled
    x, y, z = vectors(64, torch.float32)
    with FakeTensorMode():
        fake = torch.zeros(64)
    for wrong, told in ((x.to("meta"), "on the meta device"), (fake, "`FakeTensor`"), (x.to_sparse(), "layout")):
        with pytest.raises(ArgumentTypeError, match=f"`scaled`: parameter `x` is given a .*{told}"):
            built(wrong, 1.0, y, z)
    expected = [
        expect(monkeypatch, definition(scaled, torch.float32, num_warps=4, kernel_name="scaled"), (x, 1.0, y, z))
    ]
    for _ in range(3):
        built(x.as_subclass(Own), 1.0, torch.nn.Parameter(y), z)
    assert record() == expected * 3


def test_in_place_where_that_was_proved_and_views_that_interleave(scaled_folder, record, monkeypatch):
    monkeypatch.setenv("NT_PARAMETERS", "")
    (x, y, _), wide = vectors(64, torch.float32), torch.empty(512)
    ninetoothed.load(scaled_folder).scaled(x, 1.0, y, x)
    ninetoothed.load(scaled_folder).scaled(wide[::8], 1.0, y, wide[4::8])
    assert len(record()) == 2


def test_code_that_relies_on_memory_of_its_own_is_refused_in_place(tmp_path, record, monkeypatch):
    def premake():
        def arrangement(x, y, z):
            return tuple(each.tile((256,)) for each in (x, y, z))

        def application(x, y, z):
            y = x + 1
            z = x * 2  # reads x after the store to y

        return arrangement, application, (ninetoothed.Tensor(1), ninetoothed.Tensor(1), ninetoothed.Tensor(1))

    monkeypatch.setenv("NT_PARAMETERS", "")
    x, y, z = vectors(4096, torch.float32)
    ninetoothed.build(
        premake, [((), {}, {})], kernel_name="both", output_dir=tmp_path, gpus=("h200",), calls=[(x, y, z)]
    )
    both = ninetoothed.load(tmp_path).both
    both(x, y, z)
    with pytest.raises(ArgumentError, match="memory of their own of y and x, which begin at one address"):
        both(x, x, z)
    assert len(record()) == 1

    in_both, calls = tmp_path / "in_both", [(x, y, z), (x, x, z)]
    ninetoothed.build(premake, [((), {}, {})], kernel_name="both", output_dir=in_both, gpus=("h200",), calls=calls)
    both = ninetoothed.load(in_both).both
    for given in calls * 3:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ninetoothed.AliasingWarning)
            both(*given)
    assert len(record()) == 1 + 6
    assert {len(each.separate) - sum(pair.in_place for pair in each.separate) for each in both.variants} == {0, 3}


def test_other_sizes_get_the_nearest_variant_of_their_class(mm_folder, record, monkeypatch):
    monkeypatch.setenv("NT_PARAMETERS", "")
    ninetoothed.load(mm_folder).mm(*product(64, 128, 32768))
    ninetoothed.load(mm_folder).mm(*product(2048, 2048, 2048))
    split, whole = (line for line in record() if line.startswith("launch"))
    assert " (132, 1, 1) " not in split
    assert " (128, 1, 1) " in whole  # of 128 x 256 each
    with pytest.raises(ArgumentError, match=r"mm.*input.shape\[1\] % 16 == 0"):
        ninetoothed.load(mm_folder).mm(*product(64, 64, 100))


def test_other_gpus_are_refused_by_name(mm_folder, scaled_folder, record, monkeypatch):
    monkeypatch.setenv("NT_PARAMETERS", "")
    like, made = loaded.device_of(None), []
    for architecture in (80, 86, 100):
        other = type(like)(0, "another GPU", architecture, 84, 99 * 1024, like.driver)
        monkeypatch.setattr(loaded, "device_of", lambda place, other=other: other)
        with pytest.raises(
            LoadError, match=rf"`mm` was built for H200 \(sm_90\), and .* another GPU \(sm_{architecture}\)"
        ):
            ninetoothed.load(mm_folder).mm(*PRODUCTS[0])
        if architecture < 90:  # the code for an A100 runs on other GPUs of its family
            ninetoothed.load(scaled_folder).scaled(*scaled_call(64, torch.float32))
            made.append(architecture)
    assert len(record()) == len(made) == 2


def test_a_driver_that_fails_says_its_version(scaled_folder, record, monkeypatch):
    monkeypatch.setenv("NT_FAILS", "222")
    with pytest.raises(
        LoadError, match="12.8 could not load the machine code of ptxas [0-9.]+: it fails on purpose .error 222"
    ):
        ninetoothed.load(scaled_folder).scaled(*scaled_call(64, torch.float32))
    assert record() == []


@pytest.mark.parametrize("before", (0, 3))
def test_a_launch_that_fails_is_an_error_and_one_without_a_context_gets_it(scaled_folder, record, monkeypatch, before):
    monkeypatch.setenv("NT_PARAMETERS", "8 4 8 8 4")
    built, call = ninetoothed.load(scaled_folder).scaled, scaled_call(64, torch.float32)
    for _ in range(before):  # else it is the first call, not a fast path, that fails
        built(*call)
    monkeypatch.setenv("NT_LAUNCH_FAILS", "700")
    with pytest.raises(LoadError, match="12.8 could not launch kernel `scaled`: it fails on purpose .error 700"):
        built(*call)
    assert len(record()) == before
    monkeypatch.setenv("NT_LAUNCH_FAILS", "201")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: monkeypatch.delenv("NT_LAUNCH_FAILS"))
    built(*call)
    built(*call)
    assert len(record()) == before + 2 and len(set(record())) == 1


def test_cpu_tensors_are_refused_by_name(scaled_folder):
    with pytest.raises(ArgumentError, match="run on GPUs, and the tensors are on cpu"):
        ninetoothed.load(scaled_folder).scaled(*scaled_call(64, torch.float32))


def test_nothing_of_triton_is_imported_and_nothing_traced(scaled_folder):
    script = f"""
import sys, torch, ninetoothed
from ninetoothed import frontend
frontend.trace = None
built = ninetoothed.load({str(scaled_folder)!r})
x = torch.empty(64)
try:
    built.scaled(x, 1.0, x, torch.empty(64))
except ninetoothed.ArgumentError as error:
    assert "run on GPUs" in str(error)
assert "triton" not in sys.modules, "triton was imported"
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_batch_of_one_is_behind_descriptors(tmp_path, record, monkeypatch):
    """Its stride tells nothing, and the driver is given it all the same."""
    from ninetoothed_ops.kernels import bmm

    arguments = halves(1, 4096, 512), halves(1, 512, 4096), halves(1, 4096, 4096)
    kernel = bmm.make().definition
    folder = builder.write(tmp_path, "bmm", tuple(builder.compiled(kernel, [arguments], (machine.H200,))))
    assert "descriptor" in {each.role for each in folder.variants[0].passed}
    line = expect(monkeypatch, kernel, arguments)
    for _ in range(3):
        ninetoothed.load(tmp_path).bmm(*arguments)
    assert [each for each in record() if each.startswith("launch")] == [line] * 3


def test_an_older_driver_is_told_by_what_it_lacks(without, mm_folder, scaled_folder, record, monkeypatch):
    with pytest.raises(LoadError, match="there is no driver of CUDA here: libnowhere.so.*; kernels .* run on a GPU"):
        driver.opened("libnowhere.so")
    with pytest.raises(LoadError, match="driver is too old: it has no cuFuncSetAttribute; install a newer one"):
        driver.opened(str(without("cuFuncSetAttribute")))
    older = driver.opened(str(without("cuTensorMapEncodeTiled")))
    here = dataclasses.replace(loaded.device_of(None), driver=older)
    monkeypatch.setattr(loaded, "device_of", lambda place: here)
    monkeypatch.setenv("NT_PARAMETERS", "")
    for _ in range(3):
        with pytest.raises(LoadError, match="driver 12.8 has no descriptors of tensors; install a newer one"):
            ninetoothed.load(mm_folder).mm(*PRODUCTS[0])
    assert [line for line in record() if line.startswith("launch")] == []
    ninetoothed.load(scaled_folder).scaled(*scaled_call(64, torch.float32))  # which has none
    assert len([line for line in record() if line.startswith("launch")]) == 1


def test_damage_is_seen_before_anything_is_launched(scaled_folder, record, tmp_path):
    path = shutil.copytree(scaled_folder, tmp_path / "folder")
    built = ninetoothed.load(path).scaled
    for code in path.glob("*.cubin"):
        code.write_bytes(code.read_bytes()[:-1] + b"?")
    with pytest.raises(LoadError, match="is not what was built: its SHA-256 is another than manifest.json says"):
        built(*scaled_call(64, torch.float32))
    for code in path.glob("*.cubin"):
        code.unlink()
    with pytest.raises(LoadError, match="of kernel `scaled`, cannot be read"):
        built(*scaled_call(64, torch.float32))
    assert record() == []


def test_a_call_says_which_of_several_configurations_it_means(tmp_path, record, monkeypatch):
    monkeypatch.setenv("NT_PARAMETERS", "")
    configs = [((torch.float32,), {"BLOCK": block}, {"num_warps": 1}) for block in (32, 64)]
    call = scaled_call(640, torch.float32)
    ninetoothed.build(scaled, configs, kernel_name="scaled", output_dir=tmp_path, gpus=("h200",), calls=[call])
    built = ninetoothed.load(tmp_path).scaled
    with pytest.raises(ArgumentTypeError, match="several configurations that this call fits; say which: BLOCK=..."):
        built(*call)
    blocks = (32, 64, 64, 32, 32)
    for block in blocks:
        built(*call, BLOCK=block)
    assert [line.split(" (")[1] for line in record()] == [f"{640 // block}, 1, 1)" for block in blocks]
