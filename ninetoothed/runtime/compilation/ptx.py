"""Tell from PTX for Hopper whether ptxas may spoil it: a wgmma is repeated with a left operand that stays as it is.

    q = q * scale                          mul q, q, scale
    for i in range(n):                 loop:
        s = dot(q, k[i])                   wgmma {s}, {q}, k           in each round the same q
        o += dot(weights(s), v[i])         wgmma {o}, {weights}, v     in each round other weights

ptxas before CUDA 13.3 gives the registers of q to the weights (Triton issue 9433, pull request 11781), so that later
rounds multiply these. What comes from memory in each round, or from a product of that round, it keeps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

# A wgmma whose left operand is in registers: its second operand is a list of them.
_LEFT_IN_REGISTERS = re.compile(r"wgmma\.mma_async\S+\s+\{[^}]*\}\s*,\s*\{")

_FUNCTION = re.compile(r"^\s*(?:\.\w+\s+)*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE)
_IGNORED = re.compile(r"//[^\n]*|^\s*\.[^\n]*", re.MULTILINE)  # comments, and directives, which take whole lines
_END = re.compile(r";|(?<=:)\s*\n|^\s*[{}]\s*$", re.MULTILINE)  # of a statement: braces by themselves are scopes
_STATEMENT = re.compile(r"(?:([\w$]+):)?\s*(?:@!?([%\w]+)\s+)?([a-z][\w.:]*)?\s*(.*)", re.DOTALL)
_TABLE = re.compile(r"^\s*([\w$]+):\s*\.branchtargets\s+([^;]*);", re.MULTILINE)
_REGISTER = re.compile(r"%[a-z]+\d+")
# Begin the names of instructions whose results depend on other threads, on a function, or on memory.
_VARYING = ("shfl", "vote", "match", "redux", "elect", "activemask", "call", "wgmma")


@dataclass(frozen=True)
class Instruction:
    """An instruction: the registers that it touches, and where control goes after it.

    left: the left operand of a wgmma, if it is in registers.
    targets: the labels that it may branch to. falls: whether the next instruction may follow.
    is_conditional: whether a predicate guards it, so that the registers that it writes may keep their values.
    is_copy: whether it moves a register as it is.
    is_opaque: whether its result depends on more than the registers that it reads.
    """

    text: str
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    falls: bool = True
    is_conditional: bool = False
    is_copy: bool = False
    is_opaque: bool = False


def has_left_operands(text: str) -> bool:
    """Tell whether a module has wgmmas whose left operands are in registers: others are not affected."""
    return _LEFT_IN_REGISTERS.search(text) is not None


def keeps_left_operand(text: str) -> bool:
    """Tell whether a loop of a module repeats a wgmma with a left operand in registers that it does not change.

    It is taken to be so where the text is not understood.
    """
    if not has_left_operands(text):
        return False
    try:
        return any(function.keeps_left_operand() for function in functions(text).values())
    except (LookupError, RecursionError):
        return True


def functions(text: str) -> dict[str, PtxFunction]:
    """Return the functions of a module by name; LookupError for text that is not understood."""
    heads = list(_FUNCTION.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {head[1]: _function(text[head.end() : end].partition("\n\t.section")[0]) for head, end in zip(heads, ends)}


def _function(text: str) -> PtxFunction:
    """Read the instructions and the jumps of a function."""
    instructions: list[Instruction] = []
    labels: list[tuple[str, int]] = []
    body, tables = _TABLE.sub("", text), dict(_TABLE.findall(text))
    for statement in _END.split(_IGNORED.sub("", body.partition("\n{")[2])):
        found = _STATEMENT.fullmatch(statement.strip())
        label, predicate, opcode, operands = found.groups() if found else (None, None, None, statement)
        if not opcode and operands.strip("{} \n"):
            raise LookupError(f"`{statement.strip()}` is not understood")
        if label:
            labels.append((label, len(instructions)))
        if opcode:
            instructions.append(_instruction(opcode, operands, predicate is not None, tables))
    return PtxFunction(instructions, labels)


def _instruction(opcode: str, operands: str, is_conditional: bool, tables: Mapping[str, str]) -> Instruction:
    """Make one instruction. tables: the places of computed jumps, by the names of their tables."""
    text = f"{opcode} {operands}"
    if opcode == "brx.idx":
        targets = tuple(re.findall(r"[\w$]+", tables[operands.split()[-1]]))
        return Instruction(text, targets=targets, falls=is_conditional)
    if opcode.startswith("bra"):
        return Instruction(text, targets=(operands.split()[-1],), falls=is_conditional)
    if opcode in ("ret", "exit", "trap"):
        return Instruction(text, falls=is_conditional)
    # The first operand is the result, unless it is an address or a number.
    first = operands.partition("}")[0] if operands.startswith("{") else operands.partition(",")[0]
    has_result = "[" not in first and _REGISTER.search(first) is not None
    left = re.findall(r"\{([^}]*)\}", operands)[1:2] if _LEFT_IN_REGISTERS.match(text) else []
    return Instruction(
        text,
        tuple(_REGISTER.findall(first) if has_result else ()),
        tuple(_REGISTER.findall(operands[len(first) :] if has_result else operands)),
        tuple(_REGISTER.findall("".join(left))),
        is_conditional=is_conditional,
        is_copy=opcode.startswith("mov.") and "{" not in operands,
        is_opaque=opcode.startswith(_VARYING) or ("[" in operands and not opcode.startswith("ld.param")),
    )


@dataclass(frozen=True)
class PtxFunction:
    """A function: its instructions, and for each label the number of the instruction that it stands before."""

    instructions: Sequence[Instruction]
    labels: Sequence[tuple[str, int]]

    def keeps_left_operand(self) -> bool:
        """Tell whether a wgmma may run again with what a register of its left operand held before."""
        found: dict[int, bool] = {}
        places = ((n, each) for n, each in enumerate(self.instructions) if each.left)
        return any(self._keeps(register, n, found) for n, each in places for register in each.left)

    def _keeps(self, register: str, at: int, found: dict[int, bool]) -> bool:
        """Tell whether instruction `at` may run again before a register gets another value."""
        own = self._block_of[at]
        writers = self._writers.get(register, ())
        writing = {self._block_of[n] for n in writers if not self.instructions[n].is_conditional}
        if own not in writing and own in self._reached(own, writing):
            return True
        around = {block for block in self._after[own] if own in self._after[block]}
        return any(self._is_same(n, found) for n in writers if self._block_of[n] in around)

    def _is_same(self, n: int, found: dict[int, bool]) -> bool:
        """Tell whether an instruction may write what it wrote before: it is computed, of nothing that is always new.

        found: what is known of instructions. What is computed of itself, and of nothing new, counts as the same.
        """
        if n not in found:
            each, found[n] = self.instructions[n], True
            found[n] = not each.is_opaque and all(self._keeps(register, n, found) for register in each.reads)
        return found[n]

    @cached_property
    def _writers(self) -> dict[str, list[int]]:
        """The instructions that write each register."""
        found: dict[str, list[int]] = {}
        for n, each in enumerate(self.instructions):
            for register in each.writes:
                found.setdefault(register, []).append(n)
        return found

    @cached_property
    def _block_of(self) -> list[int]:
        """The basic block of each instruction."""
        ends = {n + 1 for n, each in enumerate(self.instructions) if each.targets or not each.falls}
        starts = ends.union(n for _, n in self.labels)
        return [block - 1 for block in accumulate(int(n in starts or not n) for n in range(len(self.instructions)))]

    @cached_property
    def _following(self) -> list[set[int]]:
        """The blocks that may run right after each block."""
        found: list[set[int]] = [set() for _ in range(self._block_of[-1] + 1)]
        for n, (each, block) in enumerate(zip(self.instructions, self._block_of)):
            next_ = self._block_of[n + 1 : n + 2] if each.falls else []
            found[block].update(self._block_of[self._place(label, n)] for label in each.targets)
            found[block].update(other for other in next_ if other != block)
        return found

    def _place(self, label: str, origin: int) -> int:
        """Return the instruction after a label; of several of one name, each in a scope of its own, the nearest."""
        places = [n for name, n in self.labels if name == label]
        return max((n for n in places if n <= origin), default=places[0])

    @cached_property
    def _after(self) -> list[set[int]]:
        """The blocks that may run after each block."""
        return [self._reached(block, set()) for block in range(len(self._following))]

    def _reached(self, block: int, without: set[int]) -> set[int]:
        """Return the blocks that may run after a block, on ways that lead through none of some blocks."""
        found: set[int] = set()
        pending = [block]
        while pending:
            new = self._following[pending.pop()] - found - without
            found |= new
            pending += new
        return found
