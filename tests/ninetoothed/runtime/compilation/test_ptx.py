"""What PTX says of left operands that a loop does not change, in small samples by hand."""

import pytest

from ninetoothed.runtime.compilation.ptx import has_left_operands, keeps_left_operand

LEFT = "{%r1, %r2, %r3, %r4}"


def product(left=LEFT):
    return f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, {left}, %rd1, 0, 1, 1, 0"


def ptx(*loop, name="kernel", after=()):
    """A function that computes four registers, and then goes round a loop."""
    statements = [f"mul.f16x2 \t%r{n}, %r10, %r11" for n in range(1, 5)]
    statements += ["$L__BB0_1:\n\t.loc\t1 20 3\n\t// begin inline asm", *loop, "@%p1 bra \t$L__BB0_1", *after, "ret"]
    body = "".join(f"\t{each};\n" if not each.endswith(("asm", ":")) else f"{each}\n" for each in statements)
    return f".version 8.7\n.target sm_90a\n.visible .entry {name}(\n\t.param .u64 {name}_param_0\n)\n{{\n{body}}}\n"


LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r12]"
FOUR = [f"%r{n}" for n in range(1, 5)]
# An outer loop begins anew after this one.
AGAIN = ("@%p2 bra $L__BB0_1",)

KEPT = {
    "computed before": [product()],
    "computed of the same in each round": [*(f"mul.f16x2 {each}, %r10, %r11" for each in FOUR), product()],
    "copied from round to round": [
        product(),
        *(f"mov.b32 %r2{n}, %r{n}" for n in range(1, 5)),
        *(f"mov.b32 %r{n}, %r2{n}" for n in range(1, 5)),
    ],
    "one register": [LOAD, product("{%r1, %r2, %r3, %r5}")],
    "loaded in some rounds": ["@%p3 ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r12]", product()],
    "loaded on one of two ways": ["@%p3 bra $L__BB0_2", LOAD, "$L__BB0_2:", product()],
    "in a loop within": [LOAD, "$L__BB0_2:", product(), "@%p2 bra $L__BB0_2"],
    "of a number": [*(f"mov.b32 {each}, 0" for each in FOUR), product()],
    "a computed jump": [product(), "brx.idx %r30, $L_table"],
}
CHANGED = {
    "loaded": [LOAD, product()],
    "of the last round": [product(), *(f"cvt.rn.f16x2.f32 {each}, %f0, %f1" for each in FOUR)],
    "in two steps": [LOAD.replace("{%r1", "{%r21"), *(f"mul.f16x2 {each}, %r21, %r10" for each in FOUR), product()],
    "of other threads": [*(f"shfl.sync.bfly.b32 {each}, %r10, 1, 31, -1" for each in FOUR), product()],
    "on both ways": ["@%p3 bra $L__BB0_2", LOAD, "bra $L__BB0_3", "$L__BB0_2:", LOAD, "$L__BB0_3:", product()],
    "after a wait": [LOAD, "waiting:\n\tmbarrier.try_wait.b64 %p4, [%r12]", "@%p4 bra waiting", product()],
    "in shared memory": [product("%rd3")],
}


@pytest.mark.parametrize("name", KEPT)
def test_a_left_operand_that_stays_is_seen(name):
    table = ("$L_table: .branchtargets\n\t$L__BB0_1",) if name == "a computed jump" else ()
    assert keeps_left_operand(ptx(*KEPT[name], after=table))
    assert keeps_left_operand(ptx(*KEPT[name], after=(*table, *AGAIN)))


@pytest.mark.parametrize("name", CHANGED)
def test_one_that_is_new_in_each_round_is_none(name):
    assert not keeps_left_operand(ptx(*CHANGED[name]))
    assert not keeps_left_operand(ptx(*CHANGED[name], after=AGAIN))


def test_without_a_loop_there_is_none():
    assert not keeps_left_operand(ptx(product()).replace("@%p1 bra \t$L__BB0_1;", ""))


def test_text_that_is_not_understood_is_taken_to_keep_one():
    assert keeps_left_operand(ptx("?", LOAD, product()))
    assert keeps_left_operand(ptx("bra $L__BB0_9", LOAD, product()))
    assert not keeps_left_operand(ptx("?", product("%rd3")))


def test_every_function_is_looked_at():
    first, second = ptx(LOAD, product(), name="first"), ptx(product(), name="second")
    assert keeps_left_operand(first + second) and keeps_left_operand(second + first)
    assert not keeps_left_operand(first + first.replace("first", "third"))


def test_products_that_read_shared_memory_alone_are_told():
    assert has_left_operands(ptx(product())) and not has_left_operands(ptx(product("%rd3")))
