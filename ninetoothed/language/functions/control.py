"""Loops, program numbers, assertions, printing, and hints that Triton knows."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ninetoothed.language.functions.row import row
from ninetoothed.language.types import DTypeLike, Tile, TileLike


@row
def range(
    start: TileLike,
    end: TileLike | None = None,
    step: TileLike | None = None,
    num_stages: int | None = None,
    loop_unroll_factor: int | None = None,
    disallow_acc_multi_buffer: bool = False,
    flatten: bool = False,
    warp_specialize: bool = False,
    merge: Callable[..., Any] | None = None,
) -> Iterable[int]:
    """Count in a `for` loop, as Python's `range` does. The other options are Triton's, and say how to compile the loop.

    merge: makes one of what two parts of the rounds have left, each of which started from what the variables held
        before the loop; the rounds may then be shared out over several programs. Its parameters are called like the
        variables that the loop carries, and then come those of the other part, in the same order.

    Raises `ApplicationError` where it is not the iterator of a `for` loop, where `merge` takes other variables than the
    loop carries, and where it does more than compute element by element.

    >>> def application(x, y):
    ...     total = ntl.zeros((1,), dtype=ntl.float32)
    ...     for i in ntl.range(x.shape[0], num_stages=1):
    ...         total += x[i]
    ...     y = total
    >>> run(application, torch.tensor([1.0, 2.0, 4.0]), torch.empty(1))
    tensor([7.])

    >>> def merge(highest, other_highest):
    ...     return ntl.maximum(highest, other_highest)
    >>> def application(x, y):
    ...     highest = ntl.full((1,), float("-inf"), dtype=ntl.float32)
    ...     for i in ntl.range(x.shape[0], merge=merge):
    ...         highest = ntl.maximum(highest, x[i])
    ...     y = highest
    >>> run(application, torch.tensor([1.0, 2.0, 4.0]), torch.empty(1))
    tensor([4.])
    """


@row
def static_range(start: int, end: int | None = None, step: int | None = None) -> Iterable[int]:
    """Count in a `for` loop that is unrolled: the variable is known when compiling.

    Raises `ApplicationError` for bounds that are not, and where it is not the iterator of a `for` loop.

    >>> def application(x, y):
    ...     y = x
    ...     for i in ntl.static_range(3):
    ...         y = y * x if i % 2 else y + x
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2))
    tensor([ 3., 10.])
    """


@row
def program_id(axis: int) -> Tile:
    """Return the number of this program: row-major over the outermost level for axis 0, and 0 for axes 1 and 2.

    An arrangement tells each program its tiles, so that few kernels need it. Raises `ApplicationError` for other axes.

    >>> def application(x, y):
    ...     y = x + ntl.program_id(0)
    >>> run(application, torch.tensor([1.0]), torch.empty(1))
    tensor([1.])
    """


@row
def num_programs(axis: int) -> Tile:
    """Return how many programs there are, for axis 0; 1 for axes 1 and 2. Raises `ApplicationError` for other axes.

    >>> def application(x, y):
    ...     y = x / ntl.num_programs(0)
    >>> run(application, torch.tensor([1.0]), torch.empty(1))
    tensor([1.])
    """


@row
def static_print(*values: Any) -> None:
    """Print when compiling what is known then, such as a shape.

    >>> def application(x, y):
    ...     ntl.static_print("shape", x.shape)
    ...     y = x
    >>> _ = run(application, torch.ones(3), torch.empty(3))
    shape (3,)
    """


@row
def static_assert(cond: TileLike, msg: str = "") -> None:
    """Raise `ApplicationError` with `msg` when compiling, unless `cond` holds; it must be known then.

    >>> def application(x, y):
    ...     ntl.static_assert(x.dtype == ntl.float32, "float32 alone")
    ...     y = x
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def device_print(prefix: str, *args: Any) -> None:
    """Print at run time: a text, then tiles. Python's `print` is the same.

    On a CPU each program prints its whole tile, one program after the other; on a GPU each thread prints its elements.

    >>> def application(x, y):
    ...     ntl.device_print("x is", x)
    ...     y = x
    >>> _ = run(application, torch.arange(3.0), torch.empty(3))
    x is tensor([0., 1., 2.])
    """


@row
def device_assert(cond: TileLike, msg: str = "") -> None:
    """Stop with `msg` unless `cond` holds in every element; those past the end of a tile are left out.

    Python's `assert` is the same. On a CPU it raises `ExecutionError`, which names the program and the line.

    >>> def application(x, y):
    ...     ntl.device_assert(x >= 0, "a square root of a negative number")
    ...     y = ntl.sqrt(x)
    >>> run(application, torch.tensor([4.0]), torch.empty(1))
    tensor([2.])
    """


@row
def debug_barrier() -> None:
    """Let all threads of a program wait for each other. On a CPU it does nothing.

    >>> def application(x, y):
    ...     y = x
    ...     ntl.debug_barrier()
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def assume(cond: TileLike) -> None:
    """Accept a fact that Triton's compiler would use, without effect: this compiler proves what it needs.

    >>> def application(x, y):
    ...     ntl.assume(x.shape[0] > 0)
    ...     y = x
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def condition(arg1: TileLike, disable_licm: bool = False) -> Tile:
    """Return the condition of a `while` loop as it is. Triton's option has no effect.

    >>> def application(x, y):
    ...     total = ntl.sum(x)
    ...     while ntl.condition(total > 1):
    ...         total = total / 2
    ...     y = total
    >>> run(application, torch.tensor([5.0, 7.0]), torch.empty(1))
    tensor([0.7500])
    """


@row
def max_constancy(input: TileLike, values: Any) -> Tile:
    """Return `input`. The hint that runs of `values` elements are equal has no effect.

    >>> def application(x, y):
    ...     y = ntl.max_constancy(x, 4)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def max_contiguous(input: TileLike, values: Any) -> Tile:
    """Return `input`. The hint that runs of `values` elements are contiguous has no effect.

    >>> def application(x, y):
    ...     y = ntl.max_contiguous(x, 4)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def multiple_of(input: TileLike, values: Any) -> Tile:
    """Return `input`. The hint that elements are multiples of `values` has no effect.

    >>> def application(x, y):
    ...     y = ntl.multiple_of(x, 16)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def expect_zero(x: TileLike, mask: TileLike) -> Tile:
    """Return `x`. The hint that it is 0 where `mask` is set has no effect.

    >>> def application(x, y):
    ...     y = ntl.expect_zero(x, x == 0)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """


@row
def map_elementwise(scalar_fn: Callable[..., Any], *args: TileLike) -> Any:
    """Call a function on the elements of tiles, which broadcast. It may branch on each; both branches are computed.

    scalar_fn: takes a number for each tile, and returns one, or several as a tuple. It may only compute.
    Raises `ApplicationError` where it loads, stores, prints, asserts, loops or reduces. Triton's `pack` is always 1.

    >>> def selu(value, alpha):
    ...     if value < 0:
    ...         value = alpha * (ntl.exp(value) - 1)
    ...     return value
    >>> def application(x, y):
    ...     y = ntl.map_elementwise(selu, x, 2.0)
    >>> run(application, torch.tensor([1.0, 0.0, -1.0]), torch.empty(3))
    tensor([ 1.0000,  0.0000, -1.2642])
    """


@row
def inline_asm_elementwise(
    asm: str, constraints: str, args: Any, dtype: DTypeLike | tuple[DTypeLike, ...], is_pure: bool, pack: int
) -> Any:
    """Run PTX on the elements of tiles, `pack` of them at a time, as Triton's function of this name does.

    args: tiles, which broadcast. dtype: that of the result, or a tuple of several, for as many results.
    On a GPU alone: on CPU tensors it is an `UnsupportedError`.

    >>> def application(x, y):
    ...     y = ntl.inline_asm_elementwise("abs.f32 $0, $1;", "=f,f", [x], ntl.float32, True, 1)
    >>> x, y = torch.ones(4), torch.empty(4)
    >>> "abs.f32" in str(kernel_of(application, x, y).source(x, y, gpu="h100"))
    True
    """
