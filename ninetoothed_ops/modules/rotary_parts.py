"""Forwards that rotate the first columns of heads, and put the others behind them again: rewritten without the copies.

Before, as Phi's attention has it for a query and a key:

    turning, rest = (query[..., : self.width], query[..., self.width :])
    turning = rotate(turning, cos, sin)
    query = torch.cat((turning, rest), dim=-1)

After, where nothing else reads or writes what lies between:

    turning = rotate.first_columns(self.width, query, cos, sin)
    query = turning
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .rotary import RotaryFunction

# Names, and whether they are read or written.
Uses = Counter[tuple[str, bool]]
READ, WRITE = True, False


class Cut(NamedTuple):
    """A name that a statement of a block gives the first columns of `whole` up to `width`, or those behind."""

    name: str
    whole: str
    width: ast.expr
    is_first: bool
    place: int


class Part(NamedTuple):
    """A state of a call: its first columns as they are given, as `result`, and joined with the rest by `join`."""

    first: Cut
    rest: Cut
    result: str
    join: ast.Call
    # The place of the statement that joins, and whether it assigns `result`.
    end: int
    renews: bool


class Call(NamedTuple):
    """A call that rotates first columns, and can do without the copies."""

    node: ast.Call
    parts: tuple[Part, ...]


def without_copies(definition: ast.FunctionDef, functions: Mapping[str, RotaryFunction]) -> None:
    """Rewrite a function's calls of some names, each of which stands for what rotates."""
    uses = _uses([definition])
    for block in _blocks(definition):
        cuts = {cut.name: cut for place, each in enumerate(block) for cut in _cuts_of(each, place)}
        found = (_call(block, place, cuts, functions) for place in range(len(block)))
        calls = [call for call in found if call is not None and _is_alone(call, block, uses, cuts)]
        names, gone = {}, set()
        for node, parts in calls:
            names.update({id(part.join): part.result for part in parts})
            gone |= {cut.place for part in parts for cut in (part.first, part.rest)}
            wholes = [ast.Name(part.first.whole, ast.Load()) for part in parts]
            node.args[: len(parts)] = [parts[0].first.width, *wholes]
            node.func = ast.Attribute(node.func, "first_columns", ast.Load())
        block[:] = [_Joined(names).visit(each) for place, each in enumerate(block) if place not in gone]
    ast.fix_missing_locations(definition)


class _Joined(ast.NodeTransformer):
    """Put names in the place of some calls."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Name(self.names[id(node)], ast.Load()) if id(node) in self.names else self.generic_visit(node)


def _blocks(definition: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in list(ast.walk(definition)):
        blocks = (getattr(node, name, None) for name in ("body", "orelse"))
        yield from (block for block in blocks if isinstance(block, list))


def _uses(nodes: Iterable[ast.AST]) -> Uses:
    names = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name))
    return Counter((each.id, isinstance(each.ctx, ast.Load)) for each in names)


def _cuts_of(statement: ast.stmt, place: int) -> list[Cut]:
    """Read `a = x[..., :n]` or `a, b = x[..., :n], x[..., n:]`; nothing of a statement that does anything else."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    targets, values = _elements(statement.targets[0]), _elements(statement.value)
    cuts = [_cut(target, value, place) for target, value in zip(targets, values)]
    found = [cut for cut in cuts if cut is not None]
    return found if len(found) == len(targets) == len(values) else []


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def _cut(target: ast.expr, value: ast.expr, place: int) -> Cut | None:
    if not (isinstance(target, ast.Name) and isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name)):
        return None
    *leading, last = _elements(value.slice)
    # `x[:, :, :, n:]` is `x[..., n:]` of a tensor of four dimensions, and an error of one of fewer.
    reaches_last = [ast.unparse(each) for each in leading] in (["..."], [":"] * 3)
    if not (reaches_last and isinstance(last, ast.Slice) and last.step is None):
        return None
    width = last.upper or last.lower
    if (last.upper and last.lower) or not isinstance(width, (ast.Name, ast.Attribute)):
        return None
    return Cut(target.id, value.value.id, width, last.lower is None, place)


def _call(
    block: Sequence[ast.stmt], place: int, cuts: Mapping[str, Cut], functions: Mapping[str, RotaryFunction]
) -> Call | None:
    """Find the call that a statement makes with first columns, and what joins its results with the others."""
    statement = block[place]
    if not isinstance(statement, ast.Assign) or not isinstance(node := statement.value, ast.Call):
        return None
    function = functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
    if function is None or not function.takes_parts:
        return None
    given, results = node.args[: function.states], _elements(statement.targets[0])
    firsts = [cuts[each.id] for each in given if isinstance(each, ast.Name) and each.id in cuts]
    joins = [_joined(block, place, each.id, cuts) for each in results if isinstance(each, ast.Name)]
    parts = tuple(Part(first, *join) for first, join in zip(firsts, joins) if join is not None)
    is_whole = len(parts) == len(given) == len(results) == function.states and len(statement.targets) == 1
    return Call(node, parts) if is_whole else None


def _joined(
    block: Sequence[ast.stmt], place: int, result: str, cuts: Mapping[str, Cut]
) -> tuple[Cut, str, ast.Call, int, bool] | None:
    """Find what joins a result with what was cut off: the first statement behind a place that reads it."""
    for end in range(place + 1, len(block)):
        statement = block[end]
        if not _uses([statement])[result, READ]:
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and (rest := _rest_of(node, result, cuts)):
                return rest, result, node, end, bool(_uses([statement])[result, WRITE])
        return None
    return None


def _rest_of(node: ast.Call, result: str, cuts: Mapping[str, Cut]) -> Cut | None:
    """Give `rest` of `torch.cat((result, rest), dim=-1)`, of which it was cut."""
    tensors = _elements(node.args[0]) if len(node.args) == 1 else []
    names = [each.id for each in tensors if isinstance(each, ast.Name)]
    is_cat = ast.unparse(node.func) == "torch.cat" and [ast.unparse(each) for each in node.keywords] == ["dim=-1"]
    return cuts.get(names[1]) if is_cat and len(tensors) == 2 and names[:1] == [result] and len(names) == 2 else None


def _is_alone(call: Call, block: Sequence[ast.stmt], uses: Uses, cuts: Mapping[str, Cut]) -> bool:
    """Tell whether nothing else reads or writes what is cut and joined, so that all of it may be done by the call."""
    place = next(i for i, each in enumerate(block) if getattr(each, "value", None) is call.node)
    ours = {cut for part in call.parts for cut in (part.first, part.rest)}
    places = {cut.place for cut in ours}
    first, last = min(places), max(part.end for part in call.parts)
    widths = {ast.unparse(cut.width) for cut in ours}
    # A statement that cuts for others, too, stays.
    if len(widths) > 1 or any(cut.place in places for cut in cuts.values() if cut not in ours) or max(places) > place:
        return False
    if not all(map(_is_calm, block[first : last + 1])):
        return False
    before = [each for i, each in enumerate(block[first:place], first) if not _cuts_of(each, i)]
    around, behind = _uses(before), _uses(block[place + 1 : last + 1])
    written = _uses(block[first:place])
    if any(written[name, WRITE] for name, _ in _uses(cut.width for cut in ours)):
        return False
    return all(_is_alone_in(part, uses, around, behind) and not written[part.first.whole, WRITE] for part in call.parts)


def _is_alone_in(part: Part, uses: Uses, before: Uses, behind: Uses) -> bool:
    """Tell it of one state, by what a function reads and writes, before the call, but for cuts, and behind it."""
    first, rest, result = part.first, part.rest, part.result
    again, overwrites = first.name == result, first.whole == result
    return (
        (first.is_first, rest.is_first, first.whole) == (True, False, rest.whole)
        and uses[first.name, READ] == uses[first.name, WRITE] == 1 + again
        and uses[rest.name, READ] == uses[rest.name, WRITE] == 1
        and not before[first.whole, READ]
        and behind[first.whole, READ] == overwrites
        and (behind[result, READ], behind[result, WRITE]) == (1, part.renews)
        and (part.renews or uses[result, READ] == 1 + again)
    )


def _is_calm(statement: ast.stmt) -> bool:
    """Tell whether a statement assigns, and calls no method that would write into a tensor."""
    names = (node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute))
    return isinstance(statement, ast.Assign) and not any(name.endswith("_") for name in names)
