"""Forwards rewritten so that the first columns of heads rotate without copies around that, and what is left alone."""

import ast
from types import SimpleNamespace

import pytest

from ninetoothed_ops.modules.rotary_parts import without_copies

PAIR = """
def forward(self, query, key, cos, sin):
    query_first, query_rest = (query[..., : self.width], query[..., self.width :])
    key_first = key[:, :, :, : self.width]
    key_rest = key[:, :, :, self.width :]
    query_first, turned = rotate(query_first, key_first, cos, sin=sin)
    query = torch.cat((query_first, query_rest), dim=-1).contiguous()
    key = torch.cat([turned, key_rest], dim=-1)
    return query @ key.mT
"""
WITHOUT_COPIES = """
def forward(self, query, key, cos, sin):
    query_first, turned = rotate.first_columns(self.width, query, key, cos, sin=sin)
    query = query_first.contiguous()
    key = turned
    return query @ key.mT
"""
CALL = "query_first, turned = rotate("
LAST = "    key = torch.cat([turned, key_rest], dim=-1)\n"
# What is put in the place of what, so that the copies are read or written by something else, or are other ones.
CHANGES = {
    "the rest comes first": ("(query_first, query_rest)", "(query_rest, query_first)"),
    "along another dimension": ("[turned, key_rest], dim=-1", "[turned, key_rest], dim=-2"),
    "of another tensor": ("key_rest = key[", "key_rest = query["),
    "of another width": ("key[:, :, :, self.width :]", "key[:, :, :, self.size :]"),
    "of other columns": ("key[:, :, :, : self.width]", "key[:, :, :, self.width :]"),
    "with a step": ("key[:, :, :, : self.width]", "key[:, :, :, : self.width : 2]"),
    "of another dimension": ("key[:, :, :, : self.width]", "key[:, :, : self.width]"),
    "a first part is read": ("return query", "return key_first, query"),
    "a rest is read": ("return query", "return query_rest, query"),
    "a result is read": ("return query", "return turned, query"),
    "a result is read before": (LAST, "    other = turned * 2\n" + LAST),
    "a result is written": (LAST, "    turned = key\n" + LAST),
    "a first part is written": (CALL, "key_first = key * 2\n    " + CALL),
    "a rest is written": (LAST, "    key_rest = key_rest * 2\n" + LAST),
    "a tensor is written before": (CALL, "key = key * 2\n    " + CALL),
    "a tensor is read before": (CALL, "other = change(key)\n    " + CALL),
    "a tensor is read behind": (LAST, "    other = change(key)\n" + LAST),
    "a tensor may be changed": (CALL, "change(self)\n    " + CALL),
    "a tensor is changed": (CALL, "other = self.memory.mul_(2)\n    " + CALL),
    "the width is written": (CALL, "self = cos\n    " + CALL),
    "a cut that is in a branch": ("    key_rest = key[", "    if self.training:\n        key_rest = key["),
    "another function": ("rotate(", "turn("),
    "one state alone": ("rotate(query_first, key_first, cos, sin=sin)", "rotate(query_first, cos, key_first, sin=sin)"),
}


def rewritten(source, states=2):
    definition = ast.parse(source).body[0]
    without_copies(definition, {"rotate": SimpleNamespace(states=states, takes_parts=True)})
    return ast.unparse(definition)


def written(source):
    return ast.unparse(ast.parse(source).body[0])


def test_a_query_and_a_key():
    assert rewritten(PAIR) == written(WITHOUT_COPIES)


def test_one_at_a_time_in_a_branch():
    source = """
def forward(self, query, key):
    if self.width is not None:
        first = query[..., : self.width]
        rest = query[..., self.width :]
        key_first = key[..., : self.width]
        key_rest = key[..., self.width :]
        first = rotate(first)
        key_first = rotate(key_first)
        query = torch.cat([first, rest], dim=-1)
        key = torch.cat([key_first, key_rest], dim=-1)
    else:
        query = rotate(query)
    return query, key
"""
    expected = """
def forward(self, query, key):
    if self.width is not None:
        first = rotate.first_columns(self.width, query)
        key_first = rotate.first_columns(self.width, key)
        query = first
        key = key_first
    else:
        query = rotate(query)
    return query, key
"""
    assert rewritten(source, states=1) == written(expected)


@pytest.mark.parametrize("change", CHANGES)
def test_copies_that_are_needed(change):
    old, new = CHANGES[change]
    source = PAIR.replace(old, new)
    assert source != PAIR and rewritten(source) == written(source)
