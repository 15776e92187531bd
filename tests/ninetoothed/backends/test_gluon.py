"""Attention-shaped kernels in Gluon: how they read, what they compile to, and what stands behind them."""

import dataclasses
import functools
import re

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.backends.gluon.form import COPIES, NAMES, TMA
from ninetoothed.errors import CompilationError
from ninetoothed.runtime import arguments, dispatch, executable, variants
from ninetoothed.runtime.compilation import assembler, gluon, ptx as read_ptx
from ninetoothed.runtime.selection import machine
from ninetoothed_ops.kernels import sdpa
from ninetoothed_ops.kernels.attention import blocks, rows
from tests.conftest import needs_triton
from tests.machine_code import sass
from tests.machine_code.faults import faults


def arrangement(query, key, value, slope, output):
    return rows(query), blocks(key, query), blocks(value, query), slope, rows(output)


def application(query, key, value, slope, output):
    """An attention with scores of its own: a cap bends them, and they fall with the distance."""
    peak = ntl.full(query.shape[:1], float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(query.shape[:1], dtype=ntl.float32)
    accumulator = ntl.zeros(output.shape, dtype=ntl.float32)

    for j in range(key.shape[0]):
        scores = ntl.dot(query, ntl.trans(key[j]))
        scores = scores / (1.0 + ntl.abs(scores) / 50.0)
        scores -= slope * ntl.abs(query.offsets(-2)[:, None] - key[j].offsets(-2)[None, :])
        new_peak = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights = ntl.exp(scores - new_peak[:, None])
        decay = ntl.exp(peak - new_peak)
        total = total * decay + ntl.sum(weights, axis=1)
        accumulator = accumulator * decay[:, None] + ntl.dot(ntl.cast(weights, value.dtype.dtype), value[j])
        peak = new_peak

    output = accumulator / total[:, None]


@functools.cache
def make():
    constant = {"constexpr": True}
    query, key, value, output = (Tensor(4, shape_options=(None, constant, None, constant)) for _ in range(4))
    return ninetoothed.make(arrangement, application, (query, key, value, Tensor(0), output), kernel_name="biased")


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


# Where a release of Triton lacks a name, these tests are to fail: see `form.NAMES`.
pytestmark = needs_triton


@functools.cache
def variant():
    x = halves(1, 16, 4096, 128)
    return dispatch.Launcher(make().definition).trace((x, x, x, 0.1, x), {}, machine.H200)


@functools.cache
def compiled():
    return executable.compile_for_gpu(make().definition, variant())


def text_with(*copies):
    """The text for a Triton that calls its copies by these names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gluon, "copies", lambda: copies)
        return executable.emitted_for(variant()).source


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_own_scores(self):
        text = text_with("async_load", "async_store")
        self.assertExpectedInline(
            text[text.index("@gluon.jit\ndef compute") : text.index("@gluon.jit\ndef biased")],
            """\
@gluon.jit
def compute(
    half: gl.constexpr,
    query_desc,
    output_desc,
    slope,
    key_size_2,
    query_tiles,
    query_ready,
    key_tiles,
    key_ready,
    key_free,
    value_tiles,
    value_ready,
    value_free,
):
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 128, 16])
    pid_1 = gl.program_id(1)
    pid_2 = gl.program_id(0)
    key_count = gl.to_tensor(0)
    value_count = gl.to_tensor(0)
    mbarrier.expect(query_ready.index(half), 16384)
    tma.async_load(query_desc, [pid_1, half * 64 + pid_2 * 128, 0], query_ready.index(half), query_tiles.index(half))
    mbarrier.wait(query_ready.index(half), 0)
    query = query_tiles.index(half).reshape((64, 128))
    total = gl.zeros((64,), gl.float32, gl.SliceLayout(1, layout))
    accumulator = gl.zeros((64, 128), gl.float32, layout)
    peak = gl.full((64,), float("-inf"), gl.float32, gl.SliceLayout(1, layout))
    index = half * 64 + pid_2 * 128 + gl.arange(0, 64)
    if 0 < gl.cdiv(key_size_2, 128):
        key_slot = key_count % 2
        mbarrier.wait(key_ready.index(key_slot), key_count // 2 & 1)
        key_count = key_count + 1
        key = key_tiles.index(key_slot).reshape((128, 128))
        scores = warpgroup_mma(
            query,
            key.permute((1, 0)),
            gl.zeros((64, 128), gl.float32, layout),
            use_acc=False,
            is_async=True,
        )
        scores = warpgroup_mma_wait(0, (scores,))
        mbarrier.arrive(key_free.index(key_slot), count=1)
        scores = scores / (1.0 + gl.abs(scores) / 50.0)
        scores = scores - slope * gl.abs(index[:, None] - gl.arange(0, 128)[None, :]).to(gl.float32)
        scores = gl.where(gl.arange(0, 128)[None, :] < key_size_2, scores, float("-inf"))
        new_peak = gl.maximum(peak, gl.max(scores, axis=1))
        decay = gl.exp2((peak - new_peak) * 1.4426950408889634)
        weights = gl.exp2((scores - new_peak[:, None]) * 1.4426950408889634)
        total_1 = total * decay + gl.sum(weights, axis=1)
        mbarrier.wait(key_ready.index(key_count % 2), key_count // 2 & 1, pred=1 < gl.cdiv(key_size_2, 128))
        total = total_1
        peak = new_peak
        carried = accumulator * decay[:, None]
        for j in range(1, gl.cdiv(key_size_2, 128)):
            key_slot_1 = key_count % 2
            key_count = key_count + 1
            key_1 = key_tiles.index(key_slot_1).reshape((128, 128))
            scores_1 = warpgroup_mma(
                query,
                key_1.permute((1, 0)),
                gl.zeros((64, 128), gl.float32, layout),
                use_acc=False,
                is_async=True,
            )
            value_slot = value_count % 2
            mbarrier.wait(value_ready.index(value_slot), value_count // 2 & 1)
            value_count = value_count + 1
            value = value_tiles.index(value_slot).reshape((128, 128))
            operand = gl.convert_layout(weights.to(gl.float16), gl.DotOperandLayout(0, layout, 2))
            accumulator_1 = warpgroup_mma(operand, value, carried, is_async=True)
            index_1 = j * 128 + gl.arange(0, 128)
            scores_1 = warpgroup_mma_wait(1, (scores_1,))
            mbarrier.arrive(key_free.index(key_slot_1), count=1)
            scores_1 = scores_1 / (1.0 + gl.abs(scores_1) / 50.0)
            scores_1 = scores_1 - slope * gl.abs(index[:, None] - index_1[None, :]).to(gl.float32)
            scores_1 = gl.where(index_1[None, :] < key_size_2, scores_1, float("-inf"))
            new_peak_1 = gl.maximum(peak, gl.max(scores_1, axis=1))
            decay_1 = gl.exp2((peak - new_peak_1) * 1.4426950408889634)
            weights = gl.exp2((scores_1 - new_peak_1[:, None]) * 1.4426950408889634)
            total = total * decay_1 + gl.sum(weights, axis=1)
            mbarrier.wait(key_ready.index(key_count % 2), key_count // 2 & 1, pred=j + 1 < gl.cdiv(key_size_2, 128))
            accumulator_1, operand = warpgroup_mma_wait(0, (accumulator_1, operand))
            mbarrier.arrive(value_free.index(value_slot), count=1)
            carried = accumulator_1 * decay_1[:, None]
            peak = new_peak_1
        value_slot = value_count % 2
        mbarrier.wait(value_ready.index(value_slot), value_count // 2 & 1)
        value_count = value_count + 1
        value = value_tiles.index(value_slot).reshape((128, 128))
        operand = gl.convert_layout(weights.to(gl.float16), gl.DotOperandLayout(0, layout, 2))
        accumulator = warpgroup_mma(operand, value, carried, is_async=True)
        accumulator, operand = warpgroup_mma_wait(0, (accumulator, operand))
        mbarrier.arrive(value_free.index(value_slot), count=1)
    output = accumulator / total[:, None]
    query_tiles.index(half).reshape((64, 128)).store(output.to(gl.float16))
    fence_async_shared()
    tma.async_store(output_desc, [pid_1, half * 64 + pid_2 * 128, 0], query_tiles.index(half))
    tma.store_wait(0)


@gluon.jit
def copy(key_desc, value_desc, key_size_2, key_tiles, key_ready, key_free, value_tiles, value_ready, value_free):
    pid_1 = gl.program_id(1)
    pid_2 = gl.program_id(0)
    key_count = gl.to_tensor(0)
    value_count = gl.to_tensor(0)
    if 0 < gl.cdiv(key_size_2, 128):
        slot = key_count % 2
        mbarrier.wait(key_free.index(slot), key_count // 2 & 1 ^ 1)
        mbarrier.expect(key_ready.index(slot), 32768)
        tma.async_load(key_desc, [pid_1, 0, 0], key_ready.index(slot), key_tiles.index(slot))
        key_count = key_count + 1
        for j in range(1, gl.cdiv(key_size_2, 128)):
            slot_1 = key_count % 2
            mbarrier.wait(key_free.index(slot_1), key_count // 2 & 1 ^ 1)
            mbarrier.expect(key_ready.index(slot_1), 32768)
            tma.async_load(key_desc, [pid_1, j * 128, 0], key_ready.index(slot_1), key_tiles.index(slot_1))
            key_count = key_count + 1
            slot_2 = value_count % 2
            mbarrier.wait(value_free.index(slot_2), value_count // 2 & 1 ^ 1)
            mbarrier.expect(value_ready.index(slot_2), 32768)
            tma.async_load(value_desc, [pid_1, j * 128 - 128, 0], value_ready.index(slot_2), value_tiles.index(slot_2))
            value_count = value_count + 1
        slot_1 = value_count % 2
        mbarrier.wait(value_free.index(slot_1), value_count // 2 & 1 ^ 1)
        mbarrier.expect(value_ready.index(slot_1), 32768)
        tma.async_load(
            value_desc,
            [pid_1, gl.cdiv(key_size_2, 128) * 128 - 128, 0],
            value_ready.index(slot_1),
            value_tiles.index(slot_1),
        )
        value_count = value_count + 1


""",
        )


def latent(query, tile, half, output):
    """An attention whose keys are its values, too, and whose query is computed."""
    peak = ntl.full(query.shape[:1], float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(query.shape[:1], dtype=ntl.float32)
    accumulator = ntl.zeros(output.shape, dtype=ntl.float32)
    scaled = ntl.cast(query * half, query.dtype)

    for j in range(tile.shape[0]):
        scores = ntl.dot(scaled, ntl.trans(tile[j]))
        new_peak = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights = ntl.exp(scores - new_peak[:, None])
        decay = ntl.exp(peak - new_peak)
        total = total * decay + ntl.sum(weights, axis=1)
        accumulator = accumulator * decay[:, None] + ntl.dot(ntl.cast(weights, tile.dtype.dtype), tile[j])
        peak = new_peak

    output = accumulator / total[:, None]


def test_each_tile_of_a_ring_is_waited_for():
    """Both products take theirs from one ring; a parameter has the name of the number of a task."""

    def arrange(query, tile, half, output):
        return rows(query), blocks(tile, query), half, rows(output)

    query, tile, output = (Tensor(4, shape_options=(None, {"constexpr": True}) * 2) for _ in range(3))
    kernel = ninetoothed.make(arrange, latent, (query, tile, Tensor(0), output))
    x = halves(1, 16, 4096, 128)
    emitted = executable.emitted_for(dispatch.Launcher(kernel.definition).trace((x, x, 0.1, x), {}, machine.H200))
    assert emitted.dialect == "gluon" and "def compute(half_1: gl.constexpr" in re.sub(r"\(\s+", "(", emitted.source)
    computing, _, _ = emitted.source.partition("def copy(")
    _, _, loop = computing.partition("        for j in range(1,")
    waits, takes = (len(re.findall(each, loop)) for each in (r"mbarrier\.wait\(tile_ready", r"tile_slot_?\d* = "))
    assert waits == takes


def test_it_compiles_without_spills():
    assert compiled().emitted.dialect == "gluon" and compiled().spills == 0
    assert compiled().shared <= machine.H200.shared_memory


@pytest.mark.parametrize("length, depth", ((2048, 96), (2048, 256), (16384, 128)))
def test_attention_of_other_depths_and_of_long_indices_compiles(length, depth):
    """A mask of 16384 x 16384 scores of 16 heads, which is not read, makes indices ones of 64 bits."""
    given = attention(halves(1, 32, length, depth), halves(1, 32, length, depth))
    variant = dispatch.Launcher(sdpa.make().definition).trace(given, {}, machine.H200)
    assert variant.selection.schedule.overlaps
    found = executable.compile_for_gpu(sdpa.make().definition, variant)
    assert found.emitted.dialect == "gluon" and found.shared <= machine.H200.shared_memory
    assert found.spills <= (256 if depth > 128 else 96 if length == 16384 else 0)


def test_exponentials_run_beside_the_second_product():
    """Between the wait for the first product and that for both lie the exponentials of all weights of a thread."""
    code = sass.disassembled(compiled())
    awaited = re.split(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1 ", code)[1:]
    beside = [each.partition("WARPGROUP.DEPBAR.LE gsb0, 0x0 ")[0] for each in awaited]
    assert len(beside) == 2 and all(each.count("MUFU.EX2") >= 64 and "HGMMA" not in each for each in beside)


def test_the_bundled_assembler_keeps_its_registers():
    """Warps find their tasks by a jump to a computed place, which is followed."""
    ptx = compiled().asm["ptx"]
    cubin = assembler.of_triton().assemble(ptx)
    assert read_ptx.has_left_operands(ptx) and not read_ptx.keeps_left_operand(ptx) and "brx.idx" in ptx
    assert faults(ptx, sass.of_cubin(cubin, has_tables=True)) == ()
    assert faults(ptx, sass.of_cubin(cubin)) != ()


# -- what stands behind them --


def schedules(values, gpu=machine.H200, kernel=None):
    """Whether the schedule overlaps that a call gets, by its trace."""
    kernel = sdpa.make() if kernel is None else kernel
    return dispatch.Launcher(kernel.definition).trace(values, {}, gpu).selection.schedule.overlaps


def attention(query, key, masking=sdpa.NO_MASK, is_causal=True):
    mask = torch.empty(1, 1, 1, 1, dtype=torch.bool).expand(*query.shape[:3], key.shape[2])
    return query, key, key, mask, 0.1, query, masking, is_causal


def test_attention_overlaps(monkeypatch):
    query, key = halves(1, 16, 4096, 128), halves(1, 4, 4096, 128)
    assert schedules(attention(query, key)) and schedules(attention(query, key, is_causal=False))
    assert not schedules(attention(query, key, sdpa.BOOLEAN_MASK, False))  # loads that are no operands
    assert not schedules(attention(query[..., :64], key[..., :64]))
    short = query[:, :, :1024].expand(4, -1, -1, -1), key[:, :, :1024].expand(4, -1, -1, -1)
    assert schedules(attention(*short, is_causal=False)) and not schedules(attention(*short))
    assert not schedules(attention(query.float(), key.float()))
    assert not schedules(attention(query, key), machine.A100)
    assert not schedules(attention(query, key), machine.B200)
    assert not schedules(attention(query, halves(1, 4, 4096, 132)[..., :128]))  # no rows of whole 16 bytes
    monkeypatch.setattr(gluon, "why_not", lambda: "it lacks a name")
    assert not schedules(attention(query, key))


def test_copies_by_the_names_of_before():
    today, before = (text_with(*names) for names in zip(*COPIES, strict=True))
    assert today.count("tma.async_load(") == before.count("tma.async_copy_global_to_shared(") == 5
    assert today.count("tma.async_store(") == before.count("tma.async_copy_shared_to_global(") == 1
    assert "async_load" not in before and "async_copy" not in today


@pytest.fixture
def lacks(monkeypatch):
    """Take names of Gluon away."""

    def taken(*names):
        has = gluon._has
        monkeypatch.setattr(gluon, "_has", lambda module, name: (module, name) not in names and has(module, name))

    cached = (gluon.why_not, gluon.copies)
    for each in cached:
        each.cache_clear()
    yield taken
    monkeypatch.undo()
    for each in cached:
        each.cache_clear()


@pytest.mark.parametrize("module, name", [(module, name) for module, names in NAMES.items() for name in names])
def test_without_a_name_attention_runs_in_triton_and_the_log_says_so(module, name, lacks, caplog):
    lacks((module, name))
    with caplog.at_level("INFO", "ninetoothed"):
        assert not schedules(attention(halves(1, 16, 4096, 128), halves(1, 4, 4096, 128)))
        assert not gluon.is_supported()
    assert [record.message for record in caplog.records] == [
        f"attention runs in plain Triton: this Triton has no {module}.{name}"
    ]


def test_either_name_of_a_copy_will_do(lacks):
    newest, before = zip(*COPIES, strict=True)
    lacks(*((TMA, name) for name in newest))
    has_before = gluon._has(TMA, before[0])
    assert gluon.is_supported() == has_before and gluon.copies() == (before if has_before else newest)
    lacks((TMA, before[1]))
    gluon.why_not.cache_clear()
    assert not gluon.is_supported()


def test_it_can_be_switched_off(monkeypatch):
    values = attention(halves(1, 16, 4096, 128), halves(1, 4, 4096, 128))
    monkeypatch.setenv("NINETOOTHED_GLUON", "0")
    assert not schedules(values)


def test_what_does_not_compile_gets_another_schedule(monkeypatch):
    x = halves(1, 16, 4096, 128)
    launcher = dispatch.Launcher(make().definition)
    call, place = arguments.check(make().definition, arguments.bind(make().definition, (x, x, x, 0.1, x), {}))
    tried = []

    def compile_kernel(emitted, *rest):
        tried.append(emitted.dialect)
        if emitted.dialect == "gluon":
            raise CompilationError("this release has another name for it")
        return type("Compiled", (), {"emitted": emitted, "spills": 0})

    monkeypatch.setattr(executable, "compile_kernel", compile_kernel)
    build = functools.partial(launcher._variants.get, launcher.definition, compile=executable.compile_for_gpu)
    selection, found = launcher._variants.best(launcher.plan, call, place, machine.H200, build)
    assert tried == ["gluon", "triton"] and not selection.schedule.overlaps
    assert found.compiled.emitted.source.startswith("import triton\n")


@pytest.mark.parametrize("rows, warps, is_gluon", ((128, 4, True), (128, 8, True), (64, 4, True), (64, 8, False)))
def test_warps_have_sixteen_rows_each(rows, warps, is_gluon):
    """Two tasks share 128 rows where their warps are for 64."""
    chosen = variant().selection.schedule
    meta = tuple(sorted(zip(make().definition.meta_symbols, (rows, 128), strict=True)))
    schedule = dataclasses.replace(chosen, meta=meta, num_warps=warps)
    x = halves(1, 16, 4096, 128)
    launcher = dispatch.Launcher(make().definition)
    call, place = arguments.check(make().definition, arguments.bind(make().definition, (x, x, x, 0.1, x), {}))
    traced = variants.trace(
        make().definition, launcher._variants.select(launcher.plan, call, place, machine.H200, schedule)
    )
    emitted = executable.emitted_for(traced)
    assert (emitted.dialect == "gluon") == is_gluon == (executable.why_no_form(traced) is None)
    assert ("half: gl.constexpr" in emitted.source) == ((rows, warps) == (128, 4))
