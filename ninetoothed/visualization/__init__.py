"""Pictures of symbolic tensors and of arrangements, drawn by matplotlib without a window.

A tensor of several levels is a grid of tiles, each of which is a grid of the next level's: cells are elements of the
source, with their row-major number in it where there is room. Last dimensions lie along x, those before them along y,
in turns; levels are told apart by frames and by gaps. What lies past the end of the source is empty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import UnsupportedError, arrangement_error
from ninetoothed.integrate import run_arrangement
from ninetoothed.visualization.example import Example, examples
from ninetoothed.wording import brief

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["visualize", "visualize_arrangement"]


def visualize(tensor: Tensor, color: Any = None, save_path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw a symbolic tensor, and return the figure.

    Tiles of the outermost level have a colour each, or all have `color` (any of matplotlib's). Symbols stand for small
    numbers, which the title gives; `tensor.subs` gives others. save_path: where to save it; the ending chooses the
    format, such as .png or .svg. Tensors of more than 6400 elements are cut, and the title says so. Raises
    `ArrangementError` for what is no symbolic tensor, and `UnsupportedError` without matplotlib.

    >>> figure = visualize(Tensor(shape=(4, 8), name="x").tile((2, 2)))  # doctest: +SKIP
    """
    if not isinstance(tensor, Tensor):
        what = f"`visualize` is given {brief(tensor)}"
        raise arrangement_error(what, "give a symbolic tensor, such as `Tensor(shape=(4, 8)).tile((2, 2))`")
    draw = _drawing()
    return draw.save(draw.tensor(examples((tensor,))[0], color), save_path)


def visualize_arrangement(
    arrangement: Callable[..., Any], tensors: Iterable[Tensor], save_path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draw what an arrangement makes of each of its tensors, and return the figure.

    There is a row for each parameter: at the left its source, of which each element has the colours of the programs
    that hold it (none: no program does), at the right the arranged tensor, in which each tile of the outermost level
    has the colour of its program. Symbols and `save_path` are as for `visualize`. Raises `ArrangementError` where the
    arrangement does, and where the outermost levels disagree in shape.
    """
    tensors = tuple(tensors) if isinstance(tensors, Iterable) and not isinstance(tensors, Tensor) else tensors
    arranged, names = run_arrangement(arrangement, arrangement, tensors)
    shown = examples(arranged, names)
    _check_grids(shown)
    draw = _drawing()
    return draw.save(draw.arrangement(shown), save_path)


def _check_grids(shown: list[Example]) -> None:
    """Refuse grids of several shapes; a scalar has none."""
    grids = {each.levels[0]: each.title for each in shown if each.levels[0] or len(each.levels) > 1}
    if len(grids) > 1:
        told = " and ".join(f"{grid} of {title}" for grid, title in grids.items())
        raise arrangement_error(
            f"the outermost levels have the shapes {told}", "give tensors of sizes that fit, as `Tensor(shape=(4, 8))`"
        )


def _drawing() -> Any:
    try:
        from ninetoothed.visualization import drawing
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise UnsupportedError(
            "pictures are drawn by matplotlib, which is not installed: `pip install ninetoothed-torch[visualization]`"
        ) from error
    return drawing
