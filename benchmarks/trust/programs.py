"""Random applications over integers, and what Python makes of them: loops, branches and helpers, nested."""

import linecache
import random

import torch

import ninetoothed
from ninetoothed import Tensor

HELPERS = """
def odd(v):
    return v * 2 - 1


def folded(v):
    rest = v % 5
    moved = rest + 3
    return moved - v


def both(v):
    return odd(folded(v) % 7)
"""
TEMPLATE = """{helpers}

def in_python(a, b, c):
    d = 0
{body}
    return a + b * 7 + c * 11 + d * 13


def application(x, n, y):
    a, b, c, d = x, n, 3, 0
{body}
    y = a + b * 7 + c * 11 + d * 13
"""
INPUTS = (-7, 0, 2, 5, 11, -100)


class Writer:
    """Writes statements that keep all variables within +-509, so that nothing overflows."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0

    def atom(self, names):
        return self.random.choice([*names, str(self.random.randint(-4, 9))])

    def expression(self, names, depth=0):
        kind = self.random.random()
        if depth > 2 or kind < 0.3:
            return self.atom(names)
        a, b = self.expression(names, depth + 1), self.expression(names, depth + 1)
        forms = (
            f"({a} {self.random.choice('+-')} {b})",
            f"({a} * {self.random.randint(-3, 3)})",
            f"({a} {self.random.choice(('//', '%'))} {self.random.choice((3, 4, -3, 7, -2, 8))})",
            f"({a} if {self.condition(names, depth + 1)} else {b})",
            f"{self.random.choice(('min', 'max'))}({a}, {b})",
            f"({a} {self.random.choice('&|^')} {b})",
            f"{self.random.choice(('abs', 'odd', 'folded', 'both'))}({a})",
        )
        return self.random.choice(forms)

    def condition(self, names, depth=0):
        compared = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
        text = f"{self.expression(names, depth + 1)} {compared} {self.expression(names, depth + 1)}"
        other = f"{self.expression(names, 2)} < {self.atom(names)}"
        return self.random.choice((f"({text})", f"not ({text})", f"({text} and {other})", f"({text} or {other})"))

    def block(self, names, depth):
        lines = []
        for _ in range(self.random.randint(1, 2) if depth else self.random.randint(3, 7)):
            kind = self.random.random()
            if depth == 3 or kind < 0.5:
                lines += self.assignment(names)
            elif kind < 0.7:
                lines += [f"if {self.condition(names)}:", *self.nested(names, depth)]
                lines += ["else:", *self.nested(names, depth)] if self.random.random() < 0.6 else []
            elif kind < 0.9:
                counter = self.fresh("i")
                lines += [f"for {counter} in range({self.bounds(names)}):", *self.nested([*names, counter], depth)]
            else:
                counter = self.fresh("w")
                bound = f"{counter} < {self.random.randint(1, 4)} and {self.condition(names)}"
                body = [*self.nested([*names, counter], depth), f"    {counter} += 1"]
                lines += [f"{counter} = 0", f"while {bound}:", *body]
        return lines

    def nested(self, names, depth):
        return [f"    {line}" for line in self.block(names, depth + 1)]

    def assignment(self, names):
        if self.random.random() < 0.2:
            return [f"a, b = b, {self.expression(names)} % 1009 - 500"]
        name = self.random.choice("abcd")
        return [
            f"{name} {self.random.choice(('=', '+=', '-='))} {self.expression(names)}",
            f"{name} = {name} % 1009 - 500",
        ]

    def bounds(self, names):
        low, high = self.random.randint(-2, 2), self.random.randint(0, 5)
        forms = (f"{high}", f"{low}, {high}", f"{self.atom(names)} % 4", f"{high}, {low}, -2")
        return self.random.choice((*forms, f"0, abs({self.atom(names)}) % 6, 2"))

    def fresh(self, stem):
        self.count += 1
        return f"{stem}{self.count}"


def write(seed):
    """The functions of a seed: `in_python`, and the same as an `application` of one number a program."""
    lines = Writer(seed).block(["a", "b", "c", "d"], 0)
    text = TEMPLATE.format(helpers=HELPERS, body="\n".join(f"    {line}" for line in lines))
    file = f"<random program {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {}
    exec(compile(text, file, "exec"), namespace)
    return namespace["in_python"], namespace["application"]


def make(application):
    def arrangement(x, n, y):
        return x.tile((1,)), n, y.tile((1,))

    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0), Tensor(1)))


def inputs(device="cpu"):
    return torch.tensor(INPUTS, dtype=torch.int32, device=device)
