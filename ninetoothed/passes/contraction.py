"""Pass: of two products that are added, the multiplication of the FMA is the same one in each variant.

    turned = even * sin + odd * cos   ->   turned = fma(even, sin, odd * cos)
    kept = even * cos - odd * sin     ->   kept = fma(even, cos, -(odd * sin))

A GPU's compiler contracts one of them anyway, as its instructions happen to lie: with larger tiles it is the other one,
and the last bit of a row would depend on how many rows there are. Here it is the one of more elements, else the one
that nothing else reads, else the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.dtypes import float32, float64
from ninetoothed.passes.operations import producers, readers, unrepeated


def contract(program: ir.Program) -> ir.Program:
    """Write sums and differences of two products as FMAs."""
    reads = {value: len(operations) for value, operations in readers(program.body).items()}
    contractor = _Contractor(defined_by=producers(program.body), reads=reads)
    return replace(program, body=contractor.block(program.body))


@dataclass(kw_only=True)
class _Contractor(ir.Rewriter):
    """Writes FMAs. defined_by: the operations that define values. reads: how many operations read each."""

    defined_by: Mapping[ir.Value, ir.Operation]
    reads: Mapping[ir.Value, int]

    def operation(self, operation: ir.Operation) -> ir.Block:
        match operation:
            case ir.Apply(function="add" | "sub", results=(result,)) if result.type.dtype in (float32, float64):
                return self._contracted(operation)
        return (self.rebuilt(operation),)

    def _contracted(self, operation: ir.Apply) -> ir.Block:
        """Write a sum as an FMA, if it is one of two products."""
        # A product whose lanes are repeated has fewer elements.
        whole = [place for place, each in enumerate(operation.operands) if self._is_product(each)]
        if not whole or not all(self._is_product(unrepeated(each, self.defined_by)) for each in operation.operands):
            return (operation,)
        place = min(whole, key=lambda place: self._rank(operation.operands[place]))
        x, y = ir.operands(self.defined_by[operation.operands[place]])
        z, negations = operation.operands[1 - place], []
        if operation.function == "sub":
            negations = [ir.Apply.of("neg", (z if place == 0 else x,))]
            x, z = (x, negations[0].result) if place == 0 else (negations[0].result, z)
        return (*negations, replace(operation, function="fma", operands=(x, y, z)))

    def _rank(self, product: ir.Value) -> tuple[int, int]:
        return -math.prod(product.type.lanes), self.reads[product]

    def _is_product(self, value: ir.Value) -> bool:
        producer = self.defined_by.get(value)
        return isinstance(producer, ir.Apply) and producer.function == "mul"
