"""Losses of logits that are products, and their gradients, with no more than a block of the logits in memory.

All products are sums in float32, or float64. Halves that are added up over blocks are kept as two of them, and rounded
once. What is added is added in one order: no result depends on chance.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from ..kernels import (
    add_product as sum_kernels,
    cross_entropy as kernels,
    cross_entropy_backward as gradient_kernels,
    linear_cross_entropy as block_kernels,
    linear_log_sums as tile_kernels,
)
from .cross_entropy import as_vector, given, spread_over, total_of
from .rows import wide
from .written_losses import numbers

# Bytes of a block of logits: where three products compute all, and where a fourth saves memory.
BLOCK, LEAST_BLOCK = 2**30, 2**28
# Blocks take time: there are none unless they need at most so much of the memory of all logits.
WORTHWHILE = 0.8
# Blocks are cut at multiples of so many rows or columns, and rows of logits start at such.
ALIGNMENT = 128


@dataclass(frozen=True)
class Operands:
    """The operands of the logits, rows @ weight^T + bias, and the options of the losses."""

    rows: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    target: torch.Tensor
    class_weight: torch.Tensor | None
    ignore_index: int
    label_smoothing: float
    z_loss: float
    softcap: float | None

    @property
    def classes(self) -> int:
        return self.weight.shape[0]

    def numbers(self) -> tuple[float, float, float, float]:
        """Return what kernels take: keep, spread, softcap, z_loss."""
        return numbers(self.label_smoothing, self.classes, self.softcap, self.z_loss)

    def given(self) -> tuple[torch.Tensor, tuple[bool, ...]]:
        """Return the classes' weights and the flags of kernels."""
        return given(
            self.class_weight, self.label_smoothing, self.softcap, self.z_loss, self.classes, self.rows
        )  # fmt: skip

    def parts_of_rows(self, size: int, kept: int = 0) -> list[slice]:
        """Cut the rows into blocks whose logits take so many bytes at most, unless these and what is `kept` are many.

        kept: the bytes that more than one block take beside their logits.
        """
        rows, of_row = self.rows.shape[0], _aligned(self.classes) * self.rows.itemsize
        parts = _parts(rows, size // of_row)
        is_cut = _longest(parts) * of_row + kept <= WORTHWHILE * rows * of_row

        return parts if is_cut else _parts(rows, rows)

    def parts_of_classes(self, size: int) -> list[slice]:
        """Cut the classes so."""
        return _parts(self.classes, size // (max(self.rows.shape[0], 1) * self.rows.itemsize))

    def blocks_of_rows(self, parts: list[slice]) -> Iterator[tuple[slice, torch.Tensor]]:
        """Compute the logits of rows, block by block, in the same memory."""
        memory = self.rows.new_empty((_longest(parts), _aligned(self.classes)))
        for part in parts:
            logits = memory[: part.stop - part.start, : self.classes]
            multiply(self.rows[part], self.weight.t(), logits, self.bias)
            yield part, logits

    def blocks_of_classes(self, parts: list[slice]) -> Iterator[tuple[slice, torch.Tensor]]:
        """Compute the logits of all rows for some classes, block by block, in the same memory."""
        memory = self.rows.new_empty((self.rows.shape[0], _longest(parts)))
        for part in parts:
            logits = memory[:, : part.stop - part.start]
            multiply(self.rows, self.weight[part].t(), logits, None if self.bias is None else self.bias[part])
            yield part, logits


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _parts(total: int, most: int) -> list[slice]:
    """Cut a dimension into few parts of `most` at most, as even as alignment lets them be."""
    most = max(most, ALIGNMENT)
    count = -(-total // most) or 1
    length = total if count == 1 else min(_aligned(-(-total // count)), most // ALIGNMENT * ALIGNMENT)

    return [slice(start, min(start + length, total)) for start in range(0, total, max(length, 1))]


def _longest(parts: list[slice]) -> int:
    return max((part.stop - part.start for part in parts), default=0)


def multiply(lhs: torch.Tensor, rhs: torch.Tensor, output: torch.Tensor, bias: torch.Tensor | None = None) -> None:
    """Write a product of matrices, with a bias or without."""
    if bias is None:
        torch.mm(lhs, rhs, out=output)
    else:
        torch.addmm(bias, lhs, rhs, out=output)


class Sum:
    """A gradient that is a product, or the sum of one of each block: of halves, what they lose is kept beside them.

    Nothing is computed of a gradient that is not needed.
    """

    def __init__(self, output: torch.Tensor, is_needed: bool, blocks: int):
        self.output, self.is_needed, self.left, self.is_first = output, is_needed, blocks, True
        self.is_apart = is_needed and blocks > 1 and wide(output) is not output.dtype
        # As large as the output; in float32 beside it, a sum would take twice that.
        self.lost = output.new_empty(output.shape) if self.is_apart else output

    def add(self, lhs: torch.Tensor, rhs: torch.Tensor) -> None:
        """Add a product."""
        if not self.is_needed:
            return
        self.left -= 1
        if self.is_apart:
            sum_kernels.make()(lhs, rhs, self.output, self.lost, self.output, self.lost, self.is_first, self.left == 0)
        elif self.is_first:
            multiply(lhs, rhs, self.output)
        else:
            torch.addmm(self.output, lhs, rhs, out=self.output)
        self.is_first = False

    def finish(self) -> None:
        """Write zeros where there was no block."""
        if self.is_needed and self.is_first:
            self.output.zero_()


def losses(given: Operands, loss, lse, mass) -> None:
    """Write the loss of each row, the logarithm of the sum of its exponentials and the sum of its shares."""
    is_half = given.rows.dtype in (torch.float16, torch.bfloat16)
    (_losses_of_tiles if is_half and not given.label_smoothing else _losses_of_blocks)(given, loss, lse, mass)


def _losses_of_tiles(given: Operands, loss, lse, mass) -> None:
    """Compute the losses by three numbers of each row in each tile of the product, with no logits in memory."""
    keep, _, softcap, z_loss = given.numbers()
    weight, (weighted, _, capped, squared) = given.given()
    bias, target = weight if given.bias is None else given.bias, as_vector(given.target)
    shape = 3, given.rows.shape[0], -(-given.classes // tile_kernels.COLUMNS)
    tiles = given.rows.new_empty(shape, dtype=loss.dtype).unbind()
    kernel = tile_kernels.make()
    kernel(given.rows, given.weight.t(), bias, target, softcap, *tiles, given.bias is not None, capped)
    numbers = given.ignore_index, given.classes, keep, z_loss
    tile_kernels.make_of_losses()(*tiles, target, weight, *numbers, loss, lse, mass, weighted, squared)


def _losses_of_blocks(given: Operands, loss, lse, mass) -> None:
    keep, spread, softcap, z_loss = given.numbers()
    weight, flags = given.given()
    total = spread_over(given.class_weight, spread, given.classes, flags)
    kernel = kernels.make(2, kernels.chunk_of(given.classes))
    target = as_vector(given.target)
    for part, logits in given.blocks_of_rows(given.parts_of_rows(LEAST_BLOCK)):
        outputs = (each[part] for each in (loss, lse, mass))
        numbers = given.ignore_index, keep, spread, total, softcap, z_loss
        kernel(logits, target[part], weight, *numbers, *outputs, *flags)


def gradients(given: Operands, grad, lse, mass, outputs, needed) -> None:
    """Write the gradients of rows, weight and bias, of losses whose gradient is `grad`: with the products once more."""
    of_rows, of_weight, of_bias = outputs
    to_rows, to_weight, to_bias = needed
    keep, spread, softcap, z_loss = given.numbers()
    weight, flags = given.given()
    target, numbers = as_vector(given.target), (given.ignore_index, keep, spread, softcap, z_loss)
    parts = given.parts_of_classes(LEAST_BLOCK)
    rows_sum = Sum(of_rows, to_rows, len(parts))
    for part, logits in given.blocks_of_classes(parts):
        kernel = gradient_kernels.make(2, kernels.chunk_of(logits.shape[1]))
        last = part.start, given.classes, logits, *flags
        kernel(grad, logits, target, weight[part], *numbers, lse, mass, *last)
        if to_weight:
            multiply(logits.t(), given.rows, of_weight[part])
        if to_bias:
            of_bias[part] = logits.sum(0, dtype=wide(logits))
        rows_sum.add(logits, given.weight[part])
    rows_sum.finish()


@dataclass(frozen=True)
class Begun:
    """A computation of losses and gradients of which the first product is launched: its operands and its blocks."""

    given: Operands
    parts: list[slice]
    blocks: Iterable[tuple[slice, torch.Tensor]]


def begin(given: Operands, needed) -> Begun:
    """Launch the first product, so that a GPU has work while the rest is allocated and prepared."""
    # As much as the weight's gradient, of halves, if it is added up.
    is_summed = needed[1] and wide(given.rows) is not given.rows.dtype
    parts = given.parts_of_rows(BLOCK, given.weight.nbytes if is_summed else 0)
    blocks = given.blocks_of_rows(parts)

    return Begun(given, parts, itertools.chain(list(itertools.islice(blocks, 1)), blocks))


def loss_and_gradients(begun: Begun, is_mean: bool, loss, outputs, needed) -> None:
    """Write the mean or the sum of the losses, and the gradients of rows, weight and bias, with three products."""
    given = begun.given
    of_rows, of_weight, of_bias = outputs
    to_rows, to_weight, to_bias = needed
    keep, spread, softcap, z_loss = given.numbers()
    weight, flags = given.given()
    shares = spread_over(given.class_weight, spread, given.classes, flags)
    losses = given.rows.new_empty(given.rows.shape[0], dtype=loss.dtype)
    total = total_of(given.target, given.class_weight, given.ignore_index, losses) if is_mean else None
    slope = 1.0 if total is None else total.to(loss.dtype).reciprocal()
    target, kernel = as_vector(given.target), block_kernels.make(kernels.chunk_of(given.classes))
    weight_sum = Sum(of_weight, to_weight, len(begun.parts))
    bias_sum = of_bias.new_zeros(of_bias.shape, dtype=loss.dtype) if to_bias else of_bias
    for part, logits in begun.blocks:
        numbers = given.ignore_index, keep, spread, shares, softcap, z_loss
        kernel(slope, logits, target[part], weight, *numbers, losses[part], *flags)
        if to_rows:
            multiply(logits, given.weight, of_rows[part])
        weight_sum.add(logits.t(), given.rows[part])
        if to_bias:
            bias_sum += logits.sum(0, dtype=loss.dtype)
    weight_sum.finish()
    if to_bias:
        of_bias.copy_(bias_sum)
    loss.copy_(losses.sum() if total is None else losses.sum() / total)
