"""Random applications: their text, for the compiler and for the oracle of `semantics`."""

from __future__ import annotations

import random
from dataclasses import dataclass

FLOATING = ("({} + {})", "({} - {})", "({} * {})", "ntl.maximum({}, {})", "ntl.minimum({}, {})")
INTEGER = (*FLOATING, "({} & {})", "({} | {})", "({} ^ {})")
UNARY = ("ntl.abs({})", "(-{})", "ntl.exp(ntl.minimum({}, 2.0))", "ntl.sigmoid({})", "ntl.tanh({})", "ntl.floor({})")
COMPARISONS = ("<", "<=", ">", ">=")
REDUCTIONS = ("sum", "max", "min")


@dataclass(frozen=True)
class Application:
    """The text of an application of `x, y, n, out`, and the same for the oracle; `kept`: the axes of what is stored."""

    text: str
    oracle: str
    kept: frozenset[int]


class Writer:
    """Writes statements over variables, of each of which it knows the axes that are not reduced to one element.

    rank: of a tile. steps: the shape of the sequence of tiles that `x` is; () where it is one. Loops read them one by
    one, and expressions read some by their numbers.
    """

    def __init__(self, rng: random.Random, rank: int, steps: tuple[int, ...], is_floating: bool):
        self.rng, self.rank, self.steps, self.is_floating = rng, rank, steps, is_floating
        self.all = frozenset(range(rank))
        self.variables: dict[str, frozenset[int]] = {}
        self.sources: dict[str, set[str]] = {}  # The variables from whose values each was computed.
        self.hidden = ""  # The variable being assigned: the rules for what is computed from it are others.
        self.lines: list[tuple[str, str]] = []  # The line, and the variable whose old value it reads.

    def literal(self) -> str:
        return self.rng.choice(("0.5", "2.0", "-1.5", "3.0", "0.0") if self.is_floating else ("1", "2", "-3", "5"))

    def atom(self, within: frozenset[int]) -> tuple[str, frozenset[int]]:
        fit = [
            name for name, kept in self.variables.items() if kept <= within and self.hidden not in self.sources[name]
        ]
        tiles = ["y", self.whole()] if within == self.all else []
        names = [*fit, *tiles, *tiles]
        name = self.rng.choice(names) if names else ""
        return (name, self.variables.get(name, self.all)) if name else (self.literal(), frozenset())

    def whole(self) -> str:
        """The text of the tile of `x`, or of one of them: by a number from the start or from the end."""
        places = [self.rng.randrange(-1, size) for size in self.steps]
        return f"x[{', '.join(map(str, places))}]" if places else "x"

    def expression(self, within: frozenset[int], depth: int = 0) -> tuple[str, frozenset[int]]:
        """The text of an expression and its axes, all of which are within these."""
        kind = self.rng.random()
        if depth > 2 or kind < 0.25:
            return self.atom(within)
        if kind < 0.55 and depth:
            return self.reduction(within)
        a, kept = self.expression(within, depth + 1)
        if not is_tile(a):
            return self.atom(within)
        if kind < 0.65 and self.is_floating:
            return self.rng.choice(UNARY).format(a), kept
        if kind < 0.68 and not self.is_floating:
            return f"({a} {self.rng.choice(('//', '%'))} {self.rng.choice((3, 4, -3, 7))})", kept
        b, other = self.operand(within, depth)
        if kind < 0.75:
            c, third = self.operand(within, depth)
            return f"ntl.where({a} {self.rng.choice(COMPARISONS)} {b}, {a}, {c})", kept | other | third
        if kind < 0.8 and self.is_floating and is_tile(b):
            return f"({a} / (ntl.abs({b}) + 1.0))", kept | other
        return self.rng.choice(FLOATING if self.is_floating else INTEGER).format(a, b), kept | other

    def operand(self, within, depth):
        return (self.literal(), frozenset()) if self.rng.random() < 0.25 else self.expression(within, depth + 1)

    def reduction(self, within: frozenset[int]) -> tuple[str, frozenset[int]]:
        a, kept = self.expression(self.all, 2)
        name = self.rng.choice(REDUCTIONS)
        if not is_tile(a):
            return self.atom(within)
        if self.rng.random() < 0.6:  # A sum of zeros would not tell how many they are.
            a = f"({a} + {self.rng.choice(('1', '3', '-2'))})"
        missing = sorted(self.all - within) or [self.rng.randrange(self.rank)]
        for axis in missing:
            a, kept = f"ntl.{name}({a}, {axis - self.rng.choice((0, self.rank))}, keep_dims=True)", kept - {axis}
        return a, kept

    def assign(self, indent: str = "") -> None:
        """A new variable, or one assigned from its old value, in its type."""
        if self.variables and (indent or self.rng.random() < 0.3):
            name = self.rng.choice(sorted(self.variables))
            self.hidden = name
            value, _ = self.expression(self.variables[name])
            self.hidden = ""
            self.sources[name] |= self.used(value)
            form = self.rng.choice(("({0} + {1})", "({0} - {1})", "({0} * 0.5 + {1})", "ntl.maximum({0}, {1})"))
            form = form if self.is_floating else form.replace("0.5", "2")
            text = form.format(name, f"({value})")
            self.lines.append((f"{indent}{name} = {text}.to({name}.dtype)", name))
            return
        value, kept = self.expression(self.all)
        if is_tile(value):
            value = (
                f"{value} * 2" if value.isalnum() else value
            )  # Two names for one value would be told apart by nothing.
            name = f"v{len(self.variables)}"
            self.lines.append((f"{indent}{name} = {value}", ""))
            self.variables[name] = kept
            self.sources[name] = {name} | self.used(value)

    def used(self, text: str) -> set[str]:
        return set().union(*(sources for name, sources in self.sources.items() if name in text))

    def loop(self) -> None:
        """Over tiles of `x` where there are several, else as often as `n` says; or a branch."""
        if self.steps:
            index = ", ".join(f"i{d}" for d in range(len(self.steps)))
            indent = ""
            for d in range(len(self.steps)):
                self.lines.append((f"{indent}for i{d} in range(x.shape[{d}]):", ""))
                indent += "    "
            fits = [name for name, kept in sorted(self.variables.items()) if kept == self.all]
            name, form = self.rng.choice(fits), self.rng.choice(("{} + {}", "{} - {}", "ntl.maximum({}, {})"))
            term = self.rng.choice(("{}", "({} * 2)", "ntl.maximum({}, 1)", "({} - 1)")).format(f"x[{index}]")
            self.lines.append((f"{indent}{name} = ({form.format(name, term)}).to({name}.dtype)", name))
            return
        if not self.variables:
            return
        head = "for i in range(n):"
        if self.rng.random() < 0.5:
            scalar = "ntl.sum(y)" if self.rng.random() < 0.5 else "n"
            head = f"if {scalar} {self.rng.choice(COMPARISONS)} {self.rng.choice(('0', '2'))}:"
        self.lines.append((head, ""))
        self.assign("    ")
        if head.startswith("if") and self.rng.random() < 0.5:
            self.lines.append(("else:", ""))
            self.assign("    ")

    def first(self, value: str) -> None:
        self.lines.append((f"v0 = {value}", ""))
        self.variables["v0"], self.sources["v0"] = self.all, {"v0"}

    def write(self) -> Application:
        if self.steps:
            self.first("y + y")
        for _ in range(self.rng.randint(1, 4)):
            self.assign()
            if self.rng.random() < 0.4 or self.steps:
                self.loop()
        if not self.variables:
            self.first("y * 2")
        name = self.rng.choice(sorted(self.variables))
        self.lines.append((f"out = {name}", ""))
        body, oracle = [], []
        for line, old in self.lines:
            body.append(line)
            indent = line[: len(line) - len(line.lstrip())]
            mark = f"{indent}{old} = ntl.assigned({old}, {{}})"
            oracle += [mark.format(True), line, mark.format(False)] if old else [line]
        text = "def application(x, y, n, out):\n" + "".join(f"    {line}\n" for line in body)
        oracle = "def oracle(ntl, x, y, n):\n" + "".join(f"    {line}\n" for line in [*oracle, "return out"])
        return Application(text, oracle, self.variables[name])


def is_tile(text: str) -> bool:
    """Tell whether an expression is more than a number."""
    return any(letter in text for letter in "xyv")
