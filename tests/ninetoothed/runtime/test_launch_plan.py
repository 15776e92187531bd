"""Recordings of calls: what they repeat, what is never recorded, and what tells calls apart."""

import functools
import gc
import threading
import weakref

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import LaunchPlan
from tests.ninetoothed.runtime import addresses


@pytest.fixture(autouse=True)
def from_addresses(monkeypatch):
    addresses.use(monkeypatch)


def make_add(ndim=1):
    size = block_size()

    def arrangement(x, y, factor, z):
        return *(tensor.flatten().tile((size,)) for tensor in (x, y)), factor, z.flatten().tile((size,))

    def application(x, y, factor, z):
        z = x + factor * y

    return ninetoothed.make(arrangement, application, (Tensor(ndim), Tensor(ndim), Tensor(0), Tensor(ndim)))


def like(first, *others, **options):
    return torch.empty_like(first)


def recorded(function):
    return [known for known in function.calls._known.values() if isinstance(known, LaunchPlan)]


def check(function, reference, *calls, records=1):
    """Run calls, each on new tensors, and compare; by the third, a recording is what runs."""
    for args in calls:
        result = function(*args)
        assert torch.equal(result, reference(*args))
    assert len(recorded(function)) == records


def test_a_call_is_recorded_when_it_comes_again_and_then_repeated_on_other_memory():
    add, launches = make_add(), []

    def launch(z, x, y):
        launches.append(x)
        add(x, y, 1.0, z)

    function = ReplayedFunction(like, launch)
    check(function, torch.add, *((torch.randn(9), torch.randn(9)) for _ in range(8)))
    assert len(launches) == 2


def test_calls_that_never_come_again_are_never_recorded():
    add = make_add()
    function = ReplayedFunction(like, lambda z, x, y: add(x, y, 1.0, z))
    check(function, torch.add, *((torch.randn(size), torch.randn(size)) for size in range(1, 9)), records=0)


@pytest.mark.parametrize("mode", (torch.inference_mode, torch.no_grad, torch.enable_grad))
def test_views_and_memory_of_its_own_are_part_of_a_recording(mode):
    add = make_add(2)

    def launch(z, x):
        scratch = torch.empty(x.shape[::-1], dtype=x.dtype)
        add(x.movedim(0, -1), x.flatten(0).unflatten(0, x.shape).t(), 2.0, scratch)
        add(scratch[:, 1:], scratch.narrow(1, 0, 1).expand(-1, x.shape[0] - 1), 1.0, z.view(x.shape)[1:].t())
        add(scratch[:, :1], scratch[:, :1], 0.0, z.view(x.shape)[:1].mT)

    def reference(x):
        return torch.cat((3 * x[:1], 3 * x[1:] + 3 * x[:1])).view(-1)

    function = ReplayedFunction(lambda x: x.new_empty(x.numel()), launch)
    with mode():
        for _ in range(5):
            x = torch.randn(5, 7)
            torch.testing.assert_close(function(x), reference(x))
    assert len(recorded(function)) == 1 and len(recorded(function)[0].allocations) == 2


def test_several_outputs_of_any_layout():
    add = make_add(2)

    def allocate(x, y):
        return torch.empty(x.shape[::-1]).t(), torch.empty(x.shape, dtype=torch.float64)

    def launch(outputs, x, y):
        for factor, output in zip((1.0, -1.0), outputs, strict=True):
            add(x, y, factor, output)

    function = ReplayedFunction(allocate, launch)
    for _ in range(5):
        x, y = torch.randn(4, 8), torch.randn(4, 8)
        total, difference = function(x, y)
        assert torch.equal(total, x + y) and torch.equal(difference.float(), x - y)
        assert total.stride() == (1, 4) and difference.stride() == (8, 1)
    assert len(recorded(function)) == 1


def test_tensors_in_one_memory_stand_for_tensors_anywhere():
    add = make_add()
    function = ReplayedFunction(like, lambda z, x, y: add(x, y, 1.0, z))
    packed, x = torch.randn(64), torch.randn(16)
    calls = [(packed[16:32], packed[32:48])] * 3 + [(x, x)] * 3 + [(torch.randn(16), torch.randn(16)), (x, packed[:16])]
    check(function, torch.add, *calls, records=2)


@pytest.mark.parametrize("weights", (1.0, -0.5))
def test_a_tensor_given_twice_stands_for_two(weights):
    """Another tensor of its memory has a fast path of its plan, which tensors apart from each other must not take."""
    add = make_add()
    function = ReplayedFunction(like, lambda z, x, y: add(x, y, weights, z))
    x, others = torch.randn(16), [torch.randn(16) for _ in range(4)]
    calls = [(x, x)] * 2 + [(x, x[:])] * 2 + [(x, others[0]), (others[1], x), (others[2], others[3]), (x, x)]
    check(function, functools.partial(torch.add, alpha=weights), *calls)


@pytest.mark.parametrize(
    "launch",
    (
        lambda add, z, x: add(x * 2, x, 0.0, z),
        lambda add, z, x: add(x.view(torch.int32).clone().view(torch.float32), x, 1.0, z),
        lambda add, z, x: add(x.double() * 2, x, 1.0, z),
        lambda add, z, x: add(x, x, x[0].item(), z),
        lambda add, z, x: (add(x, x, 1.0, z), z.mul_(2)),
        lambda add, z, x: (add(x, x, 1.0, z), z.view(torch.int32)[::2].zero_()),
        lambda add, z, x: add(x, KEPT, 1.0, z),
        lambda add, z, x: z.copy_(KEPT),
        lambda add, z, x: add(x, torch.arange(8), 1.0, z),
    ),
)
@pytest.mark.parametrize("mode", (torch.inference_mode, torch.no_grad))
def test_what_does_more_than_launch_is_run_each_time(launch, mode):
    add = make_add()
    function = ReplayedFunction(like, lambda z, x: launch(add, z, x))
    with mode():
        for _ in range(5):
            x, expected = torch.randn(8), torch.empty(8)
            launch(add, expected, x)
            assert torch.equal(function(x), expected)
    assert not recorded(function)


KEPT = torch.randn(8)


@pytest.mark.parametrize(
    "launch",
    (
        lambda add, z, x: add(x.clone(), x, 1.0, z),
        lambda add, z, x: add(x.double(), x, 1.0, z),
        lambda add, z, x: z.copy_(x),
        lambda add, z, x: z[::2].copy_(x.flatten()[1::2]) is z[1::2].copy_(x[::2]),
        lambda add, z, x: add(x, x.view(2, 4).t().reshape(8), 1.0, z),
        lambda add, z, x: add(x.view(2, 4).t().contiguous().view(8), x[2:4].expand(4, 2).reshape(8), 1.0, z),
        lambda add, z, x: (z.copy_(x), add(z, x, 2.0, z), add(z.half(), z.clone(), 1.0, z)),
        lambda add, z, x: add(_padded(x), x, 1.0, z),
        lambda add, z, x: add(x, torch.zeros(8), 1.0, z),
        lambda add, z, x: (add(x, x.new_zeros(1).expand(8), 1.0, z), z[1::2].zero_()),
    ),
)
@pytest.mark.parametrize("mode", (torch.inference_mode, torch.no_grad))
def test_copies_and_zeros_are_part_of_a_recording(launch, mode):
    add = make_add()
    function = ReplayedFunction(like, lambda z, x: launch(add, z, x))
    with mode():
        for _ in range(5):
            # In a memory of its own, and within another.
            for x in (torch.randn(8), torch.randn(32)[16:24]):
                expected = torch.empty(8)
                launch(add, expected, x)
                assert torch.equal(function(x), expected)
    assert len(recorded(function)) == 1


def _padded(x):
    padded = x.new_empty(4, 3)[:, :2]
    padded.copy_(x.view(4, 2))
    return padded.reshape(8)


def test_a_call_holds_no_memory_once_it_is_done():
    """Whether it runs, is recorded or repeated; no garbage is collected, since pools of graphs are checked at once."""
    add, made = make_add(), []

    def launch(z, x, y):
        double = torch.empty_like(x)
        view = double.view(3, 3).reshape(9)
        add(x, x, 1.0, view)
        add(double.clone(), y, 1.0, z)
        made.extend(weakref.ref(tensor) for tensor in (double, view, z, x, y))

    function = ReplayedFunction(like, launch)
    gc.disable()
    try:
        for _ in range(4):
            x, y = torch.randn(9), torch.randn(9)
            made.extend(map(weakref.ref, (x, y)))
            assert torch.equal(function(x, y), x + x + y)
    finally:
        gc.enable()
    del x, y
    assert len(recorded(function)) == 1
    assert len(made) > 15 and not any(reference() is not None for reference in made)


def test_memory_with_room_to_spare_is_not_recorded():
    add = make_add()
    function = ReplayedFunction(lambda x: torch.empty(100)[:8], lambda z, x: add(x, x, 1.0, z))
    check(function, lambda x: x + x, *((torch.randn(8),) for _ in range(4)), records=0)


def test_unaligned_tensors_are_not_recorded():
    add = make_add()
    function = ReplayedFunction(like, lambda z, x: add(x, x, 1.0, z))
    check(function, lambda x: x + x, *((torch.randn(8 + n)[n:],) for n in (1, 1, 1, 2, 3)), records=0)
    check(function, lambda x: x + x, *((torch.randn(8 + n)[n:],) for n in (0, 0, 4, 1, 0)))


def test_values_tell_calls_apart():
    add, seen = make_add(), []

    def launch(z, x, sizes, factor=1.0, *, scale=1, flag=None):
        seen.append((sizes, factor, scale, flag))
        add(x, x, float(factor * scale * sum(sizes)), z)

    function = ReplayedFunction(like, launch)
    x = torch.randn(16)
    calls = [
        ((x, [1, 2]), {}),
        ((x, [2, 1]), {}),
        ((x, [1, 2], 2.0), {}),
        ((x, [1, 2], 2), {}),
        ((x, [1, 2], True), {}),
    ]
    calls += [((x, [1, 2]), {"scale": 2}), ((x, [1, 2]), {"scale": 2.0}), ((x, [1, 2]), {"flag": 2})]
    calls += [((x, [1, 2], 0.0), {}), ((x, [1, 2], -0.0), {}), ((x, [1, 2]), {"flag": "a"})]
    for _ in range(5):
        for args, kwargs in calls:
            factor = float((args[2] if len(args) > 2 else 1.0) * kwargs.get("scale", 1) * sum(args[1]))
            assert torch.equal(function(*args, **kwargs), x + factor * x)
    assert len(recorded(function)) == len(calls) and len(seen) == 2 * len(calls)


@pytest.mark.parametrize("value", (2j, [0.5], object()), ids=("complex", "floats", "object"))
def test_values_that_cannot_be_told_apart_are_run_each_time(value):
    add, seen = make_add(), []
    function = ReplayedFunction(like, lambda z, x, value: (seen.append(value), add(x, x, 1.0, z)))
    for _ in range(4):
        function(torch.randn(8), value)
    assert len(seen) == 4


def test_precision_counts_where_there_is_a_product_of_float32():
    def application(x, y, z):
        z = ntl.dot(x, y)

    dot = ninetoothed.make(
        lambda *tensors: tuple(tensor.tile((-1, -1)) for tensor in tensors), application, (Tensor(2),) * 3
    )
    seen = []
    function = ReplayedFunction(like, lambda z, x: (seen.append(x), dot(x, x, z)))
    before, x = torch.get_float32_matmul_precision(), torch.eye(16)
    try:
        for precision in ("highest", "high", "highest"):
            torch.set_float32_matmul_precision(precision)
            for _ in range(4):
                assert torch.equal(function(x), x)
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(seen) == 4  # The guards of the first recording still know it.


def test_no_element_is_not_recorded():
    add = make_add()
    function = ReplayedFunction(like, lambda z, x: add(x, x, 1.0, z))
    check(function, lambda x: x + x, *((torch.empty(0),) for _ in range(4)), records=0)


def test_a_kernel_knows_the_recordings_of_its_launches():
    add = make_add()
    function = ReplayedFunction(like, lambda z, x: add(x, x, 1.0, z))
    check(function, lambda x: x + x, *((torch.randn(8),) for _ in range(3)))
    (calls,) = dispatch.launcher_of(add).dependants
    calls.forget()
    assert not recorded(function)
    check(function, lambda x: x + x, *((torch.randn(8),) for _ in range(3)))


def test_errors_are_raised_each_time():
    add = make_add()
    function = ReplayedFunction(like, lambda z, x, y: add(x, y, 1.0, z))
    for _ in range(4):
        with pytest.raises(ValueError, match="sizes agree"):
            function(torch.randn(8), torch.randn(1000))


def test_a_call_within_a_call_is_part_of_its_recording():
    add = make_add()
    inner = ReplayedFunction(like, lambda z, x: add(x, x, 1.0, z))

    def launch(z, x):
        add(inner(x), x, 1.0, z)

    function = ReplayedFunction(like, launch)
    check(function, lambda x: 3 * x, *((torch.ones(8),) for _ in range(6)))


def test_threads():
    add, failures = make_add(), []
    function = ReplayedFunction(like, lambda z, x, y: add(x, y, 1.0, z))

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(60):
            size = int(torch.randint(1, 6, (), generator=generator))
            x, y = torch.randn(2, size, generator=generator).clone()
            if not torch.equal(function(x, y), x + y):
                failures.append(size)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_writes_its_arguments_is_recorded_apart_where_they_are_the_same_memory():
    """A plan for memory apart has no barriers between it; the same tensors twice, or views of them, get their own."""
    add = make_add()
    function = ReplayedFunction(like, lambda z, x, y: (add(x, y, 1.0, z), add(x, y, 1.0, x)))
    for is_one, count in ((False, 1), (True, 2), (False, 2), (True, 2)):
        for _ in range(3):
            x = torch.randn(16)
            y = x[:] if is_one else torch.randn(16)
            expected = x + y
            assert torch.equal(function(x, y), expected) and torch.equal(x, expected)
        assert len(recorded(function)) == count


def test_other_pairs_of_one_memory_are_recorded_apart():
    """A plan has barriers where a launch's own pair is one memory; `x` and `z` are in no launch that writes to one."""
    add = make_add()
    function = ReplayedFunction(like, lambda w, x, y, z: (add(x, y, 1.0, x), add(y, z, 1.0, y), add(x, z, 0.0, w)))
    x, y, z = (torch.randn(16) for _ in range(3))
    calls = ((x, x[:], z, 1), (x, y, y[:], 2), (x, y, x[:], 2), (x, x[:], x[:], 3), (x, y, z, 3))
    for *args, count in calls:
        for _ in range(4):
            function(*args)
        assert len(recorded(function)) == count


def test_neighbours_that_share_elements_are_refused_after_calls_of_tensors_apart():
    add = make_add()
    function = ReplayedFunction(like, lambda z, x, y: (add(x, y, 1.0, x), add(x, y, 0.0, z)))
    for _ in range(4):
        memory, other = torch.randn(32), torch.randn(16)
        expected = memory[:16] + other
        assert torch.equal(function(memory[:16], other), expected)
        for start in (4, 12):  # aligned, as those were
            with pytest.raises(ninetoothed.ArgumentError, match="is written to, and shares memory with elements of"):
                function(memory[:16], memory[start : start + 16])
        assert torch.equal(function(memory[:16], memory[16:]), expected + memory[16:])
    assert len(recorded(function)) == 1


def test_views_that_interleave_are_replayed_at_distances_that_were_recorded():
    add, launches = make_add(2), []

    def launch(z, x, y):
        launches.append(x)
        add(x, y, 1.0, x)
        add(x, y, 0.0, z)

    function = ReplayedFunction(like, launch)
    for columns, runs in ((4, 2), (8, 3), (4, 3)):
        for _ in range(5):
            packed = torch.randn(16, 12)
            x, y = packed[:, :4], packed[:, columns : columns + 4]
            expected = x + y
            assert torch.equal(function(x, y), expected) and torch.equal(x, expected)
        assert len(launches) == runs
