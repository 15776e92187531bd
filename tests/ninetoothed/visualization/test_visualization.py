"""Pictures: every cell has a place of its own, and the colours of the programs that hold its element."""

import itertools
import subprocess
import sys

import matplotlib.image
import numpy
import pytest

import ninetoothed
from ninetoothed import ArrangementError, Symbol, Tensor, UnsupportedError
from ninetoothed.visualization import drawing, visualize, visualize_arrangement
from ninetoothed.visualization.example import examples
from ninetoothed.visualization.layout import layout

LEVELS = [
    ((5,),),
    ((3, 4),),
    ((2, 3, 4, 5),),
    ((2, 4), (2, 2)),
    ((3,), (2,), (2, 2)),
    ((2, 1), (), (3, 2, 2)),
    ((1, 1), (1, 1)),
    ((), (4,)),
]


@pytest.mark.parametrize("levels", LEVELS)
def test_no_two_cells_overlap(levels):
    found = layout(levels)
    places = numpy.stack([found.x.reshape(-1), found.y.reshape(-1)], 1)
    for (i, a), (j, b) in itertools.combinations(enumerate(places), 2):
        assert numpy.abs(a - b).max() >= 1, (i, j)
    assert places.min() >= 0 and (places.max(0) + 1 <= numpy.array([found.width, found.height]) + 1e-9).all()


@pytest.mark.parametrize("levels", LEVELS)
def test_a_frame_holds_the_cells_of_its_tile_alone(levels):
    found = layout(levels)
    for level in range(1, len(levels)):
        shape = tuple(itertools.chain(*levels[:level]))
        frames = [frame for frame in found.frames if frame.level == level]
        x, y = (each.reshape(*shape, -1) for each in (found.x, found.y))
        assert len(frames) == numpy.prod(shape, dtype=int)
        for index, frame in zip(numpy.ndindex(shape), frames, strict=True):
            inside = (x > frame.x) & (x + 1 < frame.x + frame.width) & (y > frame.y) & (y + 1 < frame.y + frame.height)
            assert frame.program == index[: len(levels[0])]
            assert inside[index].all() and inside.sum() == inside[index].size


def products(input, other, output):
    rows, columns, inner = (Symbol(name, constexpr=True) for name in ("ROWS", "COLUMNS", "INNER"))
    output = output.tile((rows, columns))
    input = input.tile((rows, inner)).tile((1, -1)).expand((-1, output.shape[1]))
    input.dtype = input.dtype.squeeze(0)
    other = other.tile((inner, columns)).tile((-1, 1)).expand((output.shape[0], -1))
    other.dtype = other.dtype.squeeze(1)
    return input, other, output


def test_an_element_has_the_colours_of_the_programs_that_hold_it():
    arranged = products(*(Tensor(2) for _ in range(3)))
    for example, count in zip(examples(arranged), (3, 3, 1), strict=True):
        source, tiles = drawing._source(example), drawing._tiles(example)
        assert example.levels[0] == (3, 3)
        for number, colors in zip(source.numbers, source.held, strict=True):
            holding = {color for cell, (color,) in zip(tiles.numbers, tiles.held, strict=True) if cell == number}
            assert len(colors) == count and set(colors) == holding


def test_neighbours_have_colours_that_differ():
    example = examples((Tensor(shape=(40, 40), name="x").tile((8, 8)),))[0]
    colors = drawing._tiles(example).colors
    assert min(numpy.abs(numpy.diff(colors, axis=axis)).max(-1).min() for axis in (0, 1)) > 0.05


def test_symbols_stand_for_small_numbers_that_leave_overhang():
    (example,) = examples((Tensor(1, name="x").tile((Symbol("BLOCK", constexpr=True),)),))
    assert example.elements.tolist() == [[0, 1], [2, 3], [4, -1]]
    assert example.title == "x: ((x_size_0 - 1) // BLOCK + 1,), (BLOCK,)"
    assert example.notes == ("x_size_0 = 5", "BLOCK = 2")


def test_numbers_that_are_given_are_shown():
    x = Tensor(1, name="x")
    (example,) = examples((x.tile((4,)).subs({x: {"shape": (9,)}}),))
    assert example.elements.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, -1, -1, -1]] and example.notes == ()


def test_large_tensors_are_cut_with_a_word():
    (example,) = examples((Tensor(shape=(1000, 4000), name="x").tile((32, 64)),))
    assert example.elements.size <= 6400 and example.source.size <= 6400
    assert example.notes[0].startswith("cut: (") and example.notes[0].endswith(" of (32, 63), (32, 64)")
    with pytest.raises(ArrangementError, match="too many to draw; give smaller sizes"):
        visualize(Tensor(shape=(1 << 20, 1 << 20)).tile((32, 64)))


@pytest.mark.parametrize("ending, magic", (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")))
def test_pictures_are_saved_in_the_format_of_the_ending(tmp_path, ending, magic):
    path = tmp_path / f"picture.{ending}"
    visualize_arrangement(products, (Tensor(2), Tensor(2), Tensor(2)), save_path=path)
    assert path.read_bytes().startswith(magic)


def colors_in(path):
    image = (matplotlib.image.imread(path)[..., :3] * 255).round().astype(int)
    found, counts = numpy.unique(image.reshape(-1, 3), axis=0, return_counts=True)
    return {tuple(color) for color, count in zip(found.tolist(), counts, strict=True) if count > 100}


@pytest.mark.parametrize("shape", ((), (1,), (0, 3), (4, 8), (2, 3, 4), (40, 40)))
def test_tensors_of_all_shapes_are_drawn(tmp_path, shape):
    tensor = Tensor(shape=shape, name="x") if shape else Tensor(0, name="x")
    tiled = tensor.tile((2,) * len(shape)) if shape else tensor
    figure = visualize(tiled, color="tab:orange", save_path=tmp_path / "x.png")
    assert ((255, 127, 14) in colors_in(tmp_path / "x.png")) == (0 not in shape)
    width, height = figure.get_size_inches()
    assert width <= 30 and height <= 50


def test_the_colors_of_tiles_are_on_the_picture(tmp_path):
    tensor = Tensor(shape=(4, 8), name="x").tile((2, 2))
    visualize(tensor, save_path=tmp_path / "x.png")
    wanted = drawing._tiles(examples((tensor,))[0]).colors.reshape(-1, 3)
    assert {tuple(color) for color in (wanted * 255).round().astype(int).tolist()} <= colors_in(tmp_path / "x.png")


def test_mistakes_are_named():
    with pytest.raises(ArrangementError, match="`visualize` is given 3; give a symbolic tensor"):
        visualize(3)
    with pytest.raises(ArrangementError, match=r"outermost levels have the shapes \(2,\) of x.* and \(3,\) of y"):
        visualize_arrangement(lambda x, y: (x.tile((3,)), y.tile((2,))), (Tensor(1), Tensor(1)))
    with pytest.raises(ArrangementError, match="give a function, and a tuple of the tensors"):
        visualize_arrangement(products, Tensor(1))


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "ninetoothed.visualization.drawing")
    monkeypatch.delattr(ninetoothed.visualization, "drawing")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(UnsupportedError, match=r"pip install ninetoothed-torch\[visualization\]"):
        visualize(Tensor(1))


def test_no_window_is_asked_for():
    text = (
        "import sys; from ninetoothed import Tensor; from ninetoothed.visualization import visualize;"
        "visualize(Tensor(1)); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", text], check=True)
