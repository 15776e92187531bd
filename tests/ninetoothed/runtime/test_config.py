"""The choice of configurations: obeys the user, fits the GPU, is made of classes, and follows the rules of thumb."""

import itertools

import pytest
import torch

import ninetoothed
from ninetoothed import Symbol, Tensor, block_size
from ninetoothed.errors import CompilationError
from ninetoothed.runtime import config, device, launch, specialise
from ninetoothed.runtime.structure import Attention, Product, structure
from ninetoothed_ops.kernels import add, addmm, bmm, conv2d, mm, rms_norm, rope, sdpa, silu, softmax

GPUS = (device.A100, device.H100, device.H200, device.B200)


def chosen(kernel, *arguments, gpu=device.H200):
    """All candidates for a call, the best first."""
    launcher = launch.launcher_of(kernel)
    call, place = launcher._checked(arguments, {})
    values = specialise.measure(launcher.plan, call)
    specialisation = specialise.specialise(launcher.plan, call, values, place)
    sizes = {name: specialise.next_power_of_two(values[name]) for name in launcher.plan.sizes & values.keys()}
    return config.candidates(kernel.definition, specialisation, sizes, gpu)


def tensor(*shape, dtype=torch.float16):
    """Of any size, in no memory."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return torch.empty(1, dtype=dtype).as_strided(shape, (0,) * len(shape))


def product(m, n, k, dtype=torch.float16, gpu=device.H200):
    kernel = mm.make()
    best = chosen(kernel, tensor(m, k, dtype=dtype), tensor(k, n, dtype=dtype), tensor(m, n, dtype=dtype), gpu=gpu)[0]
    kind = structure(kernel.definition).kind
    return tuple(best.blocks[name] for name in (kind.rows, kind.columns, kind.depth)), best


@pytest.mark.parametrize(
    "kernel", (mm.make(), addmm.make(), bmm.make(), conv2d.make()), ids=lambda kernel: kernel.__name__
)
def test_products_are_recognised(kernel):
    assert isinstance(structure(kernel.definition).kind, Product)


def test_attention_is_recognised_and_other_kernels_are_neither():
    assert isinstance(structure(sdpa.make().definition).kind, Attention)
    for kernel in (add.make(1), silu.make(1), softmax.make(2), rms_norm.make(2), rope.make()):
        assert structure(kernel.definition).kind is None


def test_large_products_of_halves_take_large_tiles():
    blocks, best = product(4096, 4096, 4096)
    assert blocks == (128, 256, 64) and (best.num_warps, best.num_stages) == (8, 3)


def test_small_products_keep_all_multiprocessors_busy():
    (m, n, _), _ = product(1024, 1024, 1024)
    assert (1024 // m) * (1024 // n) >= 0.9 * device.H200.multiprocessors


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
    assert len(found) <= 12


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


def test_what_the_user_gave_is_obeyed():
    block = Symbol("BLOCK", meta=True)
    for warps, stages in ((1, 1), (16, 5)):
        (best,) = chosen(elementwise(block, num_warps=warps, num_stages=stages), tensor(1 << 20), tensor(1 << 20))
        assert (best.num_warps, best.num_stages) == (warps, stages)
    (best,) = chosen(elementwise(block, num_warps=(1, 2)), tensor(1 << 20), tensor(1 << 20))
    assert best.num_warps == 2


@pytest.mark.parametrize("options", ({"num_warps": 3}, {"num_warps": 64}, {"num_stages": 0}, {"num_warps": (4, 5)}))
def test_what_no_gpu_has_is_an_error(options):
    with pytest.raises(CompilationError, match=next(iter(options))):
        chosen(elementwise(block_size(), **options), tensor(64), tensor(64))


def test_rows_get_warps_by_their_length():
    found = [chosen(softmax.make(2), tensor(64, n), tensor(64, n))[0].num_warps for n in (64, 1024, 4096, 32768)]
    assert found == sorted(found) and found[0] == 1 and found[-1] == 16


@pytest.mark.parametrize("width", (64, 128))
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_attention_fits_registers(gpu, width):
    q, mask = tensor(4, 16, 4096, width), tensor(4, 16, 4096, 4096)
    kernel = sdpa.make()
    best = chosen(kernel, q, q, q, mask, 0.1, q, 0, True, gpu=gpu)[0]
    kind = structure(kernel.definition).kind
    m, n = best.blocks[kind.rows], best.blocks[kind.keys]
    assert m in (64, 128) and n >= 32 and best.num_warps in (4, 8)
    assert m * (2 * n + width) // (32 * best.num_warps) <= 200


def test_the_cpu_gets_few_programs():
    (best,) = chosen(mm.make(), tensor(512, 512), tensor(512, 512), tensor(512, 512), gpu=None)
    assert all(128 <= block <= 512 for block in best.blocks.values())


def test_presets_describe_their_generation():
    assert [gpu.capability for gpu in GPUS] == [80, 90, 90, 100]
    assert str(device.H200) == "H200 (sm_90, 132 multiprocessors)"
    assert len({*GPUS, *GPUS}) == 4
