"""Each name of `triton.language` is offered, or is in the list of those that are not, with a reason."""

import inspect

import pytest

import ninetoothed.language as ntl
from ninetoothed.language.exclusions import EXCLUSIONS
from ninetoothed.language.functions.libdevice import EXCLUSIONS as LEFT_OUT

# Those of Triton 3.6 and of 3.9: either may be installed.
NAMES = """
PropagateNan TRITON_MAX_TENSOR_NUMEL abs add advance arange argmax argmin associative_scan assume atomic_add atomic_and
atomic_cas atomic_load atomic_max atomic_min atomic_or atomic_poll atomic_store atomic_xchg atomic_xor bfloat16
bitonic_merge block_type broadcast broadcast_to cast cat cdiv ceil clamp condition const constexpr constexpr_type cos
cumprod cumsum debug_barrier device_assert device_print div_rn dot dot_scaled dtype erf exp exp2 expand_dims expect_zero
extra fdiv flip float16 float32 float64 float8e4b15 float8e4b8 float8e4nv float8e5 float8e5b16 floor fma full gather
histogram inline_asm_elementwise int1 int16 int32 int64 int8 interleave join load load_tensor_descriptor log log2
make_block_ptr make_tensor_descriptor map_elementwise math max max_constancy max_contiguous maximum min minimum mul
multiple_of num_programs pair_uniform_to_normal permute philox philox_impl pi32_t pointer_type program_id rand rand4x
randint randint4x randn randn4x range ravel reduce reduce_or reshape rsqrt sigmoid sin slice softmax sort split sqrt
sqrt_rn squeeze static_assert static_print static_range store store_tensor_descriptor sub sum swizzle2d target_info
tensor tensor_descriptor to_tensor topk trans tuple uint16 uint32 uint64 uint8 uint_to_uniform_float umulhi unsqueeze
view void where xor_sum zeros zeros_like
""".split()


def test_each_name_of_triton_is_offered_or_left_out_with_a_reason():
    assert set(NAMES) == (set(NAMES) & set(dir(ntl))) | EXCLUSIONS.keys()
    assert not set(dir(ntl)) & EXCLUSIONS.keys() and all(EXCLUSIONS.values())


def test_the_names_are_those_of_the_triton_that_is_installed():
    language = pytest.importorskip("triton.language")
    assert set(language.__all__) <= set(NAMES)


def test_each_function_of_libdevice_is_offered_or_left_out_with_a_reason():
    libdevice = pytest.importorskip("triton.language.extra.libdevice")
    names = {name for name, each in vars(libdevice).items() if inspect.isfunction(each) and not name.startswith("_")}
    assert names == set(dir(ntl.libdevice)) | LEFT_OUT.keys() and not set(dir(ntl.libdevice)) & LEFT_OUT.keys()
    assert len(names) == 198 and all(LEFT_OUT.values())
    with pytest.raises(AttributeError, match="no function 'jn': its loop is as long as the order; write"):
        ntl.libdevice.jn
    with pytest.raises(AttributeError, match="did you mean acos"):
        ntl.libdevice.acoss


def test_a_name_that_is_left_out_says_what_to_do_instead():
    with pytest.raises(AttributeError, match="no 'make_block_ptr': the arrangement says which tile a program has"):
        ntl.make_block_ptr
