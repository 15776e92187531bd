"""Pass: overhang never contributes. See "Overhang never contributes" in the language's description.

    x = load(x_ptr + lane, mask=lane < n)          x = load(x_ptr + lane, mask=lane < n)
    y = max(x)                                 ->  y = max(where(lane < n, x, -inf))

A lane is overhang if it rounds an extent up, or lies past the end of a dimension that `tile` cuts. Values carry
*edges*, which tell these lanes; what looks at several lanes at once (reductions, scans, sorts, products along their
depth, atomics, assertions) leaves overhang out. A mask is emitted only where it is needed:

  * not where no later use can tell (`observed`): the rows of a product that are never written;
  * not where the lanes are known to hold what makes no difference (`contents`): 0 in `sum(x * x)`;
  * and rather than by a mask, a load fills its overhang with what its uses need: -inf for a softmax.

An assignment whose value depends on what the variable held (`assign`) keeps that value where another operand is
overhang: `total += x[i]` adds nothing there.
"""

from ninetoothed.passes.overhang.resolve import resolve

__all__ = ["resolve"]
