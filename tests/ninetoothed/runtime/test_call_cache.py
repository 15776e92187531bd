import contextlib

import pytest
import torch

import ninetoothed
from ninetoothed import Symbol, Tensor
from ninetoothed.runtime import call_cache, dispatch, fast_path, private
from ninetoothed.runtime.launch_steps import LaunchPlan

X, Y = torch.zeros(4, 6), torch.zeros(6)


class Given(LaunchPlan):
    """Tells what it would launch on, tensors by their addresses."""


def told(args):
    return [value.data_ptr() if isinstance(value, torch.Tensor) else value for value in args]


@pytest.fixture(autouse=True)
def telling(monkeypatch):
    written = fast_path.written

    def write(source, plan, unknown=()):
        return f"{source.name(told)}(args)" if isinstance(plan, Given) else written(source, plan, unknown)

    monkeypatch.setattr(fast_path, "written", write)


def known(args, constants=(), exact=()):
    return call_cache.guarded(args, constants, exact, Given(len(args)))


def test_a_call_with_other_memory_is_recognised():
    repeat = known((X, Y), (("BLOCK", 4),))
    x, y = torch.ones(4, 6), torch.ones(6)
    assert repeat((x, y), (("BLOCK", 4),)) == [x.data_ptr(), y.data_ptr()]
    assert repeat((x, y), (("BLOCK", 8),)) is None


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
        torch.zeros(4, 6, requires_grad=True),
        torch._neg_view(torch.zeros(4, 6)),
        torch.nn.Parameter(torch.zeros(4, 6)),
        1.0,
        None,
    ),
    ids=str,
)
def test_another_call_is_not(other):
    assert known((X, Y))((other, Y), ()) is None


def test_an_aligned_call_is_not_taken_for_one_that_was_not():
    x = torch.zeros(25)[1:].view(4, 6)
    assert known((x, Y)) is None


def test_tensors_that_are_given_twice():
    repeat = known((X, Y, X, 2), exact=None)
    x, y = torch.ones(4, 6), torch.ones(6)
    assert repeat((x, y, x, 2), ()) == [x.data_ptr(), y.data_ptr(), x.data_ptr(), 2]
    for other in ((x, y, X, 2), (x, y, y, 2), (x, y, x, 3), (x, y, 2, x), (x, y, x), (x, y, x, 2, 2)):
        assert repeat(other, ()) is None


def test_numbers_count_by_their_type_and_width():
    repeat = known((2, X, 0.5))
    assert repeat((3, X, 2.5), ()) == [3, X.data_ptr(), 2.5]
    for first, last in ((3, 2), (3.0, 2.5), (True, 2.5), (2**31, 2.5), (3, None), (3, torch.tensor(2.5))):
        assert repeat((first, X, last), ()) is None


def test_what_is_known_when_compiling_counts_by_its_value():
    values = (X, 2, "ieee", 0.5, None, True, [1, 2], torch.float16)
    repeat = known(values, exact=tuple(range(1, 8)))
    assert repeat((X, *values[1:6], [1, 2], torch.float16), ()) == [X.data_ptr(), *values[1:]]
    changes = {1: (3, 2.0, 2**32 + 2), 2: ("tf32", None), 3: (0.25, "0.5"), 4: (0, False), 5: (1, False, None)}
    changes |= {6: ([2, 1], (1, 2), [1], None), 7: (torch.float32, None)}
    for position, others in changes.items():
        for other in others:
            assert repeat((*values[:position], other, *values[position + 1 :]), ()) is None


@pytest.mark.parametrize("zero", (0.0, -0.0))
def test_zeros_of_either_sign_are_not_the_same(zero):
    repeat = known((X, zero), exact=(1,))
    assert repeat((X, zero), ()) == [X.data_ptr(), zero]
    assert repeat((X, -zero), ()) is None and repeat((X, 0), ()) is None


def test_precision_counts_where_it_matters():
    found, before = Given(2), torch.get_float32_matmul_precision()
    found.precision = "high"
    repeat = call_cache.guarded((X, Y), (), (), found)
    try:
        for precision in ("high", "highest", "high"):
            torch.set_float32_matmul_precision(precision)
            assert (repeat((X, Y), ()) is not None) == (precision == "high")
    finally:
        torch.set_float32_matmul_precision(before)


def test_the_gpu_of_a_launch_is_made_the_current_one(monkeypatch):
    current, entered = [0], []

    @contextlib.contextmanager
    def device(index):
        entered.append(index)
        before, current[0] = current[0], index
        yield
        current[0] = before

    monkeypatch.setattr(private, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = Given(2, device=1)
    for repeat in (call_cache.guarded((X, 2), (), (), found), fast_path.unguarded(found)):
        assert repeat((X, 2), ()) == [X.data_ptr(), 2]
        current[0] = 1
        assert repeat((X, 2), ()) == [X.data_ptr(), 2]
        current[0] = 0
    assert entered == [1, 1]


GUARDS = private.TensorGuards


@pytest.mark.parametrize("guards", (GUARDS, None, lambda *args: None), ids=("there", "missing", "changed"))
def test_kernels_run_with_and_without(guards, monkeypatch):
    monkeypatch.setattr(private, "TensorGuards", guards)
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
    remembered = dispatch.launcher_of(kernel)._calls.recent
    assert len(remembered) <= call_cache.RECENT and bool(remembered) == (guards is GUARDS is not None)


class TestManyCalls:
    @pytest.fixture
    def written(self, monkeypatch):
        """The calls that were written out."""
        seen, guarded = [], call_cache.guarded
        monkeypatch.setattr(call_cache, "guarded", lambda args, *others: seen.append(args) or guarded(args, *others))
        return seen

    def run(self, calls, args):
        """What a user of `CallCache` does, on the address of the first tensor."""
        output = next((output for repeat in calls.recent if (output := repeat(args, ())) is not None), None)
        output = calls.again(args, ()) if output is None else output
        if output is None:
            known = calls.find(args, ())
            if known is None:
                known = Given(len(args))
                calls.keep(args, (), known)
            else:
                calls.add_fast_path(args, (), known)
            output = fast_path.run(known, args)
        assert output[0] == args[0].data_ptr()

    def test_each_is_written_out_once(self, written):
        calls = call_cache.CallCache()
        for number in range(40 * 20):
            self.run(calls, (torch.zeros(1 + number % 20), number % 3))
        assert len(written) == 60 and len(calls.recent) == call_cache.RECENT

    def test_kinds_of_tensors_are_written_out_each(self, written):
        calls = call_cache.CallCache()
        with torch.inference_mode():
            inference = torch.zeros(4, 6)
        kinds = [(X, X), (X, X.clone()), (X, inference), (torch.nn.Parameter(X), X)]
        for args in kinds * 5:
            self.run(calls, args)
        assert len(written) == 4 and len(calls) == 2  # of one memory, and of two

    def test_what_its_own_guard_does_not_recognise_is_written_out_a_few_times(self, written):
        calls = call_cache.CallCache()
        for _ in range(50):
            self.run(calls, (X, float("nan")))
        assert len(written) == call_cache.FAST_PATHS

    def test_those_of_the_same_shapes_are_few(self, written):
        calls = call_cache.CallCache()
        for number in range(5 * 20):
            self.run(calls, (X, number % 20))
        assert len(written) <= 20 * call_cache.FAST_PATHS
        assert [len(alike) for alike in calls._by_shapes.values()] == [call_cache.ALIKE]

    def test_the_last_ones_come_first_in_the_end(self):
        calls = call_cache.CallCache()
        for size in (*range(1, 9), *range(1, 9)):
            self.run(calls, (torch.zeros(size),))
        x = torch.zeros(8)
        assert not any(repeat((x,), ()) for repeat in calls.recent)
        for _ in range(call_cache.PATIENCE):
            self.run(calls, (x,))
        assert calls.recent[-1]((x,), ()) and len(calls.recent) == call_cache.RECENT

    def test_forgotten_and_replaced_ones_are_written_out_again(self, written):
        calls = call_cache.CallCache()
        for _ in range(3):
            self.run(calls, (X,))
        calls.forget()
        assert not calls.recent and calls.again((X,), ()) is None
        for _ in range(3):
            self.run(calls, (X,))
        calls.keep((X,), (), Given(1))
        assert calls.add_fast_path((X,), (), calls.find((X,), ()))((X,), ()) and len(written) == 3

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
    def test_tensors_without_shapes_are_not_known(self):
        nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
        calls = call_cache.CallCache()
        assert calls.again((nested,), ()) is None and calls.find((nested,), ()) is call_cache.Mark.UNHASHABLE
