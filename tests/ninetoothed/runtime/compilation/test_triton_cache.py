"""Machine code of earlier processes: found again, never mistaken, and compiled anew where it is gone."""

import errno
import multiprocessing
import os
import shutil
import warnings

import pytest

triton = pytest.importorskip("triton")

from triton import knobs  # noqa: E402
from triton.runtime import cache  # noqa: E402

from ninetoothed.backends.triton import emit  # noqa: E402
from ninetoothed.runtime import dispatch  # noqa: E402
from ninetoothed.runtime.compilation import triton_cache  # noqa: E402
from ninetoothed.runtime.compilation.compile import compile_kernel  # noqa: E402
from ninetoothed.runtime.selection.machine import A100, H200  # noqa: E402
from ninetoothed_ops.kernels import silu  # noqa: E402


@pytest.fixture
def compiled(monkeypatch):
    """A list that grows by one with each compilation of Triton's."""
    seen, original = [], triton.compile
    monkeypatch.setattr(triton, "compile", lambda *args, **kwargs: seen.append(args) or original(*args, **kwargs))
    return seen


def build(gpu=H200, num_warps=4, aligned=frozenset({"input", "output"}), size=1024):
    import torch

    x = torch.empty(size, dtype=torch.float16)
    program = dispatch.program(silu.make(1), (x, x), {})
    return compile_kernel(emit(program), gpu, num_warps, 3, aligned)


def test_what_was_compiled_is_found(compiled):
    first, second = build(), build()
    assert len(compiled) == 1
    assert second.asm["cubin"] == first.asm["cubin"] and second.kernel.metadata == first.kernel.metadata
    assert second.registers == first.registers


def test_nothing_else_is_taken_for_it(compiled):
    build()
    others = ({"gpu": A100}, {"num_warps": 8}, {"aligned": frozenset()}, {"size": 1000})
    for count, options in enumerate(others, 2):
        build(**options)
        assert len(compiled) == count, options


def test_another_triton_compiles_anew(compiled, monkeypatch):
    build()
    monkeypatch.setattr(triton_cache, "_fingerprint", lambda: "another")
    build()
    assert len(compiled) == 2


def test_so_does_an_option_in_the_environment(compiled, monkeypatch):
    build()
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    build()
    assert len(compiled) == 2


@pytest.mark.parametrize("lost", ("*", "*.json"))
def test_what_is_gone_from_the_cache_of_triton_is_compiled_anew(lost, compiled, directories):
    first = build()
    for path in (directories / "triton").glob(lost if lost == "*" else f"*/{lost}"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert build().asm["cubin"] == first.asm["cubin"] and len(compiled) == 2


@pytest.mark.parametrize("content", ("", "{", '{"key": 1, "result": {"hash": "x"}}'))
def test_a_broken_file_is_ignored_with_a_warning(content, compiled, directories):
    build()
    (path,) = (directories / "ninetoothed" / "compiled").iterdir()
    path.write_text(content)
    with pytest.warns(UserWarning, match="ignored"):
        build()
    build()
    assert len(compiled) == 2


def test_a_key_of_nothing_is_compiled_anew(compiled, monkeypatch):
    build()
    with monkeypatch.context() as patch:
        patch.setattr(
            triton_cache._Kept, "understood", lambda result: triton_cache._Kept("0" * 64, result["digest"], ())
        )
        build()
    assert len(compiled) == 2


@pytest.mark.parametrize("suffix", ("cubin", "json"))
def test_files_of_triton_that_were_cut_off_or_changed_are_not_loaded(suffix, directories, monkeypatch):
    first = build()
    (path,) = (path for path in (directories / "triton").glob(f"*/*.{suffix}") if "__grp__" not in path.name)
    whole, compiled = path.read_bytes(), []
    monkeypatch.setattr(triton, "compile", lambda *args, **kwargs: compiled.append(args) or first.kernel)
    build()
    assert not compiled
    builds = 0
    with pytest.warns(UserWarning, match="not what was compiled"):
        for size in range(0, len(whole), len(whole) // 25):
            for content in (whole[:size], whole[:size] + bytes([whole[size] ^ 1]) + whole[size + 1 :]):
                path.write_bytes(content)
                build()
                builds += 1
    assert len(compiled) == builds >= 50


@pytest.mark.parametrize("files", ("*", "__grp__*", "*.cubin"))
def test_a_kernel_that_is_broken_is_compiled_anew_and_found_from_then_on(files, compiled, directories):
    first = build()
    for path in (directories / "triton").glob(f"*/{files}"):
        path.write_bytes(path.read_bytes()[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert build().asm["cubin"] == first.asm["cubin"]
    assert build().asm["cubin"] == first.asm["cubin"] and len(compiled) == 2


def test_nothing_that_others_put_into_tritons_cache_is_asked_for(compiled, directories):
    """Without a record of our own, what Triton has under any key is not loaded."""
    build()
    shutil.rmtree(directories / "ninetoothed")
    for path in (directories / "triton").glob("*/*.cubin"):
        path.write_bytes(b"another")
    assert build().asm["cubin"] != b"another" and len(compiled) == 2


@pytest.mark.filterwarnings("ignore:.* is ignored and written anew")
@pytest.mark.parametrize("reason", (errno.ENOSPC, errno.EROFS, errno.EACCES))
def test_another_place_serves_where_tritons_cache_takes_nothing(reason, directories, monkeypatch):
    original = os.makedirs

    def fail(path, *args, **kwargs):
        if str(path).startswith(str(directories / "triton")):
            raise OSError(reason, os.strerror(reason))
        return original(path, *args, **kwargs)

    monkeypatch.setattr(os, "makedirs", fail)
    assert build().asm["cubin"] and knobs.cache.dir == str(directories / "triton")
    assert build().asm["cubin"]


def test_hooks_see_every_compilation(compiled):
    build()
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        build()
    assert len(compiled) == 2


def _times_hashed(_):
    cache.triton_key.cache_clear()
    build()
    return cache.triton_key.cache_info().misses


def test_a_new_process_hashes_nothing():
    for expected in (1, 0):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.map(_times_hashed, [None]) == [expected]
