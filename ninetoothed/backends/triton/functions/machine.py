"""Random numbers, assertions, barriers, and instructions of the GPU's own."""

from __future__ import annotations

import ast

from ninetoothed import ir
from ninetoothed.backends.triton import barriers, syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions.values import called, dtype_node, whole


def _device_assert(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    return ValueText(syntax.call("tl.device_assert", operands[0].node, operation.attribute("message", "")))


def _debug_barrier(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    barriers.forget(context)
    return ValueText(syntax.call("tl.debug_barrier"))


def _inline_asm(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    types = [dtype_node(result.type.dtype) for result in operation.results]
    node = syntax.call(
        "tl.inline_asm_elementwise",
        operation.attribute("asm"),
        operation.attribute("constraints"),
        ast.List(whole(operation, operands)),
        dtype=types[0] if len(types) == 1 else ast.Tuple(types),
        is_pure=operation.attribute("is_pure", True),
        pack=operation.attribute("pack", 1),
    )
    return ValueText(node, operation.results[0].type.lanes)


def _philox_impl(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Print Philox; in Triton the keys come last."""
    k0, k1, *counters = whole(operation, operands)
    rounds = operation.attribute("n_rounds")
    node = syntax.call("tl.philox_impl", *counters, k0, k1, n_rounds=None if rounds == 10 else rounds)
    return ValueText(node, operation.results[0].type.lanes)


FUNCTIONS = {
    **dict.fromkeys(("rand", "randn", "randint", "randint4x"), called(n_rounds=10)),
    "philox_impl": _philox_impl,
    "device_assert": _device_assert,
    "debug_barrier": _debug_barrier,
    "inline_asm_elementwise": _inline_asm,
}
