"""Products that overlap with what lies between them: the rewritten program gives the very same numbers."""

import dataclasses

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.backends import torch as evaluator
from ninetoothed.expr import var
from ninetoothed.ir.verify import verify
from ninetoothed.passes import guarded_loads
from ninetoothed.passes.flat_loops import flatten
from ninetoothed.passes.operations import replaced
from ninetoothed.passes.overlapped_products import overlap
from ninetoothed.passes.row_halves import HALF, halve
from ninetoothed.runtime import arguments, dispatch, variants
from ninetoothed_ops.kernels import mm, sdpa, sdpa_backward_key_value
from ninetoothed_ops.kernels.attention import blocks, entries, held, rows
from tests.ninetoothed.backends import own_attention


@pytest.fixture(autouse=True)
def _not_poisoned(monkeypatch):
    """Overhang that is set to NaN stands between a load and its product: such loops are left as they are."""
    monkeypatch.delenv("NINETOOTHED_POISON", raising=False)


def tensors(queries, keys, width=32):
    torch.manual_seed(0)
    return tuple(torch.randn(2, heads, rows, width) for heads, rows in ((4, queries), (2, keys), (2, keys)))


def given(query, key, value, is_causal):
    """The arguments of `sdpa`'s kernel, with an output of NaN."""
    mask = torch.empty(1, 1, 1, 1, dtype=torch.bool).expand(*query.shape[:3], key.shape[2])
    return query, key, value, mask, 0.2, torch.full_like(query, float("nan")), sdpa.NO_MASK, is_causal


def traced(kernel, values, *blocks):
    """A variant with these blocks, as it runs on the CPU."""
    launcher = dispatch.Launcher(kernel.definition)
    call, place = arguments.check(kernel.definition, arguments.bind(kernel.definition, values, {}))
    schedule = launcher._variants.select(launcher.plan, call, place, None).schedule
    meta = tuple(zip(kernel.definition.meta_symbols, blocks, strict=True))
    selection = launcher._variants.select(launcher.plan, call, place, None, dataclasses.replace(schedule, meta=meta))
    return variants.trace(kernel.definition, selection)


def run(program, kernel, values, variant):
    names = [parameter.name for parameter in kernel.definition.parameters]
    bound = arguments.bind(kernel.definition, values, {}).arguments
    evaluator.prepare(program)(dict(zip(names, bound, strict=True)), variant.selection.values)


@pytest.mark.parametrize("is_causal", (False, True))
@pytest.mark.parametrize("queries, keys", ((128, 128), (200, 75), (64, 20), (40, 333)))
def test_attention_is_the_same(queries, keys, is_causal):
    kernel, own = sdpa.make(), tensors(queries, keys)
    variant = traced(kernel, given(*own, is_causal), 64, 32)
    halved = halve(variant.program, 64)
    verify(halved)
    found = []
    for program in (variant.program, overlap(variant.program), halved, overlap(halved)):
        verify(program)
        values = given(*own, is_causal)
        run(program, kernel, values, variant)
        found.append(values[5])
    assert not found[0].isnan().any() and all(torch.equal(found[0], each) for each in found[1:])
    query, key, value = (each.double() for each in own)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=is_causal, scale=0.2, enable_gqa=True
    )
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form, other", (("bias", torch.float32), ("window", 17), ("window", 1), ("window", 1000)))
@pytest.mark.parametrize("size", (20, 128, 333))
def test_attention_of_a_user_is_the_same(form, other, size):
    """What a loop loads beside operands, and bounds of loops that the program computes."""
    kernel, own = own_attention.make(form), [each.repeat_interleave(2, 1) for each in tensors(2 * size, size)[1:]]
    own, other = (own[0], *own), torch.randn(2, 4, size, size) if form == "bias" else other
    variant, found = traced(kernel, (*own, other, own[0]), 64, 32), []
    halved = halve(variant.program, 64)
    for program in (variant.program, overlap(variant.program), halved, overlap(halved)):
        verify(program)
        values = *own, other, torch.full_like(own[0], float("nan"))
        run(program, kernel, values, variant)
        found.append(values[-1])
    assert all(torch.equal(found[0], each) for each in found[1:])
    torch.testing.assert_close(found[0].double(), own_attention.reference(form, *own, other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", (32, 13, 70))
def test_attention_over_pages_is_the_same(size):
    """What tells a tile's place is computed for each of both products, whose rounds differ."""
    kernel = own_attention.make("paged")
    table = torch.tensor([[7, 0, 3], [8, 8, 1]], dtype=torch.int32)
    q, keys, values = torch.randn(2, 2, 75, 32), *torch.randn(2, 9, 2, size, 32)
    variant, found = traced(kernel, (q, keys, values, table, q + 0), 64, 32), []
    (loop,) = (operation for operation in variant.program.body if isinstance(operation, ir.For))
    # On a CPU it is asserted that nothing is divided by 0.
    kept = tuple(each for each in loop.body if getattr(each, "function", "") != "device_assert")
    body = replaced(variant.program.body, {loop: (dataclasses.replace(loop, body=kept),)})
    whole = dataclasses.replace(variant.program, body=body)
    halved = halve(whole, 64)
    for program in (whole, overlap(whole), halved, overlap(halved)):
        verify(program)
        given_pages = q, keys, values, table, torch.full_like(q, float("nan"))
        run(program, kernel, given_pages, variant)
        found.append(given_pages[-1])
    assert all(torch.equal(found[0], each) for each in found[1:])
    expected = own_attention.reference("paged", q, keys, values, table)
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("masking, is_causal", ((sdpa.BOOLEAN_MASK, True), (sdpa.ADDITIVE_MASK, False)))
def test_attention_with_a_mask_is_the_same(masking, is_causal):
    kernel, own = sdpa.make(), tensors(200, 75)
    mask = torch.rand(2, 1, 200, 75).expand(2, 4, 200, 75)
    mask = mask > 0.5 if masking == sdpa.BOOLEAN_MASK else mask
    given_masks = [(*given(*own, is_causal)[:3], mask, 0.2, torch.full_like(own[0], float("nan"))) for _ in range(4)]
    variant, found = traced(kernel, (*given_masks[0], masking, is_causal), 64, 32), []
    halved = halve(variant.program, 64)
    for program, values in zip(
        (variant.program, overlap(variant.program), halved, overlap(halved)), given_masks, strict=True
    ):
        verify(program)
        run(program, kernel, (*values, masking, is_causal), variant)
        found.append(values[5])
    assert not found[0].isnan().any() and all(torch.equal(found[0], each) for each in found[1:])


@pytest.mark.parametrize("is_causal", (False, True))
@pytest.mark.parametrize("lengths", ((0, 75), (1, 32), (33, 64), (100, -3)))
def test_attention_with_lengths_is_the_same(lengths, is_causal):
    """Beyond its length each entry has NaN and infinities, which the guards of loads leave out."""
    kernel, own, found = sdpa.make(has_lengths=True), tensors(80, 75), []
    held = [min(max(length, 0), 75) for length in lengths]
    for each, other in zip(own[1:], (float("nan"), float("inf")), strict=True):
        for b, length in enumerate(held):
            each[b, :, length:] = other

    def given_lengths():
        return (*given(*own, is_causal), torch.tensor(lengths, dtype=torch.int32))

    variant = traced(kernel, given_lengths(), 64, 32)
    guarded = guarded_loads.guard(variant.program)
    halved = halve(guarded, 64)
    for program in (variant.program, guarded, overlap(guarded), overlap(halved)):
        verify(program)
        values = given_lengths()
        run(program, kernel, values, variant)
        found.append(values[5])
    assert not found[0].isnan().any() and all(torch.equal(found[0], each) for each in found[1:])
    for b, length in enumerate(held):
        query, key, value = (each[b].double() for each in own)
        expected = torch.nn.functional.scaled_dot_product_attention(
            query, key[:, :length], value[:, :length], is_causal=is_causal, scale=0.2, enable_gqa=True
        )
        torch.testing.assert_close(found[0][b].double(), expected.nan_to_num(0.0), rtol=1e-4, atol=1e-5)


def test_all_rounds_read_alike():
    """Rounds of whole blocks read values under the guard of the last one, so that one ring serves both."""
    kernel, own = sdpa.make(has_lengths=True), (*given(*tensors(80, 75), False), torch.tensor([3, 4]))
    program = overlap(guarded_loads.guard(traced(kernel, own, 64, 32).program))
    loads = [
        each.access for each in ir.walk(program.body) if isinstance(each, ir.Load) and each.access.parameter == "value"
    ]
    assert len(loads) == 3 and len({(len(each.guards), len(each.bindings)) for each in loads}) == 1
    assert not any(
        isinstance(each, ir.Apply) and each.function == "where" and each.result.type.lanes == (32, 32)
        for each in ir.walk(program.body)
    )


@pytest.mark.parametrize("numbers", ((13, 45), (45, 13)))
def test_a_tile_under_two_conditions(numbers):
    """A load for each: one may be of rows that the other has not."""

    def own(query, key, value, first, second, output):
        ends = held(first, key), held(second, key)
        total = ntl.zeros(output.shape, dtype=ntl.float32)
        for j in range(key.shape[0]):
            weights, tile = ntl.dot(query, ntl.trans(key[j])), value[j]
            index = value[j].offsets(-2)[:, None]
            total += ntl.dot(weights, ntl.where(index < ends[0], tile, 0.0))
            total += ntl.dot(weights, ntl.where(index < ends[1], tile, 0.0))
        output = total

    def arrange(query, key, value, first, second, output):
        of_entries = entries(first, rows(query)), entries(second, rows(query))
        return rows(query), blocks(key, query), blocks(value, query), *of_entries, rows(output)

    kernel = ninetoothed.make(arrange, own, (*(Tensor(4) for _ in range(3)), Tensor(1), Tensor(1), Tensor(4)))
    q, k, v = tensors(80, 64)
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    values = q, k, v, *(torch.tensor([n, n + 3]) for n in numbers), torch.full_like(q, float("nan"))
    variant = traced(kernel, values, 64, 32)
    guarded = guarded_loads.guard(variant.program)
    assert guarded.body != variant.program.body
    verify(guarded)
    run(guarded, kernel, values, variant)
    scores = q.double() @ k.double().mT
    for b in range(2):
        ends = [n + 3 * b for n in numbers]
        expected = sum(scores[b, ..., :n] @ v[b, :, :n].double() for n in ends)
        torch.testing.assert_close(values[-1][b].double(), expected, rtol=1e-4, atol=1e-4)


def test_conditions_that_are_no_guards_stay():
    """Zeros are chosen by a number of the loop's own, or others than zeros are."""

    def own(query, key, value, lengths, output, zero):
        total = ntl.zeros(output.shape, dtype=ntl.float32)
        for j in range(key.shape[0]):
            weights = ntl.dot(query, ntl.trans(key[j]))
            seen = value[j].offsets(-2)[:, None] < ntl.max(ntl.cast(weights, ntl.int32))
            total = total + ntl.dot(weights, ntl.where(seen, value[j], zero))
        output = total

    def arrange(query, key, value, lengths, output, zero):
        return rows(query), blocks(key, query), blocks(value, query), lengths, rows(output), zero

    kernel = ninetoothed.make(
        arrange, own, (*(Tensor(4) for _ in range(3)), Tensor(0), Tensor(4), Tensor(0, constexpr=True))
    )
    for zero in (0.0, 1.0):
        q, k, v = tensors(80, 64)
        program = traced(kernel, (q, k, v, 3, torch.empty_like(q), zero), 64, 32).program
        assert guarded_loads.guard(program).body == program.body


@pytest.mark.parametrize("is_causal, first", ((False, "lane_0"), (True, "lane_0 + 64 * program_2")))
def test_two_nested_loops_that_are_one(is_causal, first):
    """The gradient of values: for each block of queries, both heads that the keys serve."""
    kernel = sdpa_backward_key_value.make(of_keys=False)
    (query, key, value), lse = tensors(128, 128, 192), torch.rand(2, 4, 128, 1)
    given = query, key, value, torch.empty(1).expand(2, 4, 1, 128), torch.empty(2), 0, 0.2, 0.0, query, lse, lse, lse
    variant = traced(kernel, (*given, value, sdpa.NO_MASK, is_causal, False, False), 64, 32)
    program = overlap(flatten(variant.program))
    verify(program)
    (branch,) = (operation for operation in program.body if isinstance(operation, ir.If))
    (loop,) = (operation for operation in branch.then_body if isinstance(operation, ir.For))
    counters = {name for name, _ in loop.counters}
    outside = [each for each in ir.walk(branch.then_body) if isinstance(each, ir.Load) and each not in loop.body]
    assert len(counters) == 2 and len(outside) == 3
    assert not any(counters & e.variables for load in outside for e in load.access.expressions)
    text = ir.print_operation(next(each for each in outside if each.access.parameter == "query"))
    assert f"load query[program_0, 2 * program_1, {first}, lane_1]" in text
    (grad,) = (each for each in loop.body if isinstance(each, ir.Load) and each.access.parameter == "grad")
    assert f"({loop.variable} + 1) % 2 + 2 * program_1" in ir.print_operation(grad)


def test_no_keys():
    kernel, own = sdpa.make(), tensors(70, 0)
    variant = traced(kernel, given(*own, False), 64, 32)
    values = given(*own, False)
    run(overlap(variant.program), kernel, values, variant)
    assert (values[5] == 0).all()


def test_the_second_product_is_a_round_late():
    variant = traced(sdpa.make(), given(*tensors(128, 1024), True), 64, 32)
    program = overlap(variant.program)
    (branch,) = (operation for operation in program.body if isinstance(operation, ir.If))
    loops = [operation for operation in branch.then_body if isinstance(operation, ir.For)]
    assert len(loops) == 2
    for loop in loops:
        lines = [ir.print_operation(operation) for operation in loop.body]
        key, value = (next(line for line in lines if f"load {name}[" in line) for name in ("key", "value"))
        assert f"32 * {loop.variable} + lane_0" in key and f"32 * {loop.variable} + lane_0 - 32" in value
        products = [n for n, operation in enumerate(loop.body) if getattr(operation, "function", "") == "dot"]
        exponentials = [n for n, operation in enumerate(loop.body) if getattr(operation, "function", "") == "exp"]
        assert max(products) < min(exponentials)


def test_what_halves_share():
    variant = traced(sdpa.make(), given(*tensors(128, 256), True), 64, 32)
    program = halve(variant.program, 64)
    assert program.axes[-1] == HALF and program.grid[-1] == 2
    for operation in ir.walk(program.body):
        match operation:
            case ir.For(start=start, stop=stop):
                assert HALF not in start.variables | stop.variables
            case ir.Load(access=access) | ir.Store(access=access):
                is_own = any(HALF in index.variables for index in access.indices)
                assert is_own == (access.parameter in ("query", "output"))


def scores_of_totals(query, key, value, output):
    """An attention whose weights depend on what they are multiplied for: its products cannot overlap."""
    total = ntl.zeros(output.shape, dtype=ntl.float32)

    for j in range(key.shape[0]):
        weights = ntl.dot(query, ntl.trans(key[j])) * ntl.max(total)
        total = total * 2.0 + ntl.dot(ntl.cast(weights, value.dtype.dtype), value[j])

    output = total


def test_others_stay():
    matrices = tuple(torch.empty(64, 64) for _ in range(3))
    assert overlap(traced(mm.make(), matrices, 32, 32, 32).program) is None

    def arrangement(query, key, value, output):
        return sdpa.rows(query), sdpa.blocks(key, query), sdpa.blocks(value, query), sdpa.rows(output)

    kernel = ninetoothed.make(arrangement, scores_of_totals, tuple(sdpa_tensor() for _ in range(4)))
    own = tensors(64, 64)
    assert overlap(traced(kernel, (*own, torch.empty_like(own[0])), 64, 32).program) is None


@dataclasses.dataclass(kw_only=True)
class _Guarded(ir.Rewriter):
    """Lets the loads of each loop have a guard, or none."""

    are_guarded: dict

    def operation(self, operation):
        if not isinstance(operation, ir.For):
            return (operation,)
        guards = (Guard(var(operation.variable) * 32, var("key_size_2")),) * self.are_guarded[operation]
        loads = {
            each: dataclasses.replace(each, access=dataclasses.replace(each.access, guards=guards))
            for each in operation.body
            if isinstance(each, ir.Load)
        }
        return (dataclasses.replace(operation, body=tuple(loads.get(each, each) for each in operation.body)),)


@pytest.mark.parametrize("guarded, overlaps", (((0, 0), True), ((0, 1), True), ((1, 1), True), ((1, 0), False)))
def test_loads_keep_the_guards_of_the_loop_before(guarded, overlaps):
    """What the last loop loads stands for the first rounds of the one before it, whose guards it may lack."""
    program = traced(sdpa.make(), given(*tensors(128, 75), True), 64, 32).program
    loops = [operation for operation in program.body if isinstance(operation, ir.For)]
    rewriter = _Guarded(are_guarded=dict(zip(loops, guarded, strict=True)))
    assert (overlap(dataclasses.replace(program, body=rewriter.block(program.body))) is not None) == overlaps


def sdpa_tensor():
    constant = {"constexpr": True}
    return Tensor(4, shape_options=(None, constant, None, constant))
