import pytest
import torch

import ninetoothed
from ninetoothed import Symbol, Tensor
from ninetoothed.runtime import launch, recent
from ninetoothed.runtime.recent import Recent

X, Y = torch.zeros(4, 6), torch.zeros(6)


def test_a_call_with_other_memory_is_recognised():
    known = Recent.of((X, Y), (("BLOCK", 4),), (), "found")
    x, y = torch.ones(4, 6), torch.ones(6)
    assert known.raw((x, y), (("BLOCK", 4),)) == [x.data_ptr(), y.data_ptr()]
    assert known.raw((x, y), (("BLOCK", 8),)) is None


@pytest.mark.parametrize(
    "other",
    (
        torch.zeros(6, 4),
        torch.zeros(6, 4).t(),
        torch.zeros(4, 7),
        torch.zeros(4, 6, 1),
        torch.zeros(4, 6).double(),
        torch.zeros(4, 6, dtype=torch.int32),
        torch.zeros(4, 6, device="meta"),
        torch.zeros(25)[1:].view(4, 6),
        torch.zeros(4, 6).to_sparse(),
        1.0,
        None,
    ),
    ids=str,
)
def test_another_call_is_not(other):
    known = Recent.of((X, Y), (), (), "found")
    assert known.raw((other, Y), ()) is None


def test_an_aligned_call_is_not_taken_for_one_that_was_not():
    x = torch.zeros(25)[1:].view(4, 6)
    assert Recent.of((x, Y), (), (), "found") is None


def test_tensors_that_are_given_twice():
    known = Recent.of((X, Y, X, 2), (), None, "found")
    x, y = torch.ones(4, 6), torch.ones(6)
    assert known.raw((x, y, x, 2), ()) == [x.data_ptr(), y.data_ptr(), x.data_ptr(), 2]
    for other in ((x, y, X, 2), (x, y, y, 2), (x, y, x, 3), (x, y, 2, x), (x, y, x), (x, y, x, 2, 2)):
        assert known.raw(other, ()) is None


def test_numbers_count_by_their_type_and_width():
    known = Recent.of((2, X, 0.5), (), (), "found")
    assert known.raw((3, X, 2.5), ()) == [3, X.data_ptr(), 2.5]
    for first, last in ((3, 2), (3.0, 2.5), (True, 2.5), (2**31, 2.5), (3, None), (3, torch.tensor(2.5))):
        assert known.raw((first, X, last), ()) is None


def test_what_is_known_when_compiling_counts_by_its_value():
    known = Recent.of((X, 2, "ieee", 0.5), (), (1, 2, 3), "found")
    assert known.raw((X, 2, "ieee", 0.5), ()) == [X.data_ptr(), 2, "ieee", 0.5]
    for values in ((3, "ieee", 0.5), (2, "tf32", 0.5), (2, "ieee", 0.25), (2.0, "ieee", 0.5)):
        assert known.raw((X, *values), ()) is None
    assert Recent.of((X, 0.0), (), (1,), "found").raw((X, -0.0), ()) is None


GUARDS = recent.TensorGuards


@pytest.mark.parametrize("guards", (GUARDS, None, lambda *args: None), ids=("there", "missing", "changed"))
def test_kernels_run_with_and_without(guards, monkeypatch):
    monkeypatch.setattr(recent, "TensorGuards", guards)
    block = Symbol("BLOCK", constexpr=True)

    def application(x, factor, z):
        z = x * factor

    kernel = ninetoothed.make(
        lambda x, factor, z: (x.tile((block,)), factor, z.tile((block,))),
        application,
        (Tensor(1), Tensor(0), Tensor(1)),
    )
    for number in range(60):
        size = 1 + number % 7
        x, z = torch.randn(size + 1)[number % 2 :][:size], torch.full((size,), float("nan"))
        kernel(x, number / 2, z, BLOCK=4)
        assert torch.equal(z, x * (number / 2))
    remembered = launch.launcher_of(kernel)._calls._guarded
    assert len(remembered) <= recent.GUARDED and bool(remembered) == (guards is GUARDS is not None)
