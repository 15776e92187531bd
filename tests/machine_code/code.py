"""Control flow of a function, in PTX or machine code: its loops, and where each register was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Wgmma:
    """A product of a warp group, wgmma: its shape, and the registers of its operands.

    left: none where the left operand is read from shared memory.
    """

    shape: str
    left: tuple[str, ...]
    accumulator: tuple[str, ...]


@dataclass(frozen=True)
class Instruction:
    """One instruction: the registers that it touches, and where control goes after it.

    targets: the labels that it may branch to.
    falls: whether the next instruction may follow.
    is_conditional: whether a predicate guards it, so that the registers that it writes may keep their values.
    is_copy: whether it moves registers as they are.
    is_opaque: whether its result depends on more than the registers that it reads.
    commits: whether it ends a group of wgmmas.
    waits: how many groups of wgmmas may still be in flight after it; None if it waits for none.
    """

    text: str
    writes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    targets: tuple[str, ...] = ()
    falls: bool = True
    is_conditional: bool = False
    is_copy: bool = False
    is_opaque: bool = False
    wgmma: Wgmma | None = None
    commits: bool = False
    waits: int | None = None


@dataclass(frozen=True)
class Code:
    """A function: its instructions, and for each label the number of the instruction that it stands before."""

    instructions: Sequence[Instruction]
    labels: Sequence[tuple[str, int]]

    @cached_property
    def wgmmas(self) -> dict[int, Wgmma]:
        """The wgmmas by the numbers of their instructions, in their order."""
        return {n: each.wgmma for n, each in enumerate(self.instructions) if each.wgmma is not None}

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first instruction of each basic block."""
        ends = (n + 1 for n, each in enumerate(self.instructions) if each.targets or not each.falls)
        targets = {label for each in self.instructions for label in each.targets}
        starts = {0, *ends, *(n for label, n in self.labels if label in targets)}
        return sorted(n for n in starts if n < len(self.instructions))

    @cached_property
    def block_of(self) -> list[int]:
        """The basic block of each instruction."""
        stops = (*self.starts[1:], len(self.instructions))
        return [block for block, (start, stop) in enumerate(zip(self.starts, stops)) for _ in range(start, stop)]

    def block(self, block: int) -> range:
        """Return the numbers of the instructions of a block."""
        stop = self.starts[block + 1] if block + 1 < len(self.starts) else len(self.instructions)
        return range(self.starts[block], stop)

    @cached_property
    def successors(self) -> list[list[int]]:
        """The blocks that may follow each block."""
        found = []
        for block in range(len(self.starts)):
            last = self.block(block)[-1]
            instruction = self.instructions[last]
            following = [self._place(label, last) for label in instruction.targets]
            following += [last + 1] if instruction.falls else []
            found.append([self.block_of[n] for n in following if n < len(self.instructions)])
        return found

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """The blocks after which each block may follow."""
        found: list[list[int]] = [[] for _ in self.starts]
        for block, following in enumerate(self.successors):
            for each in following:
                found[each].append(block)
        return found

    def following(self, n: int) -> list[int]:
        """Return the instructions that may run right after instruction `n`."""
        block = self.block_of[n]
        if n + 1 in self.block(block):
            return [n + 1]
        return [self.starts[each] for each in self.successors[block]]

    def _place(self, label: str, origin: int) -> int:
        """Return the instruction after a label; of several of one name, each in a scope of its own, the nearest."""
        places = [n for name, n in self.labels if name == label]
        if not places:
            raise LookupError(f"{self.instructions[origin].text} goes to {label}, which is not there")
        return max((n for n in places if n <= origin), default=places[0])

    def written_from(self, label: str, origin: int) -> frozenset[str]:
        """Return the registers that may be written from a label to the end; nested calls are not followed."""
        pending, seen = [self.block_of[self._place(label, origin)]], set()
        while pending:
            block = pending.pop()
            if block not in seen:
                seen.add(block)
                pending += self.successors[block]
        return frozenset(register for block in seen for register in self._writes[block])

    # -- loops --

    @cached_property
    def loops(self) -> list[frozenset[int]]:
        """The natural loops, as sets of blocks, the smallest first; loops with the same head are one."""
        bodies: dict[int, set[int]] = {}
        for block, following in enumerate(self.successors):
            for head in following:
                if self._dominators[block] >> head & 1:
                    bodies.setdefault(head, {head}).update(self._up_to(head, block))
        return sorted(map(frozenset, bodies.values()), key=len)

    def loops_of(self, n: int) -> list[frozenset[int]]:
        """Return the loops around an instruction, the innermost first."""
        return [loop for loop in self.loops if self.block_of[n] in loop]

    def _up_to(self, head: int, tail: int) -> set[int]:
        """Return the blocks from which `tail` can be reached without passing `head`."""
        body, pending = {head}, [tail]
        while pending:
            block = pending.pop()
            if block not in body:
                body.add(block)
                pending += self.predecessors[block]
        return body

    @cached_property
    def _dominators(self) -> list[int]:
        """Return for each block the blocks that dominate it (every way to it leads through them), as bits."""
        everything = (1 << len(self.starts)) - 1
        found = [everything] * len(self.starts)
        found[0] = 1
        changed = True
        while changed:
            changed = False
            for block in range(1, len(self.starts)):
                through = everything
                for each in self.predecessors[block]:
                    through &= found[each]
                through |= 1 << block
                changed, found[block] = changed or through != found[block], through
        return found

    # -- registers --

    @cached_property
    def _writes(self) -> list[dict[str, list[int]]]:
        """Return for each block the instructions that write each register, in their order."""
        found: list[dict[str, list[int]]] = [{} for _ in self.starts]
        for n, instruction in enumerate(self.instructions):
            for register in instruction.writes:
                found[self.block_of[n]].setdefault(register, []).append(n)
        return found

    def definitions(self, register: str, at: int) -> Iterator[int]:
        """Yield the instructions that may have written the value of a register just before instruction `at`."""
        pending, seen = [(self.block_of[at], at)], set()
        while pending:
            block, limit = pending.pop()
            for n in reversed(self._writes[block].get(register, ())):
                if n < limit:
                    yield n
                    if not self.instructions[n].is_conditional:
                        break
            else:
                new = [each for each in self.predecessors[block] if each not in seen]
                seen.update(new)
                pending += [(each, len(self.instructions)) for each in new]

    def is_invariant(self, register: str, at: int, loop: frozenset[int]) -> bool:
        """Tell whether a register holds the same value at instruction `at` in every iteration of a loop.

        It does if it was written before the loop, or is copied or computed in it from registers that were. A register
        that is computed from itself does not; one that is copied from iteration to iteration does.
        """
        return self._is_invariant(register, at, loop, (), set())

    def _is_invariant(
        self, register: str, at: int, loop: frozenset[int], path: tuple[int, ...], invariant: set[int]
    ) -> bool:
        """Tell the same of a register on a path of instructions to the first one; `invariant`: those proved already."""
        for n in self.definitions(register, at):
            instruction = self.instructions[n]
            if n in invariant or self.block_of[n] not in loop:
                continue
            if n in path and all(self.instructions[each].is_copy for each in path[path.index(n) :]):
                continue
            if n in path or instruction.is_opaque or instruction.wgmma:
                return False
            if not all(self._is_invariant(each, n, loop, (*path, n), invariant) for each in instruction.reads):
                return False
            invariant.add(n)
        return True
