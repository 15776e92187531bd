"""Registers of wgmma that machine code loses, in small samples by hand.

R4 to R7 hold the left operand of a product, R24 to R27 its accumulator; R40 to R43 and R60 are other registers.
"""

import pytest

from tests.machine_code.faults import faults

LEFT, OTHER = "{%r1, %r2, %r3, %r4}", "{%r5, %r6, %r7, %r8}"


def product(left=LEFT, columns=8):
    accumulator = ", ".join(f"%f{n}" for n in range(columns // 2))
    return f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{accumulator}}}, {left}, %rd1, 0, 1, 1, 0"


def ptx(*loop, name="kernel"):
    """A function that computes four registers, and then goes round a loop."""
    statements = [f"mul.f16x2 \t%r{n}, %r10, %r11" for n in range(1, 5)]
    statements += ["$L__BB0_1:\n\t.loc\t1 20 3\n\t// begin inline asm", *loop, "@%p1 bra \t$L__BB0_1", "ret"]
    body = "".join(f"\t{each};\n" if not each.endswith("asm") else f"{each}\n" for each in statements)
    return f".version 8.7\n.target sm_90a\n.visible .entry {name}(\n\t.param .u64 {name}_param_0\n)\n{{\n{body}}}\n"


def sass(*lines, name="kernel"):
    """A function of these instructions and labels, as nvdisasm prints it."""
    text = [f'\t.section\t.text.{name},"ax",@progbits', f".text.{name}:"]
    for n, line in enumerate(lines):
        predicate, instruction = line.split(" ", 1) if line.startswith("@") else ("", line)
        printed = f"        /*{n:04x}*/  {predicate:>16} {instruction} ;"
        text.append(line if line.endswith(":") else printed)
    return "\n".join(text) + "\n"


COMPUTED = [f"HMUL2 R{n}, R40, R41" for n in range(4, 8)]
PRODUCT = "HGMMA.64x8x16.F32 R24, R4, gdesc[UR4], RZ, !UPT, gsb0"
WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x0"
AGAIN, END = "@P0 BRA `(.L_x_0)", "EXIT"


def looped(*after, before=(), ahead=()):
    """Machine code of `ptx(product())`, with more ahead of the loop, before its product and after its wait."""
    return sass(*COMPUTED, *ahead, ".L_x_0:", *before, "WARPGROUP.ARRIVE", PRODUCT, WAIT, *after, AGAIN, END)


def found(source, machine):
    return [fault.reason for fault in faults(source, machine)]


def called(*lines):
    """A function that the loop calls, in the same section."""
    body = "".join(f"        /*0100*/  {line} ;\n" for line in (*lines, "RET.REL.NODEC R40 `(kernel)"))
    return looped("CALL.REL.NOINC `($__internal_0)") + f"$__internal_0:\n{body}"


SOUND = {
    "nothing": looped(),
    "other registers": looped("FADD R8, R24, R25", "LDS.128 R40, [R60]", "ISETP.GE.AND P1, PT, R4, R60, PT"),
    "reads": looped(
        "STG.E.128 desc[UR16][R60.64], R4", "IADD3 R60, P2, R4, R60, RZ", "FSETP.GT.AND P3, PT, R5, R60, PT"
    ),
    "reloaded": looped("FADD R4, R24, R25", before=["LDL R4, [R1+0x8]"]),
    "copied": looped("FADD R4, R24, R25", before=["MOV R4, R60"], ahead=["MOV R60, R4"]),
    "carried by copies": looped("MOV R60, R4", "FADD R4, R24, R25", "IMAD.MOV.U32 R4, RZ, RZ, R60"),
    "computed anew": looped("FADD R4, R24, R25", before=["HMUL2 R4, R42, R43"]),
    "another loop": sass(
        *COMPUTED, ".L_x_0:", PRODUCT, WAIT, AGAIN, ".L_x_1:", "FADD R4, R24, R25", "@P1 BRA `(.L_x_1)", END
    ),
    "a block out of line": sass(
        *(*COMPUTED, ".L_x_0:", "@!P1 BRA `(.L_x_2)", ".L_x_1:", PRODUCT, WAIT, AGAIN, "FADD R4, R24, R25", END),
        *(".L_x_2:", "@!P1 BRA `(.L_x_2)", "BRA `(.L_x_1)"),
    ),
    "a call": called("FADD R60, R41, R42"),
}
LOST = {
    "one": (looped("FADD R4, R24, -R13.reuse"), "R4"),
    "under a predicate": (looped("@!P2 MUFU.EX2 R5, R24"), "R5"),
    "one of a pair": (looped("IMAD.WIDE.U32 R6, R24, 0x2, R40"), "R7"),
    "one of four": (looped("LDS.U.128 R4, [R60]"), "R7"),
    "after predicates": (looped("SHFL.BFLY PT, R4, R24, 0x2, 0x1f"), "R4"),
    "before the product": (looped("FADD R60, R24, R25", before=["@P1 MOV R4, R60"]), "R4"),
    "counted": (looped("IADD3 R4, R4, 0x1, RZ"), "R4"),
    "reloaded too late": (looped("FADD R4, R24, R25", "@P3 LDL R4, [R1+0x8]"), "R4"),
    "by a product": (looped("HGMMA.64x8x16.F32 R4, gdesc[UR4], R4, gsb0", WAIT), "R4"),
    "on one of two ways": (looped("@P1 BRA `(.L_x_1)", "FADD R4, R24, R25", ".L_x_1:"), "R4"),
    "by a call": (called("FADD R4, R41, R24"), "R4"),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound(name):
    assert found(ptx(product()), SOUND[name]) == []


@pytest.mark.parametrize("name", LOST)
def test_an_operand_that_is_the_same_in_every_round_is_overwritten(name):
    machine, register = LOST[name]
    source = ptx(product(), product("%rd2")) if name == "by a product" else ptx(product())
    reasons = found(source, machine)
    assert any(reason.startswith(f"{register}, loop-invariant, is overwritten") for reason in reasons), reasons


@pytest.mark.parametrize(
    "loop",
    (
        ["ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r12]", product()],
        ["@%p2 add.f16x2 %r1, %r1, %r11", product()],
        [product(), "cvt.rn.f16x2.f32 %r1, %f0, %f1"],
        [product("%rd3")],
    ),
    ids=("loaded", "counted", "of the last round", "in shared memory"),
)
def test_an_operand_that_changes_may_be_overwritten(loop):
    machine = looped("FADD R4, R24, R25")
    assert found(ptx(*loop), machine if loop != [product("%rd3")] else machine.replace("R4, gdesc", "gdesc")) == []


@pytest.mark.parametrize(
    "loop", ([product(), "mov.b32 %r9, %r1", "mov.b32 %r1, %r9"], ["mul.f16x2 %r1, %r10, %r11", product()])
)
def test_copies_and_what_may_be_hoisted_do_not_change_an_operand(loop):
    assert found(ptx(*loop), looped()) == []
    assert found(ptx(*loop), looped("FADD R4, R24, R25")) != []


def straight(*between, wait=WAIT):
    return sass(*COMPUTED, ".L_x_0:", "LDSM.16.M88.4 R4, [R60]", PRODUCT, *between, wait, AGAIN, END)


LOADED = ["ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r12]", product()]


@pytest.mark.parametrize(
    "instruction, register",
    (
        ("FADD R5, R40, R41", "R5"),
        ("@P4 F2FP.F16.F32.PACK_AB R7, R40, R41", "R7"),
        ("CS2R R26, SRZ", "R27"),
        ("FMUL R60, R25.reuse, R40", "R25"),
        ("STS.128 [R60], R24", "R26"),
        ("LDG.E.128 R4, desc[UR16][R60.64]", "R6"),
        ("HGMMA.64x8x16.F32 R32, R24, gdesc[UR4], R32, gsb0", "R27"),
        ("HGMMA.64x8x16.F32 R4, gdesc[UR4], R4, gsb0", "R4"),
        ("HGMMA.64x8x16.F32 R26, gdesc[UR4], R26, gsb0", "R26"),
    ),
)
def test_a_product_in_flight_is_disturbed(instruction, register):
    assert found(ptx(*LOADED), straight()) == []
    others = [product(OTHER if "R24, gdesc" in instruction else "%rd3")] if "HGMMA" in instruction else []
    assert any(f"{register} of `HGMMA" in each for each in found(ptx(*LOADED, *others), straight(instruction)))


def test_reading_a_left_operand_in_flight_is_fine():
    assert found(ptx(*LOADED), straight("FMUL R60, R4, R5", "STS.128 [R60], R4")) == []


def test_a_wait_covers_what_was_committed_long_enough_ago():
    second = "HGMMA.64x8x16.F32 R32, gdesc[UR4], R32, gsb0"
    both = ptx(*LOADED, product("%rd3"))
    one_left = "WARPGROUP.DEPBAR.LE gsb0, 0x1"
    for between, count in (([second, one_left], 0), ([one_left, second], 1), ([second], 1)):
        assert len(found(both, straight(*between, "FADD R4, R40, R41"))) == count, between
    # Products of one group are waited for together.
    group = straight("HGMMA.64x8x16.F32 R32, gdesc[UR4], R32, gsb0", one_left, "FADD R4, R40, R41")
    assert len(found(both, group.replace(PRODUCT, PRODUCT.replace(", gsb0", "")))) == 1


def test_a_flight_goes_on_in_the_next_round():
    load = "LDSM.16.M88.4 R4, [R60]"
    assert len(found(ptx(*LOADED), sass(".L_x_0:", load, WAIT, PRODUCT, AGAIN, END))) == 4
    assert found(ptx(*LOADED), sass(".L_x_0:", WAIT, load, PRODUCT, AGAIN, END)) == []


@pytest.mark.parametrize(
    "machine",
    (
        looped(PRODUCT, WAIT),
        looped().replace("64x8x16", "64x16x16"),
        looped().replace("R4, gdesc", "gdesc"),
        looped().replace("kernel", "other"),
        looped("BRX R2 -0x40"),
        "",
    ),
    ids=("one more", "another shape", "another place", "another name", "a computed branch", "nothing"),
)
def test_what_cannot_be_matched_is_not_taken_for_sound(machine):
    assert found(ptx(product()), machine)


def test_machine_code_without_ptx_is_sound_only_where_nothing_is_at_risk():
    assert found("", looped().replace("R4, gdesc", "gdesc")) == []
    assert len(found("", looped())) == 1


def test_text_that_is_not_understood_is_not_taken_for_sound():
    assert "not understood" in found(ptx("?", product()), looped())[0]


def test_every_function_is_looked_at():
    source = ptx(product("%rd3"), name="first") + ptx(product(), name="second")
    first, second = (looped().replace("kernel", name) for name in ("first", "second"))
    first = first.replace("R4, gdesc", "gdesc")
    assert found(source, first + second) == []
    lost = looped("FADD R4, R24, R25").replace("kernel", "second")
    (fault,) = faults(source, first + lost)
    assert fault.function == "second"
