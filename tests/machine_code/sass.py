"""Machine code for Hopper as nvdisasm prints it: control flow, and each instruction's registers."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import replace
from typing import Any

from tests.machine_code.code import Code, Instruction, Wgmma

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([\w$.]+),", re.MULTILINE)
_LABEL = re.compile(r"([.$\w]+):")
_INSTRUCTION = re.compile(r"\s*/\*\w+\*/\s+(?:@(?P<guard>!?U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>.*?)\s*;")
_REGISTER = re.compile(r"(?<![A-Z_])(U?R)(\d+)(\.64)?")
_PREDICATE = re.compile(r"!?U?P(\d|T)$")
_TARGET = re.compile(r"`\(([^)]+)\)")
# The places of a computed jump, such as that by which warps of several tasks find theirs.
_TABLE = re.compile(r'"BRANCH_TARGETS ([^"]+)"')
_CONSTANT = re.compile(r"\bc\[[^]]*\]\[[^]]*\]")
_WGMMA = re.compile(r"[HQIB]GMMA\.(64x(\d+)x\d+)\.(\w+)")
# Registers of a left operand: 64 rows of 32 bytes, shared out to 128 threads.
_LEFT = 4
# Beginnings of the names of instructions whose first operand is no result, and of those that read more than operands.
_NO_RESULT = ("ST", "RED.", "BAR", "CALL", "NANOSLEEP", "WARPSYNC", "DEPBAR", "PLOP3", "FCHK", "VOTE.ALL", "R2P")
_VARYING = ("SHFL", "VOTE", "MATCH", "REDUX", "S2R", "CS2R", "CALL")
# They read parameters and spilled registers, which nothing else writes.
_KNOWN_MEMORY = ("LDC", "ULDC", "LDL")


def disassembled(compiled: Any) -> str:
    """Return the machine code of a compiled kernel as text."""
    return of_cubin(compiled.asm["cubin"])


def of_cubin(cubin: bytes, has_tables: bool = False) -> str:
    """Return machine code as text; has_tables: whether jumps to computed places tell which these are."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        # The analysis of data flow takes a third of the time, and adds nothing else to the text.
        options = () if has_tables else ("--no-dataflow",)
        command = (knobs.nvidia.nvdisasm.path, "--print-code", *options, file.name)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def functions(text: str) -> dict[str, Code]:
    """Return the functions by name; LookupError for text that is not understood, and for jumps to computed places."""
    heads = list(_SECTION.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {head[1]: _function(text[head.end() : end]) for head, end in zip(heads, ends)}


def _function(text: str) -> Code:
    instructions: list[Instruction] = []
    labels: list[tuple[str, int]] = []
    reconvergence: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels.append((label[1], len(instructions)))
        elif found := _INSTRUCTION.match(line):
            instructions.append(_instruction(found, reconvergence))
        elif line.lstrip().startswith("/*"):
            raise LookupError(f"`{line.strip()}` is not understood")
    return _with_calls(Code(instructions, labels))


def _instruction(found: re.Match, reconvergence: dict[str, tuple[str, ...]]) -> Instruction:
    """Parse one instruction. reconvergence: by barrier, the labels where threads that diverged meet again."""
    opcode, operands = found["opcode"], found["operands"]
    text, name = f"{opcode} {operands}".strip(), opcode.partition(".")[0]
    targets = tuple(_TARGET.findall(operands))
    is_guarded = found["guard"] not in (None, "PT", "UPT")
    match name:
        case "BRA" | "JMP":
            return Instruction(text, targets=targets, falls=is_guarded or operands[:1] != "`")
        case "BRX" | "JMX":
            if (table := _TABLE.search(operands)) is None:
                raise LookupError(f"`{text}` goes to a place that is computed")
            return Instruction(text, targets=tuple(table[1].split(",")), falls=is_guarded)
        case "EXIT" | "RET":
            return Instruction(text, falls=is_guarded)
        case "BSSY":
            reconvergence[operands.partition(",")[0]] = targets
            return Instruction(text)
        case "BSYNC":
            return Instruction(text, targets=reconvergence.get(operands, ()))
        case "WARPGROUP":
            return Instruction(text, waits=int(operands.rpartition(" ")[2], 16) if "DEPBAR" in opcode else None)
    if wgmma := _WGMMA.match(opcode):
        return _wgmma(text, wgmma, operands)
    return _plain(text, opcode, operands, is_guarded)


def _plain(text: str, opcode: str, operands: str, is_guarded: bool) -> Instruction:
    """Read the registers that an instruction without special rules writes and reads."""
    name = opcode.partition(".")[0]
    parts = [part.strip() for part in operands.split(",")]
    has_result = not opcode.startswith(_NO_RESULT) and "SETP" not in name
    while has_result and _PREDICATE.match(parts[0]) and len(parts) > 1:
        parts.pop(0)  # predicates that are results, too
    has_result = has_result and _REGISTER.match(parts[0]) is not None
    written = _registers(parts.pop(0), _width(opcode)) if has_result else frozenset()
    width = 1 if has_result and not name.startswith("D") else _width(opcode)
    # An address takes no more registers than it says, however wide what is there.
    reads = frozenset[str]().union(*(_registers(part, 1 if "[" in part else width) for part in parts))
    reads_memory = "[" in _CONSTANT.sub("", operands) and name not in _KNOWN_MEMORY
    return Instruction(
        text,
        written,
        reads,
        is_conditional=is_guarded,
        is_copy=name in ("MOV", "UMOV") or ".MOV" in opcode,
        is_opaque=reads_memory or name.startswith(_VARYING),
    )


def _width(opcode: str) -> int:
    """Return how many registers the result of an operation takes, or the value that it stores."""
    name, *modifiers = opcode.split(".")
    if name in ("HMMA", "IMMA", "DMMA"):
        return 2 if "F16" in modifiers and "F32" not in modifiers else 4
    if "128" in modifiers or (name == "LDSM" and "4" in modifiers):
        return 4
    is_pair = (
        not {"64", "WIDE"}.isdisjoint(modifiers)
        or name.startswith("D")
        or (name == "LDSM" and "2" in modifiers)
        or (name == "CS2R" and "32" not in modifiers)
        or (name in ("F2F", "I2F") and modifiers[:1] == ["F64"])
        or (name == "F2I" and modifiers[:1] in (["S64"], ["U64"]))
    )
    return 2 if is_pair else 1


def _registers(operand: str, width: int = 1) -> frozenset[str]:
    """Return the registers of an operand: `width` from each that it names."""
    found = _REGISTER.findall(operand)
    return frozenset(f"{bank}{int(n) + k}" for bank, n, pair in found for k in range(2 if pair else width))


def _wgmma(text: str, found: re.Match, operands: str) -> Instruction:
    shape, columns, dtype = found.groups()
    result, left, *_ = (part.strip() for part in operands.split(","))
    accumulator = _range(result, int(columns) // (4 if dtype == "F16" else 2))
    wgmma = Wgmma(shape, _range(left, _LEFT) if left.startswith("R") else (), accumulator)
    reads = frozenset((*wgmma.left, *accumulator))
    return Instruction(text, frozenset(accumulator), reads, wgmma=wgmma, commits=operands.endswith("gsb0"))


def _range(first: str, count: int) -> tuple[str, ...]:
    number = int(first.removeprefix("R").removesuffix(".reuse"))
    return tuple(f"R{number + k}" for k in range(count))


def _with_calls(code: Code) -> Code:
    """Return code in which a call writes all registers that the function called writes."""
    calls = {n: each for n, each in enumerate(code.instructions) if each.text.startswith("CALL")}
    if not calls:
        return code
    written = {n: code.written_from(_TARGET.findall(each.text)[0], n) for n, each in calls.items()}
    instructions = [
        replace(each, writes=written[n]) if n in calls else each for n, each in enumerate(code.instructions)
    ]
    return Code(instructions, code.labels)
