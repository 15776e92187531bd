import torch.nn.functional as F

from benchmarks.tasks import Task


def products(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    batch, heads, query_len, head_dim = query.shape
    whole = 2 * batch * heads * query_len * key.shape[2] * (head_dim + value.shape[3])
    return whole // 2 if is_causal else whole


def square(batch, heads, length, head_dim, **kwargs):
    return lambda r: (tuple(r(batch, heads, length, head_dim) for _ in range(3)), kwargs)


def grouped(batch, heads, groups, length, head_dim):
    key_value = (batch, groups, length, head_dim)
    kwargs = {"is_causal": True, "enable_gqa": True}
    return lambda r: ((r(batch, heads, length, head_dim), r(*key_value), r(*key_value)), kwargs)


TASK = Task(
    name="sdpa",
    title="(4, 48, 1024, 64)",
    eager=F.scaled_dot_product_attention,
    products=products,
    cases={
        "paper": square(4, 48, 1024, 64),
        "quick": square(1, 4, 128, 64),
        "cpu": square(1, 8, 256, 64),
        "causal": square(4, 48, 1024, 64, is_causal=True),
        "D = 128": square(4, 16, 4096, 128),
        "D = 128, causal": square(4, 16, 4096, 128, is_causal=True),
        "grouped": grouped(4, 32, 8, 2048, 128),
    },
)
