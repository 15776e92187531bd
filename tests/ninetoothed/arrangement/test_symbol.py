import copy
import pickle

import numpy
import pytest

from ninetoothed import ArrangementError, ArrangementTypeError, Tensor
from ninetoothed.arrangement.sizes import as_size, largest, smallest
from ninetoothed.arrangement.symbol import Symbol, block_size


def test_prints_in_the_order_in_which_it_was_written():
    size, block = Symbol("size"), Symbol("BLOCK")
    assert (
        repr((size - 1 * (block - 1) - 1 + block - 1) // block + 1)
        == "(size - (BLOCK - 1) - 1 + BLOCK - 1) // BLOCK + 1"
    )
    assert repr(2 + block * 3) == "2 + BLOCK * 3"
    assert repr(-block % 4) == "-BLOCK % 4"
    assert repr(block - -1) == "BLOCK - -1"


def test_only_four_foldings():
    a = Symbol("a")
    assert [repr(e) for e in (a + 0, a - 0, 1 * a, a // 1)] == ["a"] * 4
    assert repr(a - a) == "a - a" and repr(a * 0) == "a * 0" and repr(0 - a) == "0 - a"


def test_the_canonical_form_is_apart():
    a, b = Symbol("a"), Symbol("b")
    assert (a + b).expr == (b + a).expr and a + b != b + a
    assert (a + b).name is None and a.name == "a"
    assert Symbol("min(a, b) + cdiv(a, 4)").expr.evaluate({"a": 9, "b": 2}) == 5


def test_equality_is_by_text():
    assert Symbol("a", meta=True) == Symbol("a") and hash(Symbol("a", meta=True)) == hash(Symbol("a"))
    assert Symbol(3) == 3 and hash(Symbol(3)) == hash(3) and Symbol("a") != 3
    assert as_size(Symbol(3) + 4) == 7 and isinstance(as_size(Symbol(3) + 4), int)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, (None, None, None)),
        ({"meta": True}, (32, 1024, True)),
        ({"constexpr": True}, (1, 2**20, False)),
        ({"meta": True, "lower_bound": 8}, (8, 1024, True)),
        ({"constexpr": True, "upper_bound": 8, "power_of_two": True}, (1, 8, True)),
        ({"meta": True, "upper_bound": 16}, (16, 16, True)),
        ({"meta": True, "lower_bound": 4096}, (4096, 4096, True)),
    ],
)
def test_ranges(options, expected):
    symbol = Symbol("a", **options)
    assert (symbol.lower_bound, symbol.upper_bound, symbol.power_of_two) == expected


@pytest.mark.parametrize(
    "source, options",
    [
        ("a + 1", {"meta": True}),
        ("a + 1", {"constexpr": True}),
        (3, {"constexpr": True}),
        ("a", {"constexpr": True, "meta": True}),
        ("a +", {}),
        ("a / b", {}),
        ("f(a)", {}),
        ("a.b", {}),
        ("'text'", {}),
        ("True", {}),
        (1.5, {}),
        (None, {}),
    ],
)
def test_what_is_no_symbol(source, options):
    with pytest.raises(ValueError):
        Symbol(source, **options)


@pytest.mark.parametrize(
    "lower, upper, message",
    [
        (64, 32, "a lower bound 64 above"),
        (33, 63, "there is none"),
        ("32", None, "bounds are ints"),
        (None, 1.5, "ints"),
    ],
)
def test_bounds_that_leave_no_choice(lower, upper, message):
    with pytest.raises(ValueError, match=message):
        block_size(lower, upper)


def test_options_of_names_survive_arithmetic():
    block, size = Symbol("BLOCK", meta=True), Symbol("size", constexpr=True)
    leaves = ((size + block - 1) // block).leaves
    assert leaves["BLOCK"].meta and leaves["size"].constexpr
    assert (Symbol("BLOCK") + block).leaves["BLOCK"].meta


@pytest.mark.parametrize("divide", (lambda a: a // 0, lambda a: a % 0))
def test_division_by_zero(divide):
    with pytest.raises(ValueError, match="`a` is divided by 0"):
        divide(Symbol("a"))


def test_substitution():
    a, b = Symbol("a"), Symbol("b", meta=True)
    assert (a * b + 1).subs({"a": 2, "b": 3}) == 7
    assert (a * b).subs({"a": 1}) == b and (a * b).subs({"a": 1}).meta
    assert (a * b).subs({"c": 1}) == a * b


def test_block_sizes_are_fresh():
    first, second = block_size(), block_size(16, 64)
    assert first.name != second.name and first.meta and second.meta
    assert (second.lower_bound, second.upper_bound) == (16, 64)


def test_smallest_and_largest():
    a = Symbol("a")
    assert smallest(3, 4) == 3 and largest(3, 4) == 4
    assert repr(largest(a - 3, 0)) == "max(a - 3, 0)" and smallest(a, a + 1) is a


def test_symbols_have_no_order_and_no_quotient():
    with pytest.raises(TypeError, match="min"):
        min(Symbol("a"), 3)
    with pytest.raises(TypeError, match="//"):
        Symbol("a") / 2


def test_names_are_symbols_with_their_options():
    names = (Symbol("n") // Symbol("BLOCK", meta=True) + 1).names()
    assert names == {Symbol("n"), Symbol("BLOCK")} and Symbol(3).names() == set()
    assert {name.name: name.meta for name in names} == {"n": None, "BLOCK": True}


def test_comparisons_are_conditions():
    a, b = Symbol("a"), Symbol("b", meta=True)
    conditions = (a < 5, 5 < a, a <= b, a >= 2 * b, numpy.int64(3) > a)
    assert list(map(repr, conditions)) == ["a < 5", "a > 5", "a <= b", "a >= 2 * b", "a < 3"]
    assert (a < 5) == (Symbol("a") < 5) and hash(a < 5) == hash(Symbol("a") < 5) and (a < 5) != (a <= 4)
    joined = (a < 5) & (b > a) & (a >= 0)
    assert repr(joined) == "(a < 5) & (b > a) & (a >= 0)" and joined.names() == {a, b}


def test_conditions_of_numbers_join_those_of_symbols():
    condition = Symbol("a") < 5
    assert (condition & (3 < 4)) is condition is ((3 < 4) & condition)
    assert (condition & (3 > 4)) is False is ((3 > 4) & condition)


@pytest.mark.parametrize("sign", ("<", "<=", ">", ">="))
@pytest.mark.parametrize("number", (3, 4, 5))
def test_a_condition_with_numbers_is_true_or_false(sign, number):
    a = Symbol("a")
    expected = eval(f"number {sign} 4")
    condition = eval(f"a {sign} 4")
    assert condition.subs({"a": number}) is expected and condition.subs({"b": number}) == condition
    assert (condition & (a < 100)).subs({"a": number}) is expected and (condition & (a > 100)).subs({"a": 3}) is False
    assert bool(eval(f"a + number {sign} a + 4")) is expected


@pytest.mark.parametrize(
    "ask",
    (
        lambda a: bool(a < 5),
        lambda a: 0 < a < 5,
        lambda a: not a < 5,
        lambda a: a < 5 or a > 7,
        lambda a: 1 if (a < 5) & (a > 2) else 2,
        lambda a: sorted((a, 3)),
        lambda a: block_size() < 5 and True,
    ),
)
def test_the_truth_of_a_condition_is_an_error(ask):
    with pytest.raises(ArrangementTypeError, match="so it is neither true nor false; decide in the application"):
        ask(Symbol("a"))


def test_conditions_join_conditions_alone():
    a = Symbol("a")
    for join in (lambda: a & 1, lambda: (a < 5) & a, lambda: a & (a < 5), lambda: 1 & a):
        with pytest.raises(ArrangementTypeError, match="`&` joins conditions, and `a` is a size"):
            join()
    with pytest.raises(ArrangementTypeError, match="`a < 'b'`: sizes are integers"):
        assert a < "b"
    with pytest.raises(ArrangementError, match="expected an int or a Symbol, got a < 5"):
        Tensor(1).tile((a < 5,))


def test_copies():
    e = Symbol("a") * Symbol("b", meta=True)
    assert copy.deepcopy(e) is e
    again = pickle.loads(pickle.dumps(e))
    assert again == e and again.leaves["b"].meta
