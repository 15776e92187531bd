"""No kernel that a faulty assembler spoils is launched: its PTX tells, and its machine code is read here alone."""

import logging
import subprocess

import pytest

from ninetoothed.runtime import dispatch, executable, missing
from ninetoothed.runtime.compilation import assembler, ptx
from ninetoothed.runtime.compilation.compile import UnsoundCodeError
from ninetoothed.runtime.selection import machine
from tests.machine_code import attention, sass
from tests.machine_code.faults import faults
from tests.ninetoothed_ops.kernels import calls

FAULTY = ((64, 4), (128, 8))  # rows, warps
MOVE = 'inline_asm_elementwise("mov.b32 $0, $1;"'
# Their left operands come from memory in each round.
SOUND = ("carried, times 1", "carried, times 1.4427", "times the round", "as it is")


@pytest.fixture
def spent(monkeypatch):
    """A list that grows by one with each run of a tool of the assembler's, but for those that tell a version."""
    seen, original = [], subprocess.run

    def run(command, **options):
        if "--version" not in command:
            seen.append(command[0].rpartition("/")[2])
        return original(command, **options)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def found(text, cubin):
    return faults(text, sass.of_cubin(cubin))


def plainly(monkeypatch, rows, warps, spelling):
    """Compile an attention with its query in registers, whatever becomes of it."""
    monkeypatch.setattr(ptx, "keeps_left_operand", lambda text: False)
    asm = attention.compiled(*attention.variant(rows, warps, spelling)).asm
    monkeypatch.undo()
    return asm["ptx"], asm["cubin"]


@pytest.mark.parametrize("rows, warps", FAULTY)
@pytest.mark.parametrize("spelling", attention.APPLICATIONS)
def test_what_the_bundled_assembler_spoils_is_refused(spelling, rows, warps, bundled, monkeypatch):
    text, cubin = plainly(monkeypatch, rows, warps, spelling)
    reasons = [each.reason for each in found(text, cubin)]
    assert bool(reasons) == ptx.keeps_left_operand(text) == (spelling not in SOUND)
    assert all("loop-invariant, is overwritten" in each for each in reasons)


def test_what_it_happens_to_keep_is_refused_too(bundled, monkeypatch):
    text, cubin = plainly(monkeypatch, 64, 8, "scaled before")
    assert ptx.keeps_left_operand(text) and not found(text, cubin)


@pytest.mark.parametrize("spelling", attention.APPLICATIONS)
def test_what_is_compiled_in_its_place_is_sound(spelling, bundled):
    compiled = executable.compile_for_gpu(*attention.variant(128, 8, spelling))
    text = compiled.asm["ptx"]
    is_moved = MOVE in compiled.emitted.source
    assert is_moved == (spelling in ("scaled before", "chosen before", "by a helper"))
    assert ("wgmma.mma_async" in text) == (is_moved or spelling in SOUND)
    assert not ptx.has_left_operands(text) or not found(text, compiled.asm["cubin"])
    assert "wgmma.mma_async" in text or ("mma.sync" in text and ".target sm_90a" in text)
    assert "wgmma.mma_async" in text or "desc.load" not in compiled.emitted.source


@pytest.mark.parametrize("rows, warps", FAULTY)
@pytest.mark.parametrize("spelling", ("scaled before", "chosen in each round", "carried for the next"))
def test_a_sound_assembler_keeps_the_query_as_it_is_emitted(spelling, rows, warps, sound):
    compiled = executable.compile_for_gpu(*attention.variant(rows, warps, spelling))
    assert MOVE not in compiled.emitted.source and ptx.has_left_operands(compiled.asm["ptx"])
    assert found(compiled.asm["ptx"], compiled.asm["cubin"]) == () and compiled.spills == 0


PRODUCTS = ("addmm", "bmm", "conv2d", "linear_rope_into_cache", "linear_swiglu", "mm", "sdpa", "sdpa_capped")
PRODUCTS += ("sdpa_backward_key_value", "sdpa_backward_query")


def shipped(name, gpu=machine.H200):
    kernel, arguments = calls.large(name)
    launcher = dispatch.launcher_of(kernel)
    return executable.compile_for_gpu(launcher.definition, launcher.trace(arguments, {}, gpu))


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_is_shipped_keeps_its_registers_and_its_instructions(name, bundled):
    compiled = shipped(name)
    assert "wgmma.mma_async" in compiled.asm["ptx"] and MOVE not in compiled.emitted.source
    assert faults(compiled.asm["ptx"], sass.disassembled(compiled)) == ()


def test_a_log_line_tells_the_cure(bundled, caplog):
    missing.tell.cache_clear()
    with caplog.at_level(logging.INFO, "ninetoothed"):
        executable.compile_for_gpu(*attention.variant(64, 4, "scaled in each round"))
    (line,) = [each.message for each in caplog.records if "wgmma" in each.message]
    assert line.startswith(f"{bundled} may lose registers of kernel `scaled`") and "nvidia-cuda-nvcc>=13.3" in line


@pytest.mark.parametrize("text", (None, "all", "?"), ids=("none", "unlike", "broken"))
def test_a_kernel_whose_ptx_cannot_be_read_does_without_wgmma(text, bundled, monkeypatch):
    def unread(kernel, chosen):
        if text is None:
            kernel.asm = {name: each for name, each in kernel.asm.items() if name != "ptx"}
        return original(kernel, chosen)

    original = executable.compile_kernel.__globals__["triton_cache"]._assembled
    monkeypatch.setattr("ninetoothed.runtime.compilation.triton_cache._assembled", unread)
    if text is not None:
        broken = {"all": lambda found: {}["it"], "?": lambda found: ptx._function(f"\n{{\n{text}\n}}")}[text]
        monkeypatch.setattr(ptx, "functions", broken)
    definition, variant = attention.variant(64, 4, "as it is")
    compiled = executable.compile_for_gpu(definition, variant)
    assert "wgmma" not in compiled.asm.get("ptx", "") and b"HGMMA" not in compiled.asm["cubin"]
    assert "HGMMA" not in sass.disassembled(compiled) and "HMMA" in sass.disassembled(compiled)


def test_a_sound_assembler_is_used_for_these_kernels_alone(sound):
    from triton import knobs

    own = knobs.nvidia.ptxas
    compiled = executable.compile_for_gpu(*attention.variant(64, 4))
    assert knobs.nvidia.ptxas == own and knobs.nvidia.ptxas.path != sound.path
    if not assembler.of_triton().is_sound:
        assert compiled.asm["cubin"] == sound.assemble(compiled.asm["ptx"])
        assert compiled.asm["cubin"] != assembler.of_triton().assemble(compiled.asm["ptx"])


@pytest.mark.parametrize("which", ("bundled", "sound"))
def test_the_verdict_is_kept_with_the_binary(which, request, spent, monkeypatch):
    request.getfixturevalue(which)
    definition, variant = attention.variant(64, 4)
    first = executable.compile_for_gpu(definition, variant)
    tools = len(spent)
    assert all(each.startswith("ptxas") for each in spent)
    assert tools == 1 if which == "bundled" or assembler.of_triton().is_sound else tools == 2
    monkeypatch.setattr(ptx, "keeps_left_operand", None)  # nobody asks again
    again = executable.compile_for_gpu(definition, variant)
    assert again.asm["cubin"] == first.asm["cubin"] and len(spent) == tools


def test_so_is_a_bad_one(bundled, spent):
    for _ in range(2):
        with pytest.raises(UnsoundCodeError):
            attention.compiled(*attention.variant(64, 4))
    assert len(spent) == 1


def test_another_assembler_compiles_anew(bundled, request):
    with pytest.raises(UnsoundCodeError):
        attention.compiled(*attention.variant(64, 4))
    request.getfixturevalue("sound")
    compiled = attention.compiled(*attention.variant(64, 4))
    assert faults(compiled.asm["ptx"], sass.disassembled(compiled)) == ()


@pytest.mark.parametrize("name, gpu", (("mm", machine.H200), ("sdpa", machine.H200), ("sdpa", machine.B200)))
def test_nothing_but_the_assembler_runs(name, gpu, bundled, spent):
    shipped(name, gpu)
    (once,) = spent
    assert once.startswith("ptxas")
