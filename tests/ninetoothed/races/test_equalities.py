"""What two touches of one element have in common: nothing follows that numbers contradict."""

import pytest

from ninetoothed.expr import Facts, var
from ninetoothed.races.equalities import Equalities

P, Q, N, R = (var(name) for name in ("program", "other", "size", "round"))
# Two programs `program`, of 8; a size that may be 0; what differs between the two is all but the size.
FACTS = Facts().bind("size", 0).bind("program", 0, 7).bind("other", 0, 7).bind("round", 0, 3)


def known(*places, facts=FACTS):
    found = Equalities(facts, facts, frozenset({"program", "other", "round"}), {})
    found.learn((place, place) for place in places)
    return found


@pytest.mark.parametrize("place", (2 * N * P, N * P + Q))
def test_a_size_may_be_0(place):
    """`n * p == n * p'` says nothing where n is 0, and all where it is not."""
    assert not known(place).holds(P)
    facts = FACTS.bind("size", 8)
    assert known(place, facts=facts).holds(P) and (place == 2 * N * P or known(place, facts=facts).holds(Q))


def test_quotient_and_remainder_are_of_one_divisor():
    """`p // d` and `p % d` tell p only where d is one number."""
    assert known(P // 3, P % 3).holds(P)
    assert not known(P // (R + 1), P % (R + 1)).holds(P)
    assert known(R, P // (R + 1), P % (R + 1)).holds(P)
