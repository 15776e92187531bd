"""Machine code read from its bits touches at least the registers that its text names, and flows as its text says."""

import functools
import re

import pytest

pytest.importorskip("triton")

from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.build import encoding, wgmma
from ninetoothed.runtime.selection import machine
from tests.hopper import check_bits
from tests.ninetoothed.runtime.build import attention
from tests.ninetoothed_ops.kernels import calls

MOVE = 0x000FE20000000F000000000000007202  # MOV R0, R0
CALL, BRANCH, GUARD = 0x944, 0x947, 0xF << 12


@pytest.fixture
def kept(bundled):
    """An attention whose machine code keeps its query: PTX, and a cubin."""
    return compiled_once()


@functools.cache
def compiled_once():
    asm = executable.GpuExecutable.compile(*attention.variant(128, 4)).asm
    assert wgmma.faults(asm["ptx"], asm["cubin"]) == ()
    return asm["ptx"], asm["cubin"]


@pytest.mark.parametrize("name", ("mm", "sdpa", "conv2d", "rms_norm"))
def test_bits_touch_what_the_text_says(name):
    kernel, arguments = calls.large(name)
    launcher = dispatch.launcher_of(kernel)
    compiled = executable.GpuExecutable.compile(launcher.definition, launcher.trace(arguments, {}, machine.H200))
    check_bits(compiled.sass(), compiled.asm["cubin"])
    assert wgmma.faults(compiled.asm["ptx"], compiled.asm["cubin"]) == ()


@pytest.mark.parametrize("rows, warps", ((64, 4), (128, 8)))
def test_bits_show_that_the_query_is_lost(rows, warps, bundled, monkeypatch):
    monkeypatch.setattr("ninetoothed.runtime.build.triton_cache.sound", lambda kernel, chosen: (kernel, ()))
    definition, variant = attention.variant(rows, warps)
    compiled = attention.compiled(definition, variant)
    check_bits(compiled.sass(), compiled.asm["cubin"])
    found = wgmma.faults(compiled.asm["ptx"], compiled.asm["cubin"])
    assert len(found) >= len(wgmma.faults(compiled.asm["ptx"], compiled.sass())) > 0


def test_every_register_of_a_product_in_flight_is_watched(kept):
    ptx, cubin = kept
    (code,) = encoding.functions(cubin).values()
    place, product = next((n, each) for n, each in code.wgmmas.items() if each.left)
    for register in (*product.left, *product.accumulator):
        move = MOVE | int(register[1:]) << 16
        found = wgmma.faults(ptx, patched(cubin, code, place + 1, move))
        assert any(fault.reason.startswith(f"{register} of `") for fault in found), register
    assert wgmma.faults(ptx, patched(cubin, code, place + 1, MOVE)) == ()


@pytest.mark.parametrize("patch", ("call", "indirect", "guarded", "far", "type"))
def test_what_is_not_known_is_not_taken_for_sound(patch, kept):
    ptx, cubin = kept
    (code,) = encoding.functions(cubin).values()
    place = next(iter(code.wgmmas))
    product = int(code.instructions[place].text, 16)
    n, word = {
        "call": (0, MOVE & ~0xFFF | CALL),
        "indirect": (0, MOVE & ~0xFFF | 0x949),
        "guarded": (place, product & ~GUARD),
        "far": (0, 7 << 87 | 1 << 60 | 7 << 12 | BRANCH),
        "type": (place, product ^ 1 << 75),
    }[patch]
    assert wgmma.faults(ptx, patched(cubin, code, n, word))


def patched(cubin, code, place, word):
    """A cubin in which one instruction is another."""
    own = b"".join(int(each.text, 16).to_bytes(16, "little") for each in code.instructions[: place + 1])
    (found,) = re.finditer(re.escape(own), cubin)
    return cubin[: found.end() - 16] + word.to_bytes(16, "little") + cubin[found.end() :]
