"""Functions that rotate, changed a little: each is recognised as it is now, or not at all."""

import pytest
import torch

from ninetoothed_ops.modules.rotary import Rotary, RotaryFunction
from ninetoothed_ops.modules.rotary_trial import recognised
from tests.ninetoothed_ops.integrations.calls import DEVICE, error

SOURCE = """
import torch

def turned(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)

def apply(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    query = (q * cos) + (turned(q) * sin)
    key = (k * cos) + (turned(k) * sin)
    return query, key
"""
HEAD, TAIL = "    query = ", "    return query, key"
# What is put in the place of what, and the form that computes it now, if one does.
CHANGES = {
    "nothing": ("", "", Rotary()),
    "the sign": ("(-x2, x1)", "(x2, -x1)", Rotary(is_reversed=True)),
    "one sign": ("(-x2, x1)", "(x2, x1)", None),
    "the order": ("(-x2, x1)", "(x1, -x2)", None),
    "neighbours": (
        "torch.cat((-x2, x1), dim=-1)",
        "torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)",
        Rotary(interleaved=True),
    ),
    "tables change places": (HEAD, "    cos, sin = sin, cos\n" + HEAD, None),
    "tables are scaled": (HEAD, "    cos, sin = cos * 1.001, sin * 1.001\n" + HEAD, None),
    "the key is scaled": (TAIL, "    key = key * 1.001\n" + TAIL, None),
    "tables are normalised": (HEAD, "    cos = cos / (cos.square() + sin.square()).sqrt()\n" + HEAD, None),
    "one column for both": (HEAD, "    cos, sin = (t[..., :4].repeat(1, 1, 1, 2) for t in (cos, sin))\n" + HEAD, None),
    "columns in the other order": (HEAD, "    cos, sin = cos.flip(-1), sin.flip(-1)\n" + HEAD, None),
    "sections take turns": (HEAD, "    sin = torch.cat((sin[..., ::2], sin[..., 1::2]), -1)\n" + HEAD, None),
    # Where heads come last, and of tables without a batch, these change nothing.
    "positions with an offset": (HEAD, "    cos, sin = cos.roll(1, -2), sin.roll(1, -2)\n" + HEAD, Rotary()),
    "the first table of a batch": (HEAD, "    cos = cos[:1].expand_as(cos)\n" + HEAD, Rotary()),
    "the first head alone": (TAIL, "    query = torch.cat((query[:, :1], q[:, 1:]), 1)\n" + TAIL, None),
    "the query alone": (TAIL, "    key = k\n" + TAIL, None),
    "query and key change places": (TAIL, "    return key, query", None),
    "rounded between": (HEAD, "    q = q.half().to(q.dtype)\n" + HEAD, None),
    "narrow heads alone": (TAIL, "    query = query if q.shape[-1] < 12 else q\n" + TAIL, None),
    "few tokens alone": (TAIL, "    query = query if q.shape[2] < 6 else q\n" + TAIL, None),
    "to another type": (TAIL, "    query, key = query.double(), key.double()\n" + TAIL, None),
    "in the query's type": (
        TAIL,
        "    query, key = query.to(q.dtype), key.to(k.dtype)\n" + TAIL,
        Rotary(keeps_type=True),
    ),
}


def made(source):
    file = {"__name__": "a_file"}
    exec(source, file)
    return file


def r(*shape):
    return torch.randn(shape, dtype=torch.float64, device=DEVICE)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(change):
    old, new, form = CHANGES[change]
    source = SOURCE.replace(old, new)
    assert source != SOURCE or change == "nothing"
    found = recognised(made(source), "apply")
    if form is None:
        assert found == "its apply rotates in a way of its own"
        return
    assert isinstance(found, RotaryFunction) and found.rotary == form
    tables = r(2, 9, 14), r(2, 9, 14)
    calls = (
        (r(2, 3, 9, 14), r(2, 1, 9, 14), *tables),
        (r(2, 9, 3, 14), r(2, 9, 1, 14), *tables, 2),
        (r(2, 3, 9, 14), r(2, 1, 9, 14), tables[0][0], tables[1][0], 0),
    )
    served = 0
    for *args, heads in ((*call, 1)[:5] for call in calls):
        expected = found.original(*args, unsqueeze_dim=heads)
        assert all(error(*pair) < 1e-14 for pair in zip(found(*args, unsqueeze_dim=heads), expected))
        served += found.rotated(tuple(args), {"unsqueeze_dim": heads}) is not None
    assert served


def test_the_place_of_heads_is_what_a_call_says():
    """A table without a batch and the default for one that has it: heads and tokens, of which there are as many."""
    found = recognised(made(SOURCE), "apply")
    args = r(2, 5, 5, 8), r(2, 5, 5, 8), r(5, 8), r(5, 8)
    for options in ({}, {"unsqueeze_dim": 1}, {"unsqueeze_dim": -2}, {"unsqueeze_dim": 0}):
        pairs = zip(found(*args, **options), found.original(*args, **options))
        assert all(error(*pair) < 1e-14 for pair in pairs), options


def test_a_helper_of_a_helper_that_is_patched():
    file = made(SOURCE + "\ndef outer(q, k, cos, sin):\n    return apply(q, k, cos, sin)\n")
    found, args = recognised(file, "outer"), (r(2, 3, 5, 8), r(2, 3, 5, 8), r(2, 5, 8), r(2, 5, 8))
    assert isinstance(found, RotaryFunction)
    file["turned"] = lambda x: x * 0
    assert torch.equal(found(*args)[0], args[0] * args[2][:, None])
    assert recognised(file, "outer") == "its outer rotates in a way of its own"


def test_nothing_is_tried_while_functions_are_overridden():
    class Counter(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    file = made(SOURCE.replace("(-x2, x1)", "(x2, -x1)"))
    with Counter():
        assert recognised(file, "apply") == "its apply cannot be tried under a TorchFunctionMode"
    assert recognised(file, "apply").rotary == Rotary(is_reversed=True)
