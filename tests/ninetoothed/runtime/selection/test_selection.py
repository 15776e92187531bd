"""The choice of configurations: obeys the user, fits the GPU, is made of classes, and follows the rules of thumb."""

import itertools
import math

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, block_size
from ninetoothed.errors import ArrangementError
from ninetoothed.runtime import dispatch, specialise
from ninetoothed.runtime.arguments import bind, check
from ninetoothed.runtime.selection import cost_model, machine, ranking
from ninetoothed.runtime.selection.pattern import AttentionPattern, Pattern, ProductPattern, pattern_of
from ninetoothed.runtime.selection.problem import SHORTEST
from ninetoothed.runtime.sizes import measure
from ninetoothed.schedule import DataParallel, Persistent, StreamK
from ninetoothed_ops.kernels import (
    conv2d,
    mm,
    rope,
    sdpa,
    sdpa_backward_key_value,
    sdpa_backward_query,
    softmax,
)
from tests.ninetoothed.products import blocked
from tests.ninetoothed_ops.kernels import calls

# What kernels take besides, where they are asked to.
MORE = {
    "is_capped": 2.0,
    "has_lengths": torch.empty(4, dtype=torch.int64),
    "has_sinks": torch.empty(1, 1, 1, 1).expand(4, 16, 4096, 1),
}
GPUS = (machine.A100, machine.H100, machine.H200, machine.B200)


def classified(kernel, *arguments):
    """The class of a call, and its sizes rounded."""
    launcher = dispatch.launcher_of(kernel)
    call, place = check(kernel.definition, bind(kernel.definition, arguments, {}))
    values = measure(launcher.plan, call)
    sizes = {name: ranking.rounded(values[name]) for name in launcher.plan.sizes & values.keys()}
    return specialise.specialise(launcher.plan, call, values, place), sizes


def chosen(kernel, *arguments, gpu=machine.H200):
    """All candidates for a call, the best first."""
    return ranking.candidates(kernel.definition, *classified(kernel, *arguments), gpu)


def pattern(kernel, *arguments):
    return pattern_of(kernel.definition, classified(kernel, *arguments)[0])


def tensor(*shape, dtype=torch.float16):
    """Of any size, in no memory."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return torch.empty(1, dtype=dtype).as_strided(shape, (0,) * len(shape))


def product(m, n, k, dtype=torch.float16, gpu=machine.H200):
    kernel = mm.make()
    arguments = tensor(m, k, dtype=dtype), tensor(k, n, dtype=dtype), tensor(m, n, dtype=dtype)
    best, found = chosen(kernel, *arguments, gpu=gpu)[0], pattern(kernel, *arguments)
    return tuple(best.blocks[name] for name in (found.rows, found.columns, found.depth)), best


PRODUCTS = ("mm", "addmm", "bmm", "conv2d", "linear_swiglu", "linear_rope_into_cache")
PRODUCTS += ("conv2d_backward_input", "conv2d_backward_weight")
ATTENTIONS = ("sdpa", "sdpa_capped", "sdpa_backward_query", "sdpa_backward_key_value")


@pytest.mark.parametrize("name", (*calls.NAMES, *calls.OPTIONS, *calls.GRADIENTS))
def test_what_a_kernel_does_is_recognised(name):
    kernel, arguments = calls.large(name)
    kind = ProductPattern if name in PRODUCTS else AttentionPattern if name in ATTENTIONS else Pattern
    found = pattern(kernel, *arguments)
    assert type(found) is kind and found.multiplies == (kind is not Pattern)


def test_products_of_tiles_of_one_size_alone_are_recognised():
    """The pattern is read off a sketch with blocks that the application takes: here of 128 columns."""

    def application(input, other, output):
        total = ntl.zeros(output.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(input[k], other[k])
        output = total + ntl.arange(0, 128)[None, :]

    kernel = ninetoothed.make(mm.arrangement, application, tuple(Tensor(2) for _ in range(3)))
    assert isinstance(pattern(kernel, tensor(256, 256), tensor(256, 256), tensor(256, 256)), ProductPattern)


@pytest.mark.parametrize(
    "options, masking, is_causal, is_short",
    (
        ({}, sdpa.NO_MASK, False, False),
        ({}, sdpa.NO_MASK, True, False),
        ({}, sdpa.BOOLEAN_MASK, False, True),
        ({}, sdpa.ADDITIVE_MASK, False, False),
        ({"is_eager": True}, sdpa.NO_MASK, False, False),
        ({"is_eager": True}, sdpa.BOOLEAN_MASK, False, True),
        ({"is_capped": True}, sdpa.NO_MASK, False, False),
        ({"has_sinks": True}, sdpa.NO_MASK, False, False),
        ({"has_lengths": True}, sdpa.NO_MASK, False, False),
    ),
)
def test_attention_takes_short_steps_with_a_mask_and_no_flag_counts(options, masking, is_causal, is_short):
    x = tensor(4, 16, 4096, 64)
    mask = tensor(4, 16, 4096, 4096, dtype=torch.bool if masking == sdpa.BOOLEAN_MASK else x.dtype)
    more = [value for name, value in MORE.items() if name in options]
    best = chosen(sdpa.make(**options), x, x, x, mask, 0.1, x, masking, is_causal, *more)[0]
    assert (*best.blocks.values(), best.num_stages) == ((64, 64, 3) if is_short else (64, 128, 2))
    few = [each[:, :, :1024] if each.ndim == 4 else each for each in (x, x, x, mask[..., :1024])]
    best = chosen(sdpa.make(**options), *few, 0.1, few[0], masking, is_causal, *more)[0]
    is_short |= is_causal or "has_lengths" in options
    assert (*best.blocks.values(), best.num_stages) == ((64, 64, 3) if is_short else (64, 128, 2))


def test_large_products_of_halves_take_large_tiles():
    blocks, best = product(4096, 4096, 4096)
    assert blocks == (128, 256, 64) and (best.num_warps, best.num_stages) == (8, 3)


def test_small_products_keep_all_multiprocessors_busy():
    (m, n, _), _ = product(1024, 1024, 1024)
    assert (1024 // m) * (1024 // n) >= 0.9 * machine.H200.multiprocessors


def test_sizes_are_seen_as_classes():
    sizes = (0, 1, 2, 3, 100, 1000, 1024, 1025, 1280, 1281, 2000, 2048, 2049, 3072, 14336, 2**20 + 1)
    classes = (0, 1, 2, 4, 128, 1024, 1024, 1280, 1280, 1536, 2048, 2048, 2560, 3072, 14336, 2**20 + 2**18)
    assert tuple(map(ranking.rounded, sizes)) == classes


def subtile_stages(schedule):
    """0 where tiles are not cut."""
    return schedule.sharing.subtile_stages if isinstance(schedule.sharing, StreamK) else 0


class TestProductsOfHalvesOnHopper:
    def test_one_tile_for_each_multiprocessor_gets_a_deep_pipeline(self):
        blocks, best = product(512, 4096, 4096)
        assert (
            blocks == (128, 128, 64) and (best.num_warps, best.sharing) == (4, DataParallel()) and best.num_stages >= 6
        )

    def test_as_many_of_the_largest_tiles_as_multiprocessors(self):
        blocks, best = product(1024, 4096, 14336)
        assert blocks == (128, 256, 64) and (best.num_warps, best.sharing) == (8, DataParallel())

    def test_few_tiles_share_out_their_sums(self):
        (m, n, k), best = product(512, 512, 8192)
        tiles = (512 // m) * (512 // n)
        multiprocessors = machine.H200.multiprocessors
        parts = best.sharing.parts
        assert multiprocessors // 2 <= tiles * parts <= multiprocessors
        assert 8192 // k >= 3 * parts

    def test_few_steps_are_long(self):
        assert product(1024, 1024, 1024)[0][2] == 128 and product(4096, 4096, 4096)[0][2] == 64

    def test_sums_of_few_steps_stay_whole(self):
        assert product(512, 512, 512)[1].sharing == product(128, 128, 128)[1].sharing == DataParallel()

    def test_as_many_programs_as_there_are_multiprocessors_take_tile_after_tile(self):
        assert product(8192, 8192, 8192)[1].sharing == Persistent(machine.H200.multiprocessors)
        assert not isinstance(product(2048, 2048, 2048)[1].sharing, Persistent)

    @pytest.mark.parametrize("size", [(3072, 3072, 3072), (5120, 5120, 5120), (1280, 4096, 4096)], ids=str)
    def test_tiles_left_over_after_whole_waves_are_cut_in_quarters(self, size):
        blocks, best = product(*size)
        assert blocks == (128, 256, 64) and best.sharing.tiles_per_wave == machine.H200.multiprocessors
        # A quarter's step is half as large, and more of them are under way in the same memory.
        assert best.num_stages < best.sharing.subtile_stages <= 2 * best.num_stages

    def test_not_where_a_tile_is_a_side_of_the_product(self):
        """In place, as in `x = x @ w`, a quarter would be stored while others still read the rows."""
        arguments = tensor(40000, 256), tensor(256, 256), tensor(40000, 256)
        columns = pattern(mm.make(), *arguments).columns
        candidates = chosen(mm.make(), *arguments)
        assert {each.blocks[columns] for each in candidates if subtile_stages(each)} == {128}

    @pytest.mark.parametrize("num_stages", (1, 2, 9))
    def test_stages_that_the_user_gives_are_those_of_quarters(self, num_stages):
        kernel = ninetoothed.make(
            mm.arrangement, mm.application, tuple(Tensor(2) for _ in range(3)), num_stages=num_stages
        )
        for each in chosen(kernel, *(tensor(3072, 3072) for _ in range(3))):
            assert each.num_stages == num_stages and subtile_stages(each) in (0, num_stages)

    def test_many_tiles_left_over_have_their_sums_in_parts(self):
        best = product(512, 11008, 16384)[1]
        assert best.sharing == StreamK(machine.H200.multiprocessors, best.sharing.ctas_per_tile)

    def test_not_where_a_wave_of_them_is_almost_full(self):
        assert not isinstance(product(4096, 4096, 4096)[1].sharing, StreamK)

    @pytest.mark.parametrize("odd", [(False, False), (False, True), (True, False), (True, True)], ids=str)
    def test_operands_of_which_both_have_rows_of_odd_multiples_of_16_bytes_are_shared_out_singly(self, odd):
        lhs, rhs = (torch.empty(4088, 4088 if is_odd else 4096, dtype=torch.float16)[:, :4088] for is_odd in odd)
        assert (chosen(mm.make(), lhs, rhs, tensor(4088, 4088))[0].programs is None) == all(odd)

    def test_short_sides_take_no_longer_tiles(self):
        (m, n, _), _ = product(32, 4096, 4096)
        assert m == 32 and n >= 64

    def test_all_candidates_fit(self):
        for m, n, k in itertools.product((1, 100, 4096), repeat=3):
            arguments = tensor(m, k), tensor(k, n), tensor(m, n)
            found = pattern(mm.make(), *arguments)
            for each in chosen(mm.make(), *arguments):
                rows, columns, depth = (each.blocks[name] for name in (found.rows, found.columns, found.depth))
                stored = rows * columns if each.programs else 0
                assert each.num_stages * (rows + columns) * depth * 2 + stored <= machine.H200.shared_memory
                assert rows * columns // (32 * each.num_warps) <= 128 and each.use_tma

    def test_what_the_user_gives_is_obeyed(self):
        blocks = (Symbol("M", constexpr=True), Symbol("N", constexpr=True), block_size(32, 32))
        sizes = {"num_warps": 8, "num_stages": 5}
        kernel = ninetoothed.make(blocked(*blocks), mm.application, (Tensor(2), Tensor(2), Tensor(2)), **sizes)
        arguments = tensor(4096, 4096), tensor(4096, 4096), tensor(4096, 4096)
        launcher = dispatch.launcher_of(kernel)
        variant = launcher.trace(arguments, {"M": 64, "N": 32}, machine.H200)
        best = variant.selection.schedule
        assert (best.num_warps, best.num_stages) == (8, 5) and set(best.blocks.values()) == {32}


@pytest.mark.parametrize("m, n, k", ((32, 1024, 1024), (1, 4096, 4096), (1024, 1024, 1024)))
@pytest.mark.parametrize("sizes", ((256, 256, 64), (128, 128, 512), (128, 128, 64)))
@pytest.mark.parametrize("options", ({}, {"num_warps": 1}, {"num_stages": 16}), ids=str)
def test_there_is_a_candidate_whatever_the_user_fixes(m, n, k, sizes, options):
    blocks = tuple(Symbol(name, constexpr=True) for name in "MNK")
    kernel = ninetoothed.make(blocked(*blocks), mm.application, (Tensor(2), Tensor(2), Tensor(2)), **options)
    arguments = tensor(m, k), tensor(k, n), tensor(m, n)
    variant = dispatch.launcher_of(kernel).trace(arguments, dict(zip("MNK", sizes, strict=True)), machine.H200)
    best = variant.selection.schedule
    assert best.num_warps == options.get("num_warps", best.num_warps)
    assert best.num_stages == options.get("num_stages", best.num_stages)


def test_exact_products_of_floats_take_smaller_tiles():
    (m, n, k), best = product(4096, 4096, 4096, torch.float32)
    assert m * n // (32 * best.num_warps) <= 64 and k <= 32


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("dtype", (torch.float16, torch.float32), ids=str)
def test_tiles_fit_registers_and_shared_memory(gpu, dtype):
    for m, n, k in itertools.product((16, 128, 1024, 8192), repeat=3):
        (rows, columns, depth), best = product(m, n, k, dtype, gpu)
        assert rows * columns // (32 * best.num_warps) <= 128
        assert best.num_stages * (rows + columns) * depth * dtype.itemsize <= gpu.shared_memory


def test_few_variants_over_many_sizes():
    sizes = (17, 64, 100, 1000, 1024, 3000, 4096, 5000, 8192)
    found = {product(m, n, 4096)[1] for m, n in itertools.product(sizes, repeat=2)}
    assert len(found) <= 19


def test_the_choice_depends_on_classes_alone():
    assert product(3000, 3500, 2500)[1] == product(4096, 4096, 4096)[1]


def elementwise(block, **options):
    def arrangement(x, y):
        return x.tile((block,)), y.tile((block,))

    def double(x, y):
        y = x * 2

    return ninetoothed.make(arrangement, double, (Tensor(1), Tensor(1)), **options)


@pytest.mark.parametrize("dtype", (torch.int8, torch.float16, torch.float32, torch.float64), ids=str)
def test_a_thread_moves_one_or_two_vectors(dtype):
    (best,) = chosen(elementwise(block_size()), tensor(1 << 24, dtype=dtype), tensor(1 << 24, dtype=dtype))
    (block,) = best.blocks.values()
    assert 16 <= block * dtype.itemsize / (32 * best.num_warps) <= 32


@pytest.mark.parametrize("low, high", ((1, 16), (64, 64), (2048, 4096), (48, 200)))
def test_bounds_of_a_block_are_kept(low, high):
    block = Symbol("BLOCK", meta=True, lower_bound=low, upper_bound=high)
    for gpu in (None, *GPUS):
        for size in (1, 1000, 1 << 24):
            found = chosen(elementwise(block), tensor(size), tensor(size), gpu=gpu)[0].blocks["BLOCK"]
            assert low <= found <= high and found & (found - 1) == 0


def test_a_dimension_of_one_element_gets_the_smallest_block():
    depthwise = conv2d.make(filters=1)
    arguments = tensor(8, 64, 32, 32), tensor(64, 1, 3, 3), tensor(64), tensor(8, 64, 30, 30), False
    smallest = conv2d.make(filters=1).definition.meta_symbols
    for gpu in (None, *GPUS):
        best = chosen(depthwise, *arguments, gpu=gpu)[0]
        columns = pattern(depthwise, *arguments).columns
        least = smallest[columns].lower_bound or 1
        assert best.blocks[columns] == (least if gpu is None else max(least, SHORTEST)), gpu


def test_what_the_user_gave_is_obeyed():
    block = Symbol("BLOCK", meta=True)
    for warps, stages in ((1, 1), (16, 5)):
        (best,) = chosen(elementwise(block, num_warps=warps, num_stages=stages), tensor(1 << 20), tensor(1 << 20))
        assert (best.num_warps, best.num_stages) == (warps, stages)
    (best,) = chosen(elementwise(block, num_warps=(1, 2)), tensor(1 << 20), tensor(1 << 20))
    assert best.num_warps == 2


@pytest.mark.parametrize("options", ({"num_warps": 3}, {"num_warps": 64}, {"num_stages": 0}, {"num_warps": (4, 5)}))
def test_what_no_gpu_has_is_an_error(options):
    with pytest.raises(ArrangementError, match=next(iter(options))):
        elementwise(block_size(), **options)


def test_rows_get_warps_by_their_length():
    found = [chosen(softmax.make(2), tensor(64, n), tensor(64, n))[0].num_warps for n in (64, 1024, 4096, 32768)]
    assert found == sorted(found) and found[0] == 1 and found[-1] == 32


def test_few_programs_get_a_warp_for_each_scheduler_but_rows_the_same_in_every_batch():
    def warps(tokens, heads):
        x, table = tensor(tokens, 1, heads, 128), tensor(tokens, 1, 1, 64)
        return chosen(rope.make(False), x, table, table, x)[0].num_warps

    assert [warps(2, heads) for heads in (1, 2, 4, 8)] == [1, 2, 4, 4]
    assert warps(2, 8) > warps(1024, 8) == 1
    assert len({chosen(softmax.make(2), tensor(n, 300), tensor(n, 300))[0].num_warps for n in (1, 4096)}) == 1


@pytest.mark.parametrize("is_causal", (False, True))
@pytest.mark.parametrize(
    "width, of_query, of_key_value",
    ((64, (64, 64, 4, 2), (64, 128, 4, 2)), (128, *2 * [(64, 64, 4, 2)]), (256, (128, 32, 8, 3), (64, 64, 8, 2))),
)
def test_gradients_of_attention_take_a_warp_group_on_hopper_or_two(width, of_query, of_key_value, is_causal):
    x, sums, mask = tensor(4, 16, 4096, width), tensor(4, 16, 4096, 1, dtype=torch.float32), tensor(4, 16, 4096, 4096)
    flags = sdpa.NO_MASK, is_causal, False, False
    given = x, x, x, mask, tensor(4), 0, 0.1, 0.0, x, sums, sums, sums
    for kernel, results, expected in (
        (sdpa_backward_query.make(), (x,), of_query),
        (sdpa_backward_key_value.make(), (x, x), of_key_value),
    ):
        best = chosen(kernel, *given, *results, *flags)[0]
        assert (*best.blocks.values(), best.num_warps, best.num_stages) == expected
        # What the larger tiles of wide heads spill costs less than smaller ones.
        assert (best.most_spilled > 0) == (width == 256 or (width == 128 and len(results) == 2))
        # As many heads as 20 MB of L2 have room for what a loop reads of them: 1, 2 or 4 MB.
        assert best.group_rows == 1024 // width


@pytest.mark.parametrize("of_keys, expected", ((True, (128, 32, 8, 3)), (False, (128, 64, 8, 2))))
def test_a_gradient_alone_takes_the_tiles_of_others_with_one_sum(of_keys, expected):
    """As that of queries, with two products before the sum; or as what attention puts out, with one before it."""
    x, sums = tensor(4, 16, 4096, 256), tensor(4, 16, 4096, 1, dtype=torch.float32)
    given = x, x, x, tensor(4, 16, 1, 4096), tensor(4), 0, 0.1, 0.0, x, sums, sums, sums, x
    kernel = sdpa_backward_key_value.make(of_keys=of_keys, of_values=not of_keys)
    best = [each for each in chosen(kernel, *given, sdpa.NO_MASK, True, False, False) if not each.overlaps][0]
    assert (*best.blocks.values(), best.num_warps, best.num_stages) == expected
    assert best.group_rows == 4  # heads, as of all gradients


@pytest.mark.parametrize(
    "heads, length, width, is_causal, expected",
    (
        ((16, 16), 1024, 64, True, (64, 128, 2)),
        ((16, 16), 1024, 64, False, (64, 128, 2)),
        ((16, 16), 2048, 128, True, (64, 64, 2)),
        ((16, 4), 1024, 128, True, (64, 64, 2)),
    ),
)
def test_gradients_take_the_same_steps_with_a_diagonal(heads, length, width, is_causal, expected):
    query, key = (tensor(4, each, length, width) for each in heads)
    sums, mask = tensor(4, heads[0], length, 1, dtype=torch.float32), tensor(4, heads[0], length, length)
    given = query, key, key, mask, tensor(4), 0, 0.1, 0.0, query, sums, sums, sums, key, key
    best = chosen(sdpa_backward_key_value.make(), *given, sdpa.NO_MASK, is_causal, False, False)[0]
    assert (*best.blocks.values(), best.num_stages) == expected


@pytest.mark.parametrize("width", (64, 128))
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_attention_fits_registers(gpu, width):
    q, mask = tensor(4, 16, 4096, width), tensor(4, 16, 4096, 4096)
    kernel = sdpa.make()
    best = chosen(kernel, q, q, q, mask, 0.1, q, 0, True, gpu=gpu)[0]
    found = pattern(kernel, q, q, q, mask, 0.1, q, 0, True)
    m, n = best.blocks[found.rows], best.blocks[found.keys]
    assert m in (64, 128) and n >= 32 and best.num_warps in (4, 8)
    tasks = 2 if best.overlaps else 1  # of so many warps each
    assert m * (2 * n + width) // (32 * best.num_warps * tasks) <= 200


def test_the_cpu_gets_few_programs():
    (best,) = chosen(mm.make(), tensor(512, 512), tensor(512, 512), tensor(512, 512), gpu=None)
    assert all(128 <= block <= 512 for block in best.blocks.values())


def test_the_cpu_gets_no_tile_that_is_too_large():
    def arrangement(x, y, blocks=tuple(block_size() for _ in range(3))):
        return x.tile(blocks), y.tile(blocks)

    def application(x, y):
        y = x + 1

    kernel = ninetoothed.make(arrangement, application, (Tensor(3), Tensor(3)))
    x, y = (torch.zeros(256, 256, 256, dtype=torch.int8) for _ in range(2))
    (best,) = chosen(kernel, x, y, gpu=None)
    assert math.prod(best.blocks.values()) == 2**20
    kernel(x, y)
    assert bool((y == 1).all())


def test_presets_describe_their_generation():
    assert [gpu.architecture for gpu in GPUS] == [80, 90, 90, 100]
    assert str(machine.H200) == "H200 (sm_90, 132 multiprocessors)"
    assert len({*GPUS, *GPUS}) == 4


def test_what_is_bounded_by_several_things_waits_for_those_near_the_longest():
    assert cost_model.joined((3.0, 2.0, 0.0), math.inf) == 3.0
    assert cost_model.joined((4.0, 3.0, 0.0), 2.0) == pytest.approx(5.0)
    assert cost_model.joined((4.0, 1.0), 8.0) == pytest.approx(4.0, rel=1e-5)


@pytest.mark.parametrize("keys, block", ((160, 64), (512, 128), (32768, 128)))
def test_keys_that_are_shared_out_come_in_larger_blocks(keys, block):
    query, key = tensor(1, 8, 4, 128), tensor(1, 8, keys, 128)
    best, *_ = chosen(sdpa.make(), query, key, key, query, 0.125, query, sdpa.NO_MASK, False)
    assert (sorted(best.blocks.values()), best.num_warps) == ([16, block], 4)


@pytest.mark.parametrize("names", (("a", "b"), ("b", "a")))
def test_blocks_are_chosen_in_the_order_of_the_definition(names):
    """Symbols that the compiler names have numbers, by whose text 10 comes before 9."""
    sizes = [Symbol(name, meta=True) for name in names]

    def arrangement(x, y):
        return x.tile((sizes[0] * sizes[1],)), y.tile((sizes[0] * sizes[1],))

    def application(x, y):
        y = x

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    best = chosen(kernel, tensor(1 << 20), tensor(1 << 20))[0]
    assert [name for name, _ in best.meta] == list(names) and [size for _, size in best.meta] == [128, 32]


# -- kernels of no known pattern -------------------------------------------------------------------------------------


def sequence_of(tensor, block):
    """Rows as sequences of tiles of `block` elements, one row a program."""
    tiles = tensor.tile((1, block)).tile((1, -1)).squeeze(1)
    tiles.dtype = tiles.dtype.squeeze(0)
    tiles.dtype.dtype = tiles.dtype.dtype.squeeze(0)
    return tiles


def test_rows_in_a_loop_get_large_tiles_whatever_lies_beside_them():
    """Tiles of the loop alone decide: not the number of rows, nor the integers of 64 bits, of which a row has one."""

    def application(x, target, y):
        total = 0.0
        for k in range(x.shape[0]):
            total += ntl.sum(x[k])
        y = total - x.source[ntl.program_id(0), target]

    def arrangement(x, target, y, block=block_size()):
        return sequence_of(x, block), target.tile((1,)), y.tile((1,))

    kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1), Tensor(1)))
    for rows, expected in ((64, (1024, 8)), (4096, (1024, 2))):
        (best,) = chosen(kernel, tensor(rows, 128256), tensor(rows, dtype=torch.int64), tensor(rows))
        assert (*best.blocks.values(), best.num_warps) == expected


def test_columns_are_cut_into_enough_programs_and_summed_in_tall_tiles():
    def application(x, y):
        total = ntl.zeros(y.shape, dtype=ntl.float32)
        for i in range(x.shape[0]):
            total += ntl.sum(x[i], axis=0)
        y = total

    def arrangement(x, y, m=Symbol("M", meta=True), n=Symbol("N", meta=True)):
        x = x.tile((m, n)).tile((-1, 1)).squeeze(0)
        x.dtype = x.dtype.squeeze(1)
        return x, y.tile((n,))

    kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)))
    (best,) = chosen(kernel, tensor(4096, 4096), tensor(4096))
    assert (best.blocks, best.num_warps) == ({"M": 128, "N": 32}, 8)


def test_a_table_that_is_only_gathered_from_is_no_tile():
    def application(index, table, y):
        y = table.source[index, y.offsets(1)]

    def arrangement(index, table, y, block=block_size()):
        y = y.tile((1, block))
        y.dtype = y.dtype.squeeze(0)
        return index.tile((1,)).unsqueeze(1).expand((-1, y.shape[1])), table.tile((-1, -1)).expand(y.shape), y

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(2), Tensor(2)))
    for table in (tensor(128256, 4096), tensor(100, 4096)):
        (best,) = chosen(kernel, tensor(8192, dtype=torch.int64), table, tensor(8192, 4096))
        assert (*best.blocks.values(), best.num_warps) == (1024, 4)


def test_rows_that_are_read_through_offsets_keep_their_warps():
    def application(x, y):
        y = ntl.sum(ntl.exp(x.source[x.source.shape[0] - 1 - x.offsets(0)]))

    def arrangement(x, y):
        return x.tile((-1,)), y.tile((1,))

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    (best,) = chosen(kernel, tensor(8192), tensor(1))
    assert best.num_warps == 16


def multiplied(x, y, z):
    return mm.application(x, y, z)


def test_products_in_helpers_are_those_of_the_text():
    choices = []
    for application in (mm.application, multiplied):
        kernel = ninetoothed.make(blocked(64, 64, 32), application, (Tensor(2), Tensor(2), Tensor(2)))
        choices += chosen(kernel, *(tensor(4096, 4096) for _ in range(3)))
    assert choices[0] == choices[1] and choices[0].num_warps == 4


@pytest.mark.parametrize("shape, warps", (((128, 256, 64), 8), ((64, 64, 32), 4), ((16, 64, 64), 4)))
def test_products_of_tiles_given_as_numbers_get_one_warp_group_or_two(shape, warps):
    kernel = ninetoothed.make(blocked(*shape), mm.application, (Tensor(2), Tensor(2), Tensor(2)))
    arguments = [tensor(4096, 4096) for _ in range(3)]
    assert type(pattern(kernel, *arguments)) is Pattern
    (best,) = chosen(kernel, *arguments)
    assert (best.num_warps, best.sharing) == (warps, DataParallel())


def test_a_product_with_two_loops_gets_tiles_and_warps_that_a_gpu_has():
    """Logits of a large vocabulary, block by block: a loop over columns around one over the depth."""

    def application(x, weight, y):
        largest = ntl.full(y.shape, float("-inf"), dtype=ntl.float32)
        for n in range(weight.shape[1]):
            logits = ntl.dot(x[0], weight[0, n])
            for k in range(1, x.shape[0]):
                logits += ntl.dot(x[k], weight[k, n])
            largest = ntl.maximum(largest, ntl.max(logits, axis=1))
        y = largest

    def arrangement(x, weight, y, m=Symbol("M", meta=True), n=block_size(), k=block_size()):
        x = x.tile((m, k)).tile((1, -1)).squeeze(1)
        x.dtype = x.dtype.squeeze(0)
        return x, weight.tile((k, n)).tile((-1, -1)).squeeze(1).expand(x.shape), y.tile((m,))

    kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(1)))
    (best,) = chosen(kernel, tensor(4096, 4096), tensor(4096, 32000), tensor(4096))
    assert (*best.blocks.values(), best.num_warps) == (32, 128, 128, 4)
    x, weight = torch.rand(19, 50, dtype=torch.float64) - 2, torch.rand(50, 35, dtype=torch.float64)
    y = torch.full((19,), torch.nan, dtype=torch.float64)
    kernel(x, weight, y)  # all logits are negative: none past the end counts
    torch.testing.assert_close(y, (x @ weight).max(1).values, rtol=1e-5, atol=1e-5)


ROWS, COLUMNS = block_size(1, 32), block_size()


def moved_by(view):
    def arrangement(x, y):
        return view(x).tile(ROWS, COLUMNS), y.tile(ROWS, COLUMNS)

    return arrangement


def gathered(x, y):
    y = y.tile(ROWS, COLUMNS)
    return ninetoothed.arrange.whole(x, y.shape), y


def copied(x, y):
    y = x


def of_a_ring(x, y):
    y = x.source[y.offsets(0)[:, None], ((y.offsets(1) + 3) % x.source.shape[1])[None, :]]


@pytest.mark.parametrize(
    ("arrangement", "application", "is_scattered"),
    [
        (moved_by(lambda x: x), copied, False),
        (moved_by(lambda x: x.permute(1, 0)), copied, False),
        (moved_by(lambda x: x[::-1]), copied, False),
        (moved_by(lambda x: x[:, ::-1]), copied, True),
        (moved_by(lambda x: x[:, ::2].unsqueeze(2).expand(-1, -1, 2).flatten(1)), copied, True),
        (gathered, of_a_ring, True),
    ],
)
def test_tiles_of_scattered_elements_have_few_rows(arrangement, application, is_scattered):
    # Before Triton 3.9 a warp reads a column of such tiles: a tile of 32 rows took ten times as long as one of two.
    kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)))
    x, y = (torch.empty(4096, 4096, dtype=torch.float16) for _ in range(2))
    assert pattern(kernel, x, y).is_scattered is is_scattered
    rows, columns = chosen(kernel, x, y)[0].blocks.values()
    assert (rows <= 2 and columns == 1024) if is_scattered else (rows == 8 and columns == 128)


def test_threads_read_many_windows():
    def arrangement(x, y, block=block_size()):
        x = ninetoothed.arrange.windows(x, (3, 3), stride=2, padding=1).flatten().tile(block)
        x.dtype = x.dtype.ravel().flatten(1)
        return x, y.flatten().tile(block)

    def greatest(x, y):
        y = ntl.max(x, axis=1)

    kernel = ninetoothed.make(arrangement, greatest, (Tensor(4), Tensor(4)))
    (best,) = chosen(kernel, tensor(64, 64, 112, 112), tensor(64, 64, 56, 56))
    assert (*best.blocks.values(), best.num_warps) == (256, 2)  # on an H200 a third of the time of (64, 4)
