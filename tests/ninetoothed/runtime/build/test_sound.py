"""No machine code for Hopper that loses registers: found, avoided, refused, at no cost where nothing is at risk."""

import subprocess

import pytest

from ninetoothed.errors import AssemblerError, CompilationError
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.build import assembler, encoding, wgmma
from ninetoothed.runtime.selection import machine
from tests.ninetoothed.runtime.build import attention
from tests.ninetoothed_ops.kernels import calls

FAULTY = ((64, 4), (128, 8))  # rows, warps
MOVE = 'inline_asm_elementwise("mov.b32 $0, $1;"'


@pytest.fixture
def spent(monkeypatch):
    """A list that grows by one with each run of a tool of the assembler's."""
    seen, original = [], subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: seen.append(command) or original(command, **options)
    )
    return seen


def work(spent):
    """The runs that do more than tell a version."""
    return [command for command in spent if "--version" not in command]


def faults(compiled):
    return wgmma.faults(compiled.asm["ptx"], compiled.sass())


def plainly(definition, variant):
    return attention.compiled(definition, variant)


@pytest.mark.parametrize("rows, warps", FAULTY)
def test_the_bundled_assembler_loses_the_query(rows, warps, bundled):
    message = r"(?s)ptxas 12\.\d.* loses registers of kernel `scaled` for H200.*loop-invariant.*nvidia-cuda-nvcc"
    with pytest.raises(AssemblerError, match=message) as error:
        plainly(*attention.variant(rows, warps))
    assert isinstance(error.value, CompilationError)


@pytest.mark.parametrize("rows, warps", FAULTY)
def test_what_is_emitted_for_it_keeps_the_query(rows, warps, bundled):
    compiled = executable.GpuExecutable.compile(*attention.variant(rows, warps))
    assert MOVE in compiled.emitted.source and wgmma.is_needed(compiled.asm["ptx"])
    assert faults(compiled) == () and compiled.spills == 0


@pytest.mark.parametrize("rows, warps", FAULTY)
def test_a_sound_assembler_keeps_the_query_as_it_is_emitted(rows, warps, sound):
    compiled = executable.GpuExecutable.compile(*attention.variant(rows, warps))
    assert MOVE not in compiled.emitted.source and wgmma.is_needed(compiled.asm["ptx"])
    assert faults(compiled) == () and compiled.spills == 0


@pytest.mark.parametrize("name", ("addmm", "bmm", "conv2d", "linear_rope_into_cache", "linear_swiglu", "mm", "sdpa"))
def test_products_lose_nothing(name, sound, bundled):
    kernel, arguments = calls.large(name)
    launcher = dispatch.launcher_of(kernel)
    compiled = executable.GpuExecutable.compile(launcher.definition, launcher.trace(arguments, {}, machine.H200))
    assert MOVE not in compiled.emitted.source
    ptx = compiled.asm["ptx"]
    if wgmma.is_needed(ptx):
        assert faults(compiled) == wgmma.faults(ptx, assembler.disassemble(sound.assemble(ptx))) == ()


def test_a_sound_assembler_is_used_for_these_kernels_alone(sound):
    from triton import knobs

    own = knobs.nvidia.ptxas
    compiled = executable.GpuExecutable.compile(*attention.variant(64, 4))
    assert knobs.nvidia.ptxas == own and knobs.nvidia.ptxas.path != sound.path
    if not assembler.of_triton().is_sound:
        assert compiled.asm["cubin"] == sound.assemble(compiled.asm["ptx"])
        assert compiled.asm["cubin"] != assembler.of_triton().assemble(compiled.asm["ptx"])


@pytest.mark.parametrize("which", ("bundled", "sound"))
def test_the_verdict_is_kept_with_the_binary(which, request, spent):
    request.getfixturevalue(which)
    definition, variant = attention.variant(64, 4)
    first = executable.GpuExecutable.compile(definition, variant)
    tools = [command[0].rpartition("/")[2] for command in work(spent)]
    if assembler.of_triton().is_sound:  # nothing is assembled anew, or verified
        assert len(tools) == 1 and tools[0].startswith("ptxas")
    else:
        assert tools == {"bundled": ["ptxas"], "sound": ["ptxas", "ptxas"]}[which]
    again = executable.GpuExecutable.compile(definition, variant)
    assert again.asm["cubin"] == first.asm["cubin"] and len(work(spent)) == len(tools)


def test_so_is_a_bad_one(bundled, spent):
    for _ in range(2):
        with pytest.raises(AssemblerError):
            plainly(*attention.variant(64, 4))
    assert len(work(spent)) == 2


def test_the_text_of_machine_code_decides_where_its_bits_do_not(bundled, spent, monkeypatch):
    def unknown(cubin):
        raise LookupError("it is not known")

    monkeypatch.setattr(encoding, "functions", unknown)
    executable.GpuExecutable.compile(*attention.variant(64, 4))
    assert [command[0].rpartition("/")[2] for command in work(spent)] == ["ptxas", "nvdisasm"]


def test_another_assembler_compiles_anew(bundled, monkeypatch, request):
    with pytest.raises(AssemblerError):
        plainly(*attention.variant(64, 4))
    request.getfixturevalue("sound")
    assert faults(plainly(*attention.variant(64, 4))) == ()


def test_the_last_resort_is_a_product_without_wgmma(bundled, monkeypatch):
    monkeypatch.setattr(assembler, "loses_registers", lambda gpu: False)  # so that nothing is done about it
    compiled = executable.GpuExecutable.compile(*attention.variant(64, 4))
    assert "mma.sync" in compiled.asm["ptx"] and "wgmma" not in compiled.asm["ptx"]
    assert ".target sm_90a" in compiled.asm["ptx"] and "desc.load" not in compiled.emitted.source


def test_machine_code_that_cannot_be_read_is_not_launched(bundled, monkeypatch):
    def fails(cubin, has_tables):
        raise OSError("no nvdisasm")

    monkeypatch.setattr(assembler, "disassemble", fails)
    with pytest.raises(AssemblerError, match="cannot be verified: no nvdisasm"):
        plainly(*attention.variant(64, 4))
    monkeypatch.setattr(assembler, "loses_registers", lambda gpu: False)  # so that nothing is done about it
    assert "wgmma" not in executable.GpuExecutable.compile(*attention.variant(64, 4)).asm["ptx"]


@pytest.mark.parametrize("name, gpu", (("mm", machine.H200), ("softmax", machine.H200), ("sdpa", machine.B200)))
def test_where_nothing_is_at_risk_nothing_is_spent(name, gpu, bundled, spent):
    kernel, arguments = calls.large(name)
    launcher = dispatch.launcher_of(kernel)
    executable.GpuExecutable.compile(launcher.definition, launcher.trace(arguments, {}, gpu))
    (once,) = work(spent)
    assert "ptxas" in once[0]
