"""Plugin of pytest: products that tests run on the CPU are compiled for Hopper, too, where they must lose no register.

    python -m pytest -p tests.hopper

Read the machine code of the assembler that Triton bundles, and of a later one where there is one, of each kind of
program once: those that differ in sizes, strides and guards alone are one kind. What PTX warns of is compiled without
wgmma where the assembler is not sound. Left operands that come from memory as they are stay there, and products in
whole float32 are none of tensor cores: programs with no others are left out.
"""

import functools
import hashlib
import os
from pathlib import Path

import pytest

from ninetoothed import ir
from ninetoothed.errors import ResourceError, UnsupportedError
from ninetoothed.passes import wgmma_operands
from ninetoothed.passes.products import Feeds
from ninetoothed.runtime import dispatch, executable, private_triton
from ninetoothed.runtime.compilation import assembler, ptx
from ninetoothed.runtime.selection import machine
from tests.machine_code import sass
from tests.machine_code.faults import faults


@pytest.hookimpl(trylast=True)
def pytest_configure():
    pending, seen = set(), Path(os.environ["NINETOOTHED_CACHE_DIR"]).with_name("verified")
    seen.mkdir(parents=True, exist_ok=True)
    dispatch.Launcher._executable = _then_verified(dispatch.Launcher._executable, pending)
    executable.prepare_for_host = _noted(executable.prepare_for_host, pending, seen)


def _noted(compile, pending, seen):
    """Wrap the function that gets ready to run a program on the CPU: note the first of each kind that is at risk."""

    @functools.wraps(compile)
    def compiled(definition, variant):
        if _is_at_risk(variant.program):
            try:
                (seen / _kind(variant.program)).touch(exist_ok=False)  # parallel workers share them
            except FileExistsError:
                pass
            else:
                pending.add(definition)
        return compile(definition, variant)

    return compiled


def _then_verified(make, pending):
    """Wrap the method that makes what runs a call of a new signature."""

    @functools.wraps(make)
    def made(self, plan, call, device):
        found = make(self, plan, call, device)
        if plan.definition in pending:
            pending.remove(plan.definition)
            if not plan.definition.is_jagged:  # Of these, arguments are taken apart by now, and cannot be bound again.
                variant = dispatch.Launcher(plan.definition).trace(call.arguments, dict(call.constants), machine.H200)
                verify(plan.definition, variant)
        return found

    return made


def _is_at_risk(program):
    """Whether a product's left operand may be held in registers, and the product be one of tensor cores."""
    feeds = Feeds(program.body)
    operations = (each for each in ir.walk(program.body) if isinstance(each, ir.Apply) and each.function == "dot")
    products = (each for each in operations if not any(map(wgmma_operands._is_viewed, feeds.of(each.operands[0]))))
    return any(
        each.operands[0].type.dtype.bits < 32 or each.attribute("input_precision", "ieee") != "ieee"
        for each in products
    )


def _kind(program):
    """Digest the operations of a program, with the types of their results: not how many lanes the CPU gives them.

    Halves of either type are one: they differ in conversions.
    """
    operations = [
        (type(each), getattr(each, "function", ""), *(str(value.type.dtype) for value in ir.results(each)))
        for each in ir.walk(program.body)
    ]
    text = repr((program.name, operations)).replace("bfloat16", "float16")
    return hashlib.sha256(text.encode()).hexdigest()


def verify(definition, variant):
    """Compile a variant for Hopper; no assembler may spoil it, but what its PTX warns of."""
    try:
        compiled = executable.compile_for_gpu(definition, variant)
    except UnsupportedError:
        return  # it runs on the CPU alone
    except ResourceError:
        return  # a call tries another schedule
    text = compiled.asm["ptx"]
    if not ptx.has_left_operands(text):
        return
    assert not faults(text, sass.disassembled(compiled))
    if not ptx.keeps_left_operand(text):
        bundled = private_triton.assembler(machine.H200.architecture).path
        assert not faults(text, sass.of_cubin(assembler.Assembler(bundled, (0, 0)).assemble(text)))
