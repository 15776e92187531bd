"""Applications, arrangements and calls that are mistakes, each of which must raise a named error."""

from __future__ import annotations

import torch

import ninetoothed
from ninetoothed import Tensor

# Bodies of `application(x, y, out)`, tiles of 8 float32 each.
BODIES = (
    "out = ntl.no_such_function(x)",
    "out = no_such_name + x",
    "out = x.no_such_attribute",
    "out = x + 'text'",
    "out = [v for v in x]",
    "out = {v for v in x}",
    "out = (lambda v: v)(x)(x)",
    "yield x",
    "del x",
    "global x\n    out = x",
    "try:\n        out = x\n    except ValueError:\n        pass",
    "with open('f') as f:\n        out = x",
    "raise ValueError(x)",
    "class A:\n        pass\n    out = x",
    "async def f():\n        pass\n    out = x",
    "out = x[0, 0, 0, 0]",
    "out = x[100]",
    "out = x['a']",
    "out = ntl.sum(x, 3)",
    "out = ntl.max(x, -2)",
    "out = ntl.sum(x, axis='rows')",
    "out = ntl.sum()",
    "out = ntl.sum(x, 0, 1, 2, 3, 4)",
    "out = ntl.sum(x, nothing=1)",
    "out = ntl.dot(x, y)",
    "out = x & y",
    "out = ~x",
    "out = x << 2",
    "out = ntl.where(x, y)",
    "out = x.to(3)",
    "out = ntl.zeros((3,), dtype=ntl.float32) + x",
    "out = ntl.arange(0, 5) + x",
    "out = ntl.full((8,), 'a', dtype=ntl.float32)",
    "out = ntl.reshape(x, 3)",
    "out = ntl.permute(x, 1)",
    "out = ntl.expand_dims(x, 5)",
    "out = ntl.cat(x, x[:, None])",
    "out = open('f')",
    "out = print",
    "if x:\n        out = y",
    "while x > 0:\n        x = x - 1\n    out = x",
    "for i in range(x):\n        out = y",
    "for i in range(3):\n        break\n    out = x",
    "for i in range(3):\n        continue\n    out = x",
    "if ntl.sum(x) > 0:\n        v = x\n    out = v",
    "out, = x",
    "a, b = x, y, x\n    out = a",
    "x.shape = (3,)\n    out = x",
    "out = x.shape[7]",
    "out = x.source.shape[7] + x",
    "out = x.offsets(7) + x",
    "out = ntl.load(x)",
    "ntl.store(3, x)",
    "ntl.atomic_add(x + 1, 1.0)",
    "out = ntl.cast(x, x)",
    "out = ntl.static_assert(False)",
    "out = ntl.topk(x, 3)",
    "out = ntl.histogram(x, 4)",
    "out = ntl.trans(x, 0, 1)",
    "out = ntl.gather(x, y, 0)",
    "out = ntl.join(x, x[:4])",
    "out = 1 // 0 + x",
    "out = x.to(ntl.int32) // 0",
    "out = f'{x}'",
    "out = x @ y",
    "out = -'a'",
    "out = ntl",
    "out = None",
    "out = (x, y)",
    "nonlocal x\n    out = x",
    "out = *x,",
    "out = ntl.exp(x, y)",
)


def vector(tensor):
    return tensor.tile((8,))


ARRANGEMENTS = (
    lambda x: x.tile((2, 3)),
    lambda x: x.tile((0,)),
    lambda x: x.tile((-2,)),
    lambda x: x.tile((2.5,)),
    lambda x: x.tile((2,), strides=(0,)),
    lambda x: x.tile((2,), strides=(1, 1)),
    lambda x: x.tile((2,), dilation=(0,)),
    lambda x: x.tile((2,), dilation=(1, 1)),
    lambda x: x.tile((2,)).expand((3, 3, 3)).expand((1,)),
    lambda x: x.expand((5,)),
    lambda x: x.expand(()),
    lambda x: x.squeeze(0),
    lambda x: x.squeeze(3),
    lambda x: x.unsqueeze(5),
    lambda x: x.permute((0, 0)),
    lambda x: x.permute((1,)),
    lambda x: x.permute((0, 1)),
    lambda x: x.flatten(start_dim=3),
    lambda x: x.flatten(end_dim=5),
    lambda x: x.pad(((1, 1), (1, 1))),
    lambda x: x.pad(((-1, 1),)),
    lambda x: x.pad((1,)),
    lambda x: x[9],
    lambda x: x[-8],
    lambda x: x[0, 0],
    lambda x: x[::0],
    lambda x: x[..., ...],
    lambda x: setattr(x, "dtype", Tensor(2).tile((2, 2)).dtype),
    lambda x: x.size(4),
    lambda x: x.eval({x: {"shape": (9, 9)}}),
    lambda x: x.eval({x: {"shapes": (7,)}}),
    lambda x: x.eval({"nothing": 3, 4: 5}),
    lambda x: Tensor(-1),
    lambda x: Tensor(2, shape=(1, 2, 3)),
    lambda x: Tensor("a"),
    lambda x: ninetoothed.Symbol("not a name"),
    lambda x: ninetoothed.Symbol("a + b", constexpr=True),
    lambda x: ninetoothed.Symbol("a", constexpr=True, meta=True),
)


def doubled(x, out):
    out = x * 2.0


def kernel():
    """`out = 2 * x`, in tiles of eight."""
    return ninetoothed.make(lambda x, out: (vector(x), vector(out)), doubled, (Tensor(1), Tensor(1)))


def calls():
    """Calls of `kernel()` with what it cannot take: positional arguments and keywords."""
    x, out = torch.randn(11), torch.empty(11)
    yield (), {}
    yield (x,), {}
    yield (x, out, out), {}
    yield (x, out), {"BLOCK": 8}
    yield (x[None], out), {}
    yield (x, out[:, None]), {}
    yield (x.sum(), out), {}
    yield (x, torch.empty(12)), {}
    yield (x[:0], out), {}
    yield (x, torch.empty(1).expand(11)), {}
    yield (x, out.as_strided((11,), (0,))), {}
    yield (x.to("meta"), out), {}
    yield (x, out.to("meta")), {}
    yield (None, out), {}
    yield (x, None), {}
    yield ("x", out), {}
    yield (x.tolist(), out), {}
    yield (x.numpy(), out), {}
    yield (3.0, out), {}
    yield (x, 3), {}
    yield (x.to(torch.complex64), out), {}
    yield (x, out.to(torch.complex64)), {}
    yield (x.to_sparse(), out), {}
    yield (object(), object()), {}
    yield (torch.nn.Module(), out), {}
    yield (x, out), {"x": x}
    yield (x, out), {"num_warps": "a"}
    yield ([x], out), {}


def application(body: str):
    """The text of an application of this body."""
    return f"def application(x, y, out):\n    {body}\n"
