"""Gradients of each operator over random shapes, strides and options: the first of `benchmarks.trust.operators`."""

import random

import pytest

from benchmarks.trust import operators


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", operators.OPERATORS, ids=lambda operator: operator.__name__)
def test_first_cases(operator):
    rng = random.Random(0)
    for _ in range(10):
        make = operators.Maker(rng)
        make.has_specials = False
        sample = operator(make)
        assert not operators.gradient_difference(sample, make.generator), list(map(operators.described, sample.args))
