"""Plugin of pytest: products that tests run on the CPU are compiled for Hopper, too, where they must lose no register.

    python -m pytest -p tests.hopper

Verify the machine code of the assembler that Triton bundles, and of a later one where there is one. Left operands that
come from memory as they are stay there: programs with no others are left out.
"""

import functools
import os
from pathlib import Path
from unittest import mock

import triton

from ninetoothed import ir
from ninetoothed.errors import UnsupportedError
from ninetoothed.passes.wgmma_operands import is_in_memory
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.build import encoding, sass, wgmma
from ninetoothed.runtime.selection import machine

BUNDLED = str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas")


def pytest_configure():
    at_risk = set()
    dispatch.Launcher._select = _then_verified(dispatch.Launcher._select, at_risk)
    executable.CpuExecutable.compile = staticmethod(_noted(executable.CpuExecutable.compile, at_risk))


def _noted(compile, at_risk):
    """Wrap the function that gets ready to run a program on the CPU."""

    @functools.wraps(compile)
    def compiled(definition, variant):
        if _is_at_risk(variant.program):
            at_risk.add(definition)
        return compile(definition, variant)

    return compiled


def _then_verified(select, at_risk):
    """Wrap the method that finds a launch for a call of a new signature."""
    verified = set()

    @functools.wraps(select)
    def selected(self, call, place):
        found = select(self, call, place)
        if place.type == "cpu" and self.definition in at_risk:
            variant = dispatch.Launcher(self.definition).trace(call.arguments, dict(call.constants), machine.H200)
            key = (self.definition, variant.selection.specialisation, variant.selection.schedule)
            if key not in verified:
                verified.add(key)
                verify(self.definition, variant)
        return found

    return selected


def _is_at_risk(program):
    """Whether a product's left operand may be held in registers."""
    producers = {result: operation for operation in ir.walk(program.body) for result in ir.results(operation)}
    operations = (operation for operation in producers.values() if isinstance(operation, ir.Apply))
    return any(each.function == "dot" and not is_in_memory(each.operands[0], producers) for each in operations)


def verify(definition, variant):
    """Compile a variant for Hopper with each assembler; its machine code must keep the registers of its PTX."""
    for named in ({"TRITON_PTXAS_PATH": BUNDLED}, {}):
        with mock.patch.dict(os.environ, named):
            try:
                compiled = executable.GpuExecutable.compile(definition, variant)
            except UnsupportedError:
                return  # it runs on the CPU alone
        if wgmma.is_needed(compiled.asm["ptx"]):
            assert not wgmma.faults(compiled.asm["ptx"], compiled.sass())
            check_bits(compiled)


def check_bits(compiled):
    """Machine code read from its bits must have the flow and the products of its text, and touch what that does."""
    try:
        functions = encoding.functions(compiled.asm["cubin"])
    except LookupError:
        return  # it is not known, and is read as text
    for name, text in sass.functions(compiled.sass()).items():
        bits = functions[name]
        assert (text.starts, text.successors) == (bits.starts, bits.successors)
        for one, other in zip(text.instructions, bits.instructions, strict=True):
            for precise, coarse in ((one.writes, other.writes), (one.reads, other.reads)):
                assert {each for each in precise if each.startswith("R")} <= coarse, one.text
            assert (one.wgmma, one.commits, one.waits) == (other.wgmma, other.commits, other.waits), one.text
