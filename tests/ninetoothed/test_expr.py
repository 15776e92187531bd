import itertools
import pickle
import random

import pytest

from ninetoothed.expr import (
    Facts,
    FloorDiv,
    as_expr,
    bounds,
    cdiv,
    condition,
    const,
    divisor,
    is_nonnegative,
    maximum,
    minimum,
    simplify,
    var,
)

x, y, q, r, b = map(var, "xyqrb")


@pytest.mark.parametrize(
    "left, right",
    [
        ((x * q + r) // q, x + r // q),
        ((x * q + r) % q, r % q),
        (cdiv(x, 32), (x + 31) // 32),
        ((x + b - 1) // b, cdiv(x, b)),
        (x // 4 // 8, x // 32),
        ((x // 4 + 3) // 8, (x + 12) // 32),
        ((x % 12) // 4, (x // 4) % 3),
        ((x % 12 + 1) % 4, (x + 1) % 4),
        ((4 * x + 3) % 8, 4 * (x % 2) + 3),
        ((4 * x + 3) // 8, x // 2),
        (x // b * b + x % b, x),
        (3 * (x // q) * q + x % q * 3, 3 * x),
        ((x * y) // (q * y), x // q),
        (x // -3, (-x) // 3),
        (minimum(x, x + 1, minimum(y, x)), minimum(y, x)),
        (maximum(x, x + 1, 3, 5), maximum(x + 1, 5)),
        ((x + y) * (x - y), x * x - y * y),
    ],
)
def test_equal_forms_are_one_form(left, right):
    assert left == right and hash(left) == hash(right) and str(left) == str(right)


def test_products_of_compound_sizes_divide_out():
    height, width = x - y + 1, q - r + 1
    i, j, k = map(var, "ijk")
    flat = (i * height + j) * width + k
    assert flat // width == i * height + j + k // width
    assert flat % width == k % width


def random_expression(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([var(rng.choice("abc")), const(rng.randint(-9, 9))])
    left, right = random_expression(rng, depth - 1), random_expression(rng, depth - 1)
    positive = rng.choice([const(rng.randint(1, 12)), var("p"), var("p") * rng.randint(1, 4), var("p") + 2])
    kind = rng.randrange(7)
    operations = [
        lambda: left + right,
        lambda: left - right,
        lambda: left * right,
        lambda: left // positive,
        lambda: left % positive,
        lambda: minimum(left, right),
        lambda: maximum(left, right),
    ]
    return operations[kind]()


class Recorder:
    """Builds Python source in the order of the calls: what the expression would be without any canonical form."""

    @staticmethod
    def build(rng, depth):
        if depth == 0 or rng.random() < 0.15:
            return rng.choice([rng.choice("abc"), f"({rng.randint(-9, 9)})"])
        left, right = Recorder.build(rng, depth - 1), Recorder.build(rng, depth - 1)
        positive = rng.choice([f"{rng.randint(1, 12)}", "p", f"(p * {rng.randint(1, 4)})", "(p + 2)"])
        return rng.choice(
            [
                f"({left} + {right})",
                f"({left} - {right})",
                f"({left} * {right})",
                f"({left} // {positive})",
                f"({left} % {positive})",
                f"min({left}, {right})",
                f"max({left}, {right})",
            ]
        )


@pytest.mark.parametrize("tens", range(12))
def test_canonical_forms_keep_their_value(tens):
    for seed in range(10 * tens, 10 * tens + 10):
        keeps_its_value(random.Random(seed))


def keeps_its_value(rng):
    """Check what a random expression becomes, and its text, against Python."""
    source = Recorder.build(rng, 4)
    built = eval(source, {"min": minimum, "max": maximum, **{name: var(name) for name in "abcp"}})
    built = as_expr(built)
    printed = str(built)
    for _ in range(12):
        values = {"p": rng.randint(1, 7), **{name: rng.randint(-20, 20) for name in "abc"}}
        wanted = eval(source, {"min": min, "max": max}, values)
        assert built.evaluate(values) == wanted, source
        assert eval(printed, {}, values) == wanted, (source, printed)
        assert built.subs({"a": values["a"], "p": values["p"]}).evaluate(values) == wanted
        assert built.subs(values) == wanted
    again = eval(printed, {"min": minimum, "max": maximum}, {name: var(name) for name in "abcp"})
    assert as_expr(again).evaluate(values) == built.evaluate(values)


def random_facts(rng):
    """Facts, and every assignment of small numbers that they allow."""
    facts = Facts().bind("s", rng.randint(0, 1), rng.choice([None, 9]), rng.choice([1, 1, 2, 4]))
    block = rng.choice([2, 3, 4])
    facts = facts.bind("a", 0, cdiv(var("s"), block) - 1) if rng.random() < 0.5 else facts.bind("a", -1, var("s") - 1)
    facts = facts.bind("b", 0, rng.choice([block - 1, var("s") - 1, 3]))
    facts = facts.bind("p", 1, 5)
    flat = var("a") * block + var("b")
    if rng.random() < 0.5:
        facts = facts.assume(flat, 0, var("s") - 1)
    points = []
    for s, a, bb, p in itertools.product(range(13), range(-1, 12), range(12), range(1, 6)):
        values = {"s": s, "a": a, "b": bb, "p": p}
        inside = all(
            (known.lo is None or known.lo.evaluate(values) <= values[name])
            and (known.hi is None or values[name] <= known.hi.evaluate(values))
            and values[name] % known.multiple_of == 0
            for name, known in facts.ranges.items()
        )
        if inside and all(
            lo.evaluate(values) <= e.evaluate(values) <= hi.evaluate(values) for e, lo, hi in facts.assumptions
        ):
            points.append(values)
    return facts, block, points


@pytest.mark.parametrize("seed", range(30))
def test_what_is_proved_holds_everywhere(seed):
    rng = random.Random(seed)
    facts, block, points = random_facts(rng)
    s, a, b, p = map(var, "sabp")
    flat = a * block + b
    expressions = [
        s - 1 - flat,
        flat,
        s - 1 - a,
        cdiv(s, block) - 1 - flat // block,
        flat % p,
        p - 1 - flat % p,
        s - s // p,
        maximum(s - p, 0) - s + p,
        minimum(s, b) - b,
        *[random_expression(rng, 2).subs({"c": s}) for _ in range(6)],
    ]
    for e in expressions:
        low, high = bounds(e, facts)
        simple, proved, d = simplify(e, facts), is_nonnegative(e, facts), divisor(e, facts)
        for values in points[:: max(1, len(points) // 150)]:
            value = e.evaluate(values)
            assert simple.evaluate(values) == value, (e, simple, values)
            assert not proved or value >= 0, (e, values)
            assert (low is None or low <= value) and (high is None or value <= high), (e, low, high, values)
            assert value == 0 if d == 0 else value % d == 0, (e, d, values)


def test_what_must_be_proved_is_proved():
    s, o, n, b = map(var, ("s", "o", "n", "b"))
    divided = Facts().bind("s", 0, None, 16).bind("o", 0, cdiv(s, 16) - 1).bind("n", 0, 15)
    assert is_nonnegative(s - 1 - (16 * o + n), divided)
    assert simplify(cdiv(s, 16), divided) == s // 16
    ragged = Facts().bind("s", 0).bind("o", 0, cdiv(s, 16) - 1).bind("n", 0, 15)
    assert not is_nonnegative(s - 1 - (16 * o + n), ragged)
    floored = Facts().bind("s", 0).bind("b", 1).bind("o", 0, s // b - 1).bind("n", 0, b - 1)
    assert is_nonnegative(s - 1 - (b * o + n), floored)
    assert not is_nonnegative(o - 1, floored)
    assert simplify((b * o + n) // b, floored) == o
    assert simplify((b * o + n) % b, floored) == n


def test_quotients_by_the_same_number_are_compared():
    s, j = map(var, "sj")
    facts = Facts().bind("s", 0).bind("j", 0, s // 64 - 1)
    assert is_nonnegative((s + 63) // 64 - 1 - j, facts)
    assert not is_nonnegative((s - 1) // 64 - 1 - j, facts)


def test_facts_remember_what_they_led_to():
    facts = Facts().bind("x", 0, y - 1).bind("y", 1)
    assert facts.bind("x", 0, y - 1) is facts and facts.assume(x, 0, y - 1) is facts
    assumed = facts.assume(x * 2, 0, y - 1)
    assert facts.assume(x * 2, 0, y - 1) is assumed and assumed.assume(x * 2, 0, y - 1) is assumed
    assert is_nonnegative(y - 1 - x * 2, assumed) and not is_nonnegative(y - 1 - x * 2, facts)
    assert not is_nonnegative(y - 1 - x * 2, assumed.bind("x", 0, 99).bare)


def test_linear():
    i, j, s = map(var, "ijs")
    assert (i * s * 2 + j + 3).linear(["i", "j"]) == ({"i": 2 * s, "j": const(1)}, const(3))
    assert (s + 3).linear(["i"]) == ({"i": const(0)}, s + 3)
    assert (i * j).linear(["i", "j"]) is None
    assert (i // 2).linear(["i"]) is None
    assert (i * i).linear(["i"]) is None


def test_expressions_and_facts_travel():
    e = cdiv(x * y, q) + minimum(x, 3)
    assert pickle.loads(pickle.dumps(e)) == e
    facts = Facts().bind("x", 0, y - 1, 4).assume(e, 0)
    assert pickle.loads(pickle.dumps(facts)) == facts and hash(facts) == hash(pickle.loads(pickle.dumps(facts)))


def test_division_by_zero_is_an_error():
    with pytest.raises(ZeroDivisionError):
        x // 0
    with pytest.raises(ZeroDivisionError):
        x % 0


@pytest.mark.parametrize("seed", range(50))
def test_a_condition_is_the_same_condition(seed):
    """It holds for the same numbers, and no factor or quotient is left of any that a tile's end is told by."""
    rng = random.Random(seed)
    lane, k, divisor = var("lane"), var("k"), rng.choice((1, 4, 16))
    index = rng.choice((1, 2, 3)) * ((rng.choice((1, 8, 32)) * k + lane) // divisor) + rng.randint(-3, 3)
    room = rng.randint(1, 60) - index
    found = condition(room)

    assert not any(isinstance(atom, FloorDiv) for atom in found.atoms)
    for values in ({"lane": a, "k": b} for a in range(-3, 33) for b in range(-2, 6)):
        assert (found.evaluate(values) > 0) == (room.evaluate(values) > 0)


def test_conditions_of_one_meaning_are_one():
    lane, k = var("lane"), var("k")
    assert condition(9 - 4 * k - 2 * (lane // 16)) == condition(80 - 32 * k - lane) == 80 - 32 * k - lane
