import copy
import pickle

import pytest

from ninetoothed.arrangement.symbol import Symbol, as_size, block_size, largest, smallest


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


def test_copies():
    e = Symbol("a") * Symbol("b", meta=True)
    assert copy.deepcopy(e) is e
    again = pickle.loads(pickle.dumps(e))
    assert again == e and again.leaves["b"].meta
