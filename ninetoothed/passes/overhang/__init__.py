"""Pass: overhang never contributes. See "Overhang never contributes" in the language's description.

    x = load(x_ptr + lane, mask=lane < n)          x = load(x_ptr + lane, mask=lane < n)
    y = max(x)                                 ->  y = max(where(lane < n, x, -inf))

A lane is overhang if it rounds an extent up, or lies past the end of a dimension that `tile` cuts. Values carry
*edges*, the conditions that tell which lanes these are. Operations that combine lanes (reductions, scans, sorts,
products along their depth, atomics, assertions) leave overhang out. A mask is emitted only where it is needed:

  * not if no later use reads these lanes (`observed`), such as the rows of a product that are never written;
  * not if the lanes are known to hold a neutral number (`contents`), such as 0 in `sum(x * x)`;
  * and not if a load can fill its overhang with the number that its uses need (`fills`), such as -inf for a softmax.

An assignment whose value depends on what the variable held (`assign`) keeps that value where another operand is
overhang: `total += x[i]` adds nothing there.
"""

from ninetoothed.passes.overhang.resolve import resolve

__all__ = ["resolve"]
