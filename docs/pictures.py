"""Draw the pictures of the README, the tutorial and the page on the language: python -m docs.pictures."""

import pathlib

from ninetoothed import Symbol, Tensor
from ninetoothed.visualization import visualize, visualize_arrangement

FOLDER = pathlib.Path(__file__).parent / "pictures"


def product(a, b, c):
    """Arrange a matrix product, as the README does."""
    rows, columns, inner = (Symbol(name, constexpr=True) for name in "MNK")
    c = c.tile(rows, columns)
    return a.tile(rows, inner, loop=1).expand(-1, c.shape[1]), b.tile(inner, columns, loop=0).expand(c.shape[0], -1), c


def main() -> None:
    """Draw them all."""
    FOLDER.mkdir(exist_ok=True)
    visualize(Tensor(shape=(4, 8), name="x").tile((2, 2)), save_path=FOLDER / "tiles.png")
    visualize(Tensor(shape=(4, 8), name="x").tile(None, -1), save_path=FOLDER / "rows.png")
    shapes = {"a": (4, 5), "b": (5, 4), "c": (4, 4)}
    tensors = tuple(Tensor(shape=shape, name=name) for name, shape in shapes.items())
    visualize_arrangement(product, tensors, save_path=FOLDER / "product.png")


if __name__ == "__main__":
    main()
