"""Compiling for GPUs that are not there: what comes out, what is kept on disk, and what is refused."""

import multiprocessing
import warnings

import pytest
import torch

from ninetoothed.backends.triton import emit
from ninetoothed.errors import CompilationError
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.compilation.compile import compile_kernel, write_module
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import add, mm
from tests.machine_code.sass import disassembled

pytest.importorskip("triton")

GPUS = (machine.A100, machine.H200, machine.B200)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    return tmp_path / "triton"


def emitted(kernel, *arguments, gpu=machine.H200):
    """What a call emits, its configuration, and the parameters whose memory is aligned."""
    variant = dispatch.launcher_of(kernel).trace(arguments, {}, gpu)
    aligned = frozenset(parameter.name for parameter in variant.program.parameters)
    return emit(variant.program), variant.selection.schedule, aligned


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


def compiled(kernel, *arguments, gpu=machine.H200):
    text, configuration, aligned = emitted(kernel, *arguments, gpu=gpu)
    return compile_kernel(text, gpu, configuration.num_warps, configuration.num_stages, aligned)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_products_use_the_tensor_cores_and_spill_nothing(gpu):
    kernel = compiled(mm.make(), *(halves(4096, 4096) for _ in range(3)), gpu=gpu)
    instruction = {80: "mma.sync", 90: "wgmma", 100: "tcgen05"}[gpu.architecture]
    assert instruction in kernel.asm["ptx"]
    assert "cp.async" in kernel.asm["ptx"] or "cp.async.bulk" in kernel.asm["ptx"]
    assert 0 < kernel.registers <= 255 and kernel.spills == 0
    assert 0 < kernel.shared <= gpu.shared_memory


def test_elementwise_kernels_move_sixteen_bytes_at_once():
    kernel = compiled(add.make(1), halves(1 << 20), halves(1 << 20), 1.0, halves(1 << 20))
    assert "ld.global.v4.b32" in kernel.asm["ptx"] and "st.global.v4.b32" in kernel.asm["ptx"]
    assert "LDG.E.128" in disassembled(kernel)


def test_unaligned_memory_is_not_taken_to_be_aligned():
    text, configuration, _ = emitted(add.make(1), halves(1 << 20), halves(1 << 20), 1.0, halves(1 << 20))
    kernel = compile_kernel(text, machine.H200, configuration.num_warps, configuration.num_stages)
    assert "ld.global.v4.b32" not in kernel.asm["ptx"]


def test_what_triton_rejects_names_the_kernel_and_its_text():
    text, _, aligned = emitted(add.make(1), halves(64), halves(64), 1.0, halves(64))
    broken = type(text)(text.name, text.source.replace("tl.load", "tl.lood"), text.arguments, text.grid)
    with pytest.raises(CompilationError, match=r"kernel `add` for H200 .* its text is in .*add_\w+\.py"):
        compile_kernel(broken, machine.H200, 4, 3, aligned)


def test_too_much_shared_memory_is_an_error():
    text, _, aligned = emitted(mm.make(), *(halves(4096, 4096) for _ in range(3)))
    with pytest.raises(CompilationError, match="shared memory.*smaller blocks or fewer stages"):
        compile_kernel(text, machine.H200, 8, 6, aligned)


def test_a_damaged_module_is_written_anew(cache):
    path = write_module("kernel", "text = 1\n")
    assert path.parent == cache and path.read_text() == "text = 1\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert write_module("kernel", "text = 1\n") == path
    for damaged in (b"\xff\xfe", b"text = 2\n"):
        path.write_bytes(damaged)
        with pytest.warns(UserWarning, match="written anew"):
            assert write_module("kernel", "text = 1\n").read_text() == "text = 1\n"


def test_another_place_serves_where_the_cache_cannot(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="is not used as a cache"):
        assert write_module("kernel", "text = 1\n").read_text() == "text = 1\n"


def _write(number):
    return write_module("kernel", "text = 1\n" * 10000).read_text() == "text = 1\n" * 10000


def test_many_processes_share_the_cache(cache):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert all(pool.map(_write, range(16)))
    assert len(list(cache.iterdir())) == 1
