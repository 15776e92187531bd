"""Boxes against counting: every element within the limits lies in exactly one box."""

import itertools
import random

from ninetoothed.backends.torch import forms
from ninetoothed.expr import const, var


def members(boxes, counts):
    found = []
    for box in boxes:
        ranges = [range(count) for count in counts]
        for dim, first, count in box:
            ranges[dim] = range(first, first + count)
        found += list(itertools.product(*ranges))
    return found


def random_terms(generator):
    counts = [generator.choice((1, 2, 3, 4, 7)) for _ in range(3)]
    coefficients = [generator.choice((-5, -1, 0, 1, 2, 4, 16)) for _ in counts]
    return counts, coefficients, generator.choice((None, generator.randint(-20, 5))), generator.randint(-5, 40)


def test_boxes_hold_what_is_within_limits():
    for seed in range(150):
        check_boxes(*random_terms(random.Random(seed)))


def check_boxes(counts, coefficients, low, high):
    expected = [
        point
        for point in itertools.product(*map(range, counts))
        if (low is None or low <= (total := sum(c * x for c, x in zip(coefficients, point))))
        and sum(c * x for c, x in zip(coefficients, point)) <= high
    ]
    boxes = forms.within(tuple(zip(range(3), coefficients, counts)), low, high)
    assert boxes is not None
    assert sorted(members(boxes, counts)) == expected


def test_terms_that_are_always_0_lie_within_limits_of_0():
    for low, high, boxes in ((0, 0, [()]), (None, -1, []), (1, None, [])):
        assert forms.within(((0, 0, 4), (1, 3, 1)), low, high) == boxes


def test_many_boxes_are_given_up():
    assert forms.within(((0, 1, 1000), (1, 1, 1000)), 0, 1000) is None


def test_an_edge_tile_is_one_box_more():
    boxes = forms.within(((0, 64, 10), (1, 1, 64)), 0, 600 - 1)
    assert sorted(boxes) == [((0, 0, 9),), ((0, 9, 1), (1, 0, 24))]


def test_intersection_of_boxes():
    rows, columns = [((0, 0, 3),), ((0, 3, 1), (1, 0, 2))], [((1, 1, 3),)]
    assert forms.intersect([rows, columns]) == [((0, 0, 3), (1, 1, 3)), ((0, 3, 1), (1, 1, 1))]


def test_a_quotient_of_a_dimension_is_no_form():
    p, i, k = map(var, ("p", "i", "k"))
    assert forms.form_of(p * 8 * var("s") + k * 3, ("p", "i"), {"s": 5}).coefficients == (40, 0)
    assert forms.form_of(p * 8 + i // var("w"), ("p", "i"), {"w": 4}).rest is None
    assert forms.form_of(p * k, ("p",), {}).rest is None


def test_a_division_by_one_is_none():
    form = forms.form_of(var("p") // var("g") + const(7), ("p",), {"g": 1})
    assert form.coefficients == (1,) and form.rest == 7
