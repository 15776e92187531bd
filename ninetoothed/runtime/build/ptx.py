"""Parse the functions of a PTX module: control flow, and each instruction's registers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ninetoothed.runtime.build.code import Code, Instruction, Wgmma

# A wgmma whose left operand is in registers: its second operand is a list of them.
LEFT_IN_REGISTERS = re.compile(r"wgmma\.mma_async\S+\s+\{[^}]*\}\s*,\s*\{")

_FUNCTION = re.compile(r"^\s*(?:\.\w+\s+)*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE)
_IGNORED = re.compile(r"//[^\n]*|^\s*\.[^\n]*", re.MULTILINE)  # comments, and directives, which take whole lines
_END = re.compile(r";|(?<=:)\s*\n|^\s*[{}]\s*$", re.MULTILINE)  # of a statement: braces by themselves are scopes
_STATEMENT = re.compile(r"(?:([\w$]+):)?\s*(?:@!?([%\w]+)\s+)?([a-z][\w.:]*)?\s*(.*)", re.DOTALL)
_TABLE = re.compile(r"^\s*([\w$]+):\s*\.branchtargets\s+([^;]*);", re.MULTILINE)
_REGISTER = re.compile(r"%[a-z]+\d+")
_WGMMA = re.compile(r"wgmma\.mma_async\.\S*\.m(\d+)n(\d+)k(\d+)\.")
# Begin the names of instructions whose results depend on other threads, or on a function.
_VARYING = ("shfl", "vote", "match", "redux", "elect", "activemask", "call")


def functions(text: str) -> dict[str, Code]:
    """Return the functions of a module by name; LookupError for text that is not understood."""
    heads = list(_FUNCTION.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {head[1]: _function(text[head.end() : end].partition("\n\t.section")[0]) for head, end in zip(heads, ends)}


def _function(text: str) -> Code:
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
    return Code(instructions, labels)


def _instruction(opcode: str, operands: str, is_conditional: bool, tables: Mapping[str, str]) -> Instruction:
    """Make one instruction. tables: the places of computed jumps, by the names of their tables."""
    text = f"{opcode} {operands}"
    if opcode == "brx.idx":
        return Instruction(
            text, targets=tuple(re.findall(r"[\w$]+", tables[operands.split()[-1]])), falls=is_conditional
        )
    if opcode.startswith("bra"):
        return Instruction(text, targets=(operands.split()[-1],), falls=is_conditional)
    if opcode in ("ret", "exit", "trap"):
        return Instruction(text, falls=is_conditional)
    if found := _WGMMA.match(text):
        return _wgmma(text, "x".join(found.groups()))
    # The first operand is the result, unless it is an address or a number.
    first = operands.partition("}")[0] if operands.startswith("{") else operands.partition(",")[0]
    has_result = "[" not in first and _REGISTER.search(first) is not None
    return Instruction(
        text,
        frozenset(_REGISTER.findall(first) if has_result else ()),
        frozenset(_REGISTER.findall(operands[len(first) :] if has_result else operands)),
        is_conditional=is_conditional,
        is_copy=opcode.startswith("mov.") and "{" not in operands,
        is_opaque=opcode.startswith(_VARYING) or ("[" in operands and not opcode.startswith("ld.param")),
    )


def _wgmma(text: str, shape: str) -> Instruction:
    accumulator, *left = (tuple(_REGISTER.findall(group)) for group in re.findall(r"\{([^}]*)\}", text))
    wgmma = Wgmma(shape, left[0] if left else (), accumulator)
    return Instruction(text, frozenset(accumulator), frozenset((*wgmma.left, *accumulator)), wgmma=wgmma)
