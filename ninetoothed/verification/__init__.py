"""Verify a kernel without a GPU: by proof for all sizes, else by counting with small ones."""

from __future__ import annotations

from typing import Any

from ninetoothed.errors import ArgumentTypeError, shortens_tracebacks
from ninetoothed.verification.findings import Finding, Verification
from ninetoothed.wording import brief

__all__ = ["Finding", "Verification", "verify"]


@shortens_tracebacks
def verify(kernel: Any, *args: Any, **kwargs: Any) -> Verification:
    """Verify a kernel without a GPU: by proof for all sizes, else by counting with the numbers of calls.

    args, kwargs: those of a call, in which a tuple of sizes stands for a tensor; the proof is for all calls of its
    class (the same types, constants and block sizes, and what is known of strides and multiples). Without any, it is
    for contiguous tensors of whatever sizes.

    Each claim is "proved", "refuted" by an example that was counted and whose programs were run on the CPU, or "not
    decided": of places that are loaded, and of what neither a proof nor counting answers. Of tensors that share memory
    it says, too, whether a program touches what another stores. Notes tell which dimensions of the grid are
    independent, and how many programs read an element. `str` of the result is a table, `bool` whether all is proved.

    Raises `ArgumentTypeError` for what is no kernel, `ArgumentError` where a call must tell more than sizes (constexpr
    parameters), and what the call would raise.

    >>> import ninetoothed
    >>> def arrangement(x, y):
    ...     return x.tile((64,)), y.tile((64,))
    >>> def double(x, y):
    ...     y = 2 * x
    >>> kernel = ninetoothed.make(arrangement, double, (ninetoothed.Tensor(1), ninetoothed.Tensor(1)))
    >>> ninetoothed.verify(kernel).verdict
    'proved'
    """
    if getattr(kernel, "definition", None) is None:
        raise ArgumentTypeError(f"`verify` takes a kernel that `make` or `jit` has made, and got {brief(kernel)}")
    from ninetoothed.verification import claims  # needs PyTorch, which takes long to import

    return claims.verify(kernel, args, kwargs)
