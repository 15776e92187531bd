"""Random programs over tiles that end anywhere: as they are, and with overhang poisoned, against PyTorch in float64.

An expression is text that means the same to the language and, on slices that hold just the elements, to PyTorch.
"""

import importlib.util
import random
import types

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from tests.conftest import DEVICE

COUNT = 60

# Tiles, most of no power of two; and how a size is known: in the arrangement, when the kernel is compiled, in the call.
BLOCKS = (3, 5, 7, 8, 9, 12)
KINDS = ("fixed", "constexpr", "open")

UNARY = ("ntl.cos({})", "ntl.exp(-abs({}))", "({} * {})", "({} + 1.5)", "(2.0 - {})", "abs({})", "-{}")
OF_TILES = ("ntl.softmax({})", "ntl.softmax({} + 1.0)")
BINARY = ("({} + {})", "({} - {})", "({} * {})", "ntl.maximum({}, {})", "ntl.minimum({}, {})")
CHOICES = ("ntl.where({} > {}, {}, {})", "ntl.where({} < 0.25, {}, -3.0)")
REDUCTIONS = ("ntl.sum({}, axis)", "ntl.max({}, axis)", "ntl.min({}, axis)", "ntl.reduce({}, axis, product)")
REDUCTIONS += ("ntl.mean({}, axis)", "ntl.var({}, axis, 0)")

TORCH = types.SimpleNamespace(
    cos=torch.cos,
    exp=torch.exp,
    softmax=lambda t: t.softmax(-1),
    maximum=torch.maximum,
    minimum=torch.minimum,
    where=lambda condition, a, b: torch.where(condition, a, b),
    sum=lambda t, axis: t.sum(axis),
    mean=lambda t, axis: t.mean(axis),
    var=lambda t, axis, correction: (t - t.mean(axis)).square().mean(axis),
    max=lambda t, axis: t.amax(axis) if len(t) else t.new_tensor(-float("inf")),
    min=lambda t, axis: t.amin(axis) if len(t) else t.new_tensor(float("inf")),
    # Over no lane at all, a function of one's own gives anything.
    reduce=lambda t, axis, combine: t.prod(axis) if len(t) else t.new_tensor(float("nan")),
    cumsum=lambda t, axis: t.cumsum(axis),
    sort=lambda t: t.sort(-1).values,
)

PROGRAMS = {
    # A tile for each program, its elements one by one or after a scan.
    "tile": """
def application(x, w, y):
    value = {one}
    y = {reduction}
""",
    "scanned": """
def application(x, w, y):
    value = ntl.cumsum({one}, 0)
    y = {reduction}
""",
    "sorted": """
def application(x, w, y):
    value = ntl.sort({one})
    y = {reduction}
""",
    # A part of the tile, of which a program reads one.
    "part": """
def application(x, w, y):
    value = {of_part}
    y = {reduction}
""",
    "assigned again": """
def application(x, w, y):
    value = {one}
    value = value + {again}
    y = {reduction}
""",
    # All tiles for one program: a tile that adds up, a number that does, the last tile.
    "accumulated": """
def application(x, w, y):
    value = ntl.full(({block},), {start}, dtype=ntl.float32)
    for i in range(x.shape[0]):
        value {update} {indexed}
    y = {reduction}
""",
    "numbers": """
def application(x, w, y):
    total = ntl.full((), {start}, dtype=ntl.float32)
    for i in range(x.shape[0]):
        value = {indexed}
        total {update} {reduction}
    y = total
""",
    "last": """
def application(x, w, y):
    value = x[0]
    for i in range(x.shape[0]):
        value = {indexed}
    y = {reduction}
""",
}


# Those of a tile for each program.
TILES = ("tile", "scanned", "sorted", "part", "assigned again")


class Program:
    """The text of an application, and what it computes, by a seed."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.form = self.draw.choice(sorted(PROGRAMS))
        self.block, self.kind = self.draw.choice(BLOCKS), self.draw.choice(KINDS)
        self.size = self.draw.choice((1, 3, 7, 8, 9, 11, 16, 21, 30, self.block, self.block, 2 * self.block))
        self.part = self.draw.randint(2, self.block - 1)
        self.place = self.draw.randrange(-(-self.block // self.part))
        pieces = {
            "block": str(self.block),
            "one": self.expression(3),
            "again": self.expression(2, ("x", "value", "ntl.sum(value, axis)", "ntl.max(value, axis)")),
            "start": str(self.draw.choice((0.0, 1.0, -2.5))),
            "update": self.draw.choice(("+=", "*=")) if self.form == "accumulated" else "+=",
            "reduction": self.draw.choice(REDUCTIONS).format("value"),
        }
        pieces["indexed"] = self.expression(2, ("x[i]", "w[i]"))
        pieces["of_part"] = self.expression(3, (f"x[{self.place}]", f"w[{self.place}]"))
        self.text = PROGRAMS[self.form].format(**pieces).replace("axis", "0")
        self.pieces = {name: text.replace("axis", "0") for name, text in pieces.items()}

    def expression(self, depth, atoms=("x", "w")):
        if depth == 0:
            return self.draw.choice(atoms)
        has_numbers = any("(" in atom for atom in atoms)
        form = self.draw.choice(UNARY + BINARY + CHOICES + (() if has_numbers else OF_TILES))
        return form.format(*(self.expression(depth - 1, atoms) for _ in range(form.count("{}"))))

    @property
    def is_sequence(self):
        return "indexed" in PROGRAMS[self.form].split("{", 1)[1] and self.form not in TILES

    def arrange(self, x, w, y):
        x, w = (tensor.tile((self.block,)) for tensor in (x, w))
        if self.is_sequence:
            x, w = (tensor.tile((-1,)) for tensor in (x, w))
        if self.form == "part":
            x.dtype, w.dtype = (tensor.dtype.tile((self.part,)) for tensor in (x, w))
        return x, w, y.tile((1,))

    def tensor(self):
        """A tensor whose size is known as the program draws it."""
        shape = (self.size if self.kind == "fixed" else None,)
        return Tensor(shape=shape, shape_options={"constexpr": self.kind == "constexpr"})

    def evaluate(self, name, **values):
        return eval(self.pieces[name], {"ntl": TORCH, "product": None, **values})

    def expected(self, x, w):
        """The application on slices that hold just the elements."""
        parts = list(zip(x.split(self.block), w.split(self.block), strict=True))
        if not self.is_sequence:
            after = {"scanned": lambda t: t.cumsum(0), "sorted": lambda t: t.sort().values}
            if self.form == "part":
                own = slice(self.place * self.part, min((self.place + 1) * self.part, self.block))
                values = [self.evaluate("of_part", x={self.place: a[own]}, w={self.place: b[own]}) for a, b in parts]
            else:
                values = [after.get(self.form, lambda t: t)(self.evaluate("one", x=a, w=b)) for a, b in parts]
            if self.form == "assigned again":
                pairs = zip(parts, values, strict=True)
                values = [value + self.evaluate("again", x=a, value=value) for (a, _), value in pairs]
            return torch.stack([self.evaluate("reduction", value=value) for value in values])
        start = float(self.pieces["start"])
        value = torch.full((self.block,), start, dtype=x.dtype, device=x.device)
        total = torch.tensor(start, dtype=x.dtype, device=x.device)
        for i, (a, _) in enumerate(parts):
            new = self.evaluate("indexed", i=i, x=[a for a, _ in parts], w=[b for _, b in parts])
            if self.form == "accumulated":
                joined = value[: len(a)] + new if self.pieces["update"] == "+=" else value[: len(a)] * new
                value = torch.cat([joined, value[len(a) :]])
            elif self.form == "numbers":
                total = total + self.evaluate("reduction", value=new)
            else:
                value = new
        return (total if self.form == "numbers" else self.evaluate("reduction", value=value))[None]


HEADER = "import ninetoothed.language as ntl\n\n\ndef product(a, b):\n    return a * b\n\n"


def application_of(program, path):
    path.write_text(HEADER + program.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.application


@pytest.mark.parametrize("is_poisoned", (False, True))
def test_random_programs(is_poisoned, tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_POISON", str(int(is_poisoned)))
    generator = torch.Generator().manual_seed(3)
    for seed in range(COUNT):
        program = Program(seed)
        kernel = ninetoothed.make(
            program.arrange,
            application_of(program, tmp_path / f"program_{seed}.py"),
            (program.tensor(), program.tensor(), Tensor(1)),
        )
        x, w = (torch.randn(program.size, generator=generator, dtype=torch.float64) for _ in range(2))
        expected = program.expected(x, w)
        y = torch.full(expected.shape, float("nan"), device=DEVICE)
        kernel(x.float().to(DEVICE), w.float().to(DEVICE), y)
        error = (y.double().cpu() - expected).abs() / expected.abs().clamp(min=1.0)
        is_right = (error < 1e-4) | expected.isnan() | (y.cpu() == expected)
        told = f"seed {seed}, {program.size} elements, {program.kind}"
        assert is_right.all(), f"{told}: {y} and not {expected}\n{program.text}"
