"""Analyse a program before it is printed: where each value is used, and where it is last read.

A value is printed where it is used (inlined) or given a variable. Inlining moves a computation down to its use, so
that its operands are read at the statement that finally contains it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from ninetoothed import ir
from ninetoothed.expr import var
from ninetoothed.ir import Apply, Block, Constant, Index, Operation, Value
from ninetoothed.ir.lanes import is_repetition
from ninetoothed.passes.operations import is_ordered

END = 1 << 30  # the position of a block's yields: after all of its operations

BlockKey = tuple[int, int]  # an operation, and the number of one of its blocks: unique even for empty blocks
ROOT: BlockKey = (0, 0)

# The variables in which a block leaves its yields, where these may be assigned as soon as they are computed.
YieldTargets = Mapping[ir.Value, str]


@dataclass(frozen=True)
class OperationPlace:
    """The place of an operation: its block, its position there, and the variables that its results may have to take."""

    key: BlockKey
    position: int
    targets: YieldTargets


@dataclass(frozen=True)
class ValueUse:
    """A read of a value: by an operation (None: by the yields) at a position of a block."""

    block: BlockKey
    position: int
    operation: Operation | None


@dataclass
class Analysis:
    """The uses, definitions and positions of a program's values, and which of these are inlined.

    loads: the loads of a block, with their positions. awaited: those by the copy engine, which are waited for.
    """

    uses: dict[Value, list[ValueUse]] = field(default_factory=dict)
    definitions: dict[Value, tuple[BlockKey, int]] = field(default_factory=dict)
    producers: dict[Value, Operation] = field(default_factory=dict)
    parents: dict[BlockKey, tuple[BlockKey, int]] = field(default_factory=dict)
    guard_counts: Counter = field(default_factory=Counter)
    loads: dict[BlockKey, list[tuple[int, ir.Load]]] = field(default_factory=dict)
    awaited: Container[Operation] = ()

    def use_count(self, value: Value) -> int:
        return len(self.uses.get(value, ()))

    def block_of(self, value: Value) -> BlockKey:
        return self.definitions[value][0]

    def is_cheap(self, value: Value) -> bool:
        """Tell whether a value may be printed at every use: a number, an argument, or a view of a named value."""
        match self.producers.get(value):
            case Constant() | ir.ScalarArgument():
                return True
            case Apply(operands=operands) as operation if is_repetition(operation) or operation.function == "data_ptr":
                return all(self.is_cheap(v) or not self.is_inlined(v) for v in operands)
            case Index(lanes=lanes, bindings=bindings, expr=expr):
                return not lanes and not bindings and (expr.is_constant or expr.sole_atom is not None)
        return False

    def is_inlined(self, value: Value) -> bool:
        """Tell whether a value is printed where it is used rather than given a variable."""
        operation = self.producers.get(value)
        if operation is None or is_ordered(operation):
            return False
        if self.is_cheap(value):
            return True
        if len(ir.results(operation)) != 1 or value.hint is not None or self.use_count(value) != 1:
            return False
        (use,) = self.uses[value]
        return use.block == self.block_of(value) and not self._would_wait(value, use)

    def _would_wait(self, value: Value, use: ValueUse) -> bool:
        """Tell whether computing a tile where it is used would come after waiting for the copy engine.

            value = value_desc.load(...)                             narrow = weights.to(tl.float16)
            output = tl.dot(weights.to(tl.float16), value)    ->     value = value_desc.load(...)
                                                                     output = tl.dot(narrow, value)

        The GPU's scheduler moves nothing across a wait; work in front of it can be overlapped.
        """
        block, position = self.definitions[value]
        between = (load for place, load in self.loads.get(block, ()) if position < place < use.position)
        return bool(value.type.lanes) and any(load in self.awaited for load in between)

    def last_read(self, value: Value, block: BlockKey) -> int:
        """Return the last position of `block` at which a value is read, -1 where it never is."""
        return max((self.last_read_of(value, use, block) for use in self.uses.get(value, ())), default=-1)

    def last_read_of(self, value: Value, use: ValueUse, block: BlockKey) -> int:
        """Return the last position of `block` at which what reads a value here is printed.

        It is the end where that is printed after the block, and -1 where it is printed before, or in the other branch.
        """
        own = self._position_in(value, use, block)
        if use.operation is None or own == END:
            return own
        inlined = [result for result in ir.results(use.operation) if self.is_inlined(result)]
        return max([own, *(self.last_read(result, block) for result in inlined)])

    def _position_in(self, value: Value, use: ValueUse, block: BlockKey) -> int:
        """Return the position of a use in `block`, or how it lies to that."""
        around = {key: (position, index) for key, position, index in self._around(block, END)}
        common = next((each for each in self._around(use.block, use.position) if each[0] in around), None)
        if common is None:
            return END
        key, position, index = common
        own, own_index = around[key]
        if key == block:
            return position
        if position > own or (position == own and index is not None and index == own_index):
            return END
        if position == own and index is not None:
            return -1  # the other branch
        # Before the block: and again in the next round of a loop that does not compute it anew.
        defined = self.definitions.get(value, (None, 0))[0]
        return -1 if defined is not None and key in {each[0] for each in self._around(defined, 0)} else END

    def _around(self, block: BlockKey, position: int) -> Iterator[tuple[BlockKey, int, int | None]]:
        """Yield a block and those around it: each with the position there, and the branch that leads further in."""
        index: int | None = None
        yield block, position, index
        while block in self.parents:
            index = block[1]
            block, position = self.parents[block]
            yield block, position, index


def analyse(body: Block, arguments: tuple[Value, ...] = (), yields: tuple[Value, ...] = ()) -> Analysis:
    analysis = Analysis()
    _visit(analysis, ROOT, body, arguments, yields)
    return analysis


def key_of(operation: Operation, index: int = 0) -> BlockKey:
    """Return the key of one of an operation's blocks, counted as `ir.blocks` does."""
    return id(operation), index


def _visit(
    analysis: Analysis, key: BlockKey, block: Block, arguments: tuple[Value, ...], yields: tuple[Value, ...] = ()
) -> None:
    """Note definitions and uses in a block, and in the blocks nested in it."""
    for argument in arguments:
        analysis.definitions[argument] = (key, -1)
    for position, operation in enumerate(block):
        for value in ir.reads(operation):
            analysis.uses.setdefault(value, []).append(ValueUse(key, position, operation))
        for result in ir.results(operation):
            analysis.definitions[result] = (key, position)
            analysis.producers[result] = operation
        if isinstance(operation, ir.Load):
            analysis.loads.setdefault(key, []).append((position, operation))
        if isinstance(operation, ir.Load | ir.Store):
            analysis.guard_counts[guard_key(operation.access)] += 1
        for index, (nested, inner_arguments, inner_yields) in enumerate(
            ir.regions(operation) if ir.blocks(operation) else ()
        ):
            nested_key = key_of(operation, index)
            analysis.parents[nested_key] = (key, position)
            _visit(analysis, nested_key, nested, inner_arguments, inner_yields)
    for value in yields:
        analysis.uses.setdefault(value, []).append(ValueUse(key, END, None))


def guard_key(access: ir.Access):
    """Return a key for the mask of an access that ignores lane names: equal keys print the same."""
    if access.bindings:
        return None
    lanes = {lane.name: f"lane_{lane.axis}_{lane.count}" for lane in access.lanes}
    rank = len(access.type.lanes)
    names = {old: var(new) for old, new in lanes.items()}
    return rank, tuple(guard.at(lambda e: e.subs(names)) for guard in access.guards)
