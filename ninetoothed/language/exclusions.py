"""The names of `triton.language` that `ntl` does not offer, with what to do instead: data for errors and docs."""

from __future__ import annotations

_BY_REASON = {
    "the arrangement says which tile a program has; on Hopper the compiler decides on descriptors (TMA)": """
        advance load_tensor_descriptor make_block_ptr make_tensor_descriptor store_tensor_descriptor tensor_descriptor
    """,
    "the type of a pointer is that of the parameter into which it points, `x.source.data_ptr()`": """
        const pi32_t pointer_type
    """,
    "annotate a tile as `ntl.Tile`, or not at all": "block_type tensor",
    "an element type is a value such as `ntl.float32`": "dtype",
    "Triton's compiler wraps what is Python's: write a tuple, a slice, None, or the number itself": """
        constexpr_type slice tuple void
    """,
    "no format of 8 bits of NVIDIA's GPUs that PyTorch has, too: use `ntl.float8e4nv` or `ntl.float8e5`": """
        float8e4b15 float8e4b8 float8e5b16
    """,
    "Triton has it from 3.9 on alone; `ntl.atomic_add(y, 0)` reads at once, and `ntl.atomic_xchg(y, value)` writes": """
        atomic_load atomic_poll atomic_store
    """,
    "the functions of `extra.libdevice` are those of `ntl.libdevice`": "extra",
    "an application is the same on every GPU": "target_info",
}  # fmt: skip

EXCLUSIONS: dict[str, str] = {name: reason for reason, names in _BY_REASON.items() for name in names.split()}
