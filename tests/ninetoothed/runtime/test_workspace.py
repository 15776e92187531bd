"""Memory of kernels' own: a launch's workspace goes with it, semaphores are kept outside of every private pool."""

import contextlib
import threading
import types
import weakref

import pytest
import torch

from ninetoothed.backends.triton import emit
from ninetoothed.runtime import dispatch, workspace
from ninetoothed.runtime.fast_path import FunctionBody, with_workspace, write_kernel
from ninetoothed.runtime.selection.machine import H200
from ninetoothed.runtime.workspace import Semaphores
from ninetoothed.schedule import Schedule, SplitK
from ninetoothed_ops.kernels import mm
from tests.ninetoothed.runtime.launched import loaded_for


class GPU:
    """Stands for PyTorch's allocator and a stream: a private pool is one of threads, as PyTorch's is.

    made: (bytes, whether in the private pool, whether zeroed, weak reference) of all that was allocated.
    """

    def __init__(self):
        self.capturing, self.stream = False, 7
        self.pool = threading.local()
        self.made = []

    def allocate(self, make, is_zeroed):
        def allocated(size, *args, **options):
            tensor = make(size, dtype=options.get("dtype", torch.uint8))
            entry = tensor.nbytes, getattr(self.pool, "is_private", False), is_zeroed, weakref.ref(tensor)
            self.made.append(entry)
            return tensor

        return allocated

    @contextlib.contextmanager
    def private_pool(self):
        self.pool.is_private = True
        yield
        self.pool.is_private = False

    @property
    def left(self):
        """(bytes, whether in the private pool) of what is still held."""
        return [entry[:2] for entry in self.made if entry[3]() is not None]


# (bytes, whether in the private pool) of what is kept after a first launch: its stream's, and the reserve.
KEPT = [(4096, False), (workspace.RESERVE, False)]


@pytest.fixture
def gpu(monkeypatch):
    gpu = GPU()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: gpu.capturing)
    monkeypatch.setattr(torch, "empty_strided", gpu.allocate(torch.empty, False))
    monkeypatch.setattr(torch, "zeros", gpu.allocate(torch.zeros, True))
    semaphores = Semaphores(torch.device("cpu"))
    monkeypatch.setattr(workspace, "_semaphores", lambda device: semaphores)
    return gpu


class Launched:
    """A split product behind a driver that records: `again` launches it, `seen` has what was alive meanwhile."""

    def __init__(self, gpu):
        operands = [torch.empty(shape, dtype=torch.float16) for shape in ((64, 4096), (4096, 64), (64, 64))]
        variant = dispatch.launcher_of(mm.make()).trace(tuple(operands), {}, H200)
        self.emitted = emit(variant.program, Schedule(sharing=SplitK(4)))
        self.gpu, self.seen = gpu, []
        loaded, driver = loaded_for(self.emitted)
        driver.reached = types.SimpleNamespace(append=self._reached)
        own = workspace.workspace_of(self.emitted, variant.selection.values, torch.device("cuda", 0))
        count = len(self.emitted.arguments) - len(self.emitted.buffers)
        source = FunctionBody()
        source.add("stream = args[0]")
        write_kernel(source, loaded, (4, 1, 1), with_workspace(source, own, ["1"] * count), "stream")
        self._launch = source.function()

    def _reached(self, launch):
        own = [value for value in launch[-1] if value != 1]
        alive = {entry[3]().data_ptr(): entry for entry in self.gpu.made if entry[3]() is not None}
        self.seen.append([alive.get(address) for address in own])

    def again(self):
        self._launch((self.gpu.stream,), ())


@pytest.fixture
def launched(gpu):
    """A launch that is done, as one does it again; what was allocated before does not count."""
    made = Launched(gpu)
    gpu.made.clear()
    return made


def test_a_workspace_lives_as_long_as_its_launch(gpu, launched):
    for _ in range(3):
        launched.again()
    for own, semaphores in launched.seen:
        assert own[0] == 4 * 64 * 64 * 4 and not own[2], "held while the kernel is enqueued"
        assert semaphores[2]
    assert gpu.left == KEPT, "semaphores alone are kept"
    assert launched.seen[0][1] is launched.seen[2][1]


def test_nothing_is_left_in_a_private_pool(gpu, launched):
    """As Inductor runs what it is about to capture: in the graph's pool, not capturing."""
    with gpu.private_pool():
        for _ in range(2):
            launched.again()
    assert all(workspace[1] and not semaphores[1] for workspace, semaphores in launched.seen)
    assert gpu.left == KEPT


def test_captured_launches_share_nothing(gpu, launched):
    launched.again()
    before = gpu.left
    gpu.capturing = True
    semaphores = workspace._semaphores(None)
    left = semaphores.reserve[-1].numel()
    with gpu.private_pool():
        for _ in range(2):
            launched.again()
        taken = [semaphores.on(7, count) for count in (1, 300)]
    _, *captured = launched.seen
    assert all(own[1] for own, _ in captured), "the workspace is the graph's"
    assert len({id(own) for own, _ in captured}) == 2
    assert left - semaphores.reserve[-1].numel() == 2 * 256 + 256 + 512, "each has zeros of its own"
    first, second = (each.data_ptr() for each in taken)
    assert second == first + 256 and not taken[1].any()
    assert gpu.left == before


def test_zeros_that_are_lent_are_taken_first(gpu, launched):
    launched.again()
    gpu.capturing = True
    semaphores = workspace._semaphores(None)
    left, zeros = semaphores.reserve[-1].numel(), torch.zeros(1024, dtype=torch.uint8)
    for _ in range(2):
        with workspace.lending(zeros):
            addresses = [semaphores.on(7, count).data_ptr() for count in (1, 300, 300)]
        assert addresses[:2] == [zeros.data_ptr(), zeros.data_ptr() + 256]
    assert left - semaphores.reserve[-1].numel() == 2 * 512, "the third has too few"
    assert semaphores.on(7, 1).data_ptr() != zeros.data_ptr()


def test_captured_launches_without_a_reserve_make_zeros_in_the_graph(gpu, launched):
    gpu.capturing = True
    with gpu.private_pool():
        for _ in range(2):
            launched.again()
    assert all(entry[1] for pair in launched.seen for entry in pair), "all is the graph's"
    assert all(semaphores[2] for _, semaphores in launched.seen)
    assert len({id(entry) for pair in launched.seen for entry in pair}) == 4
    assert gpu.left == []


def test_a_reserve_that_is_used_up(gpu):
    semaphores = Semaphores(torch.device("cpu"))
    semaphores.on(0, 100)
    gpu.capturing = True
    assert semaphores.on(0, workspace.RESERVE).numel() == workspace.RESERVE
    with gpu.private_pool():
        after = semaphores.on(0, 100)
    assert after.numel() == 100 and gpu.made[-1][1], "made in the graph"


def test_a_reserve_that_runs_low_is_made_anew_by_the_next_launch(gpu):
    semaphores = Semaphores(torch.device("cpu"))
    semaphores.on(0, 100)
    for _ in range(3):
        gpu.capturing = True
        with gpu.private_pool():
            taken = semaphores.on(0, workspace.RESERVE // 2 + 256)
        assert not gpu.made[-1][1], "made before, and not in the graph"
        address = taken.data_ptr()
        del taken
        gpu.capturing = False
        semaphores.on(0, 100)
    kept = [each.untyped_storage().data_ptr() for each in semaphores.reserve]
    assert len(set(kept)) == 4 and kept[-2] == address, "graphs write into those of before"


def test_streams_have_semaphores_of_their_own(gpu, launched):
    for gpu.stream in (7, 8, 7, 8):
        launched.again()
    first, second, *others = (semaphores for _, semaphores in launched.seen)
    assert first is not second and others[0] is first and others[1] is second


def test_what_is_outgrown_is_held_by_who_is_about_to_launch(gpu):
    semaphores = Semaphores(torch.device("cpu"))
    before = semaphores.on(0, 100)
    after = semaphores.on(0, 5000)
    assert before.numel() == 4096 and after.numel() == 8192 and semaphores.on(0, 100) is after
    assert not after.any() and before.data_ptr() != after.data_ptr()
    del before
    assert gpu.left == [KEPT[1], (8192, False)]


def test_threads_get_the_same_semaphores(gpu):
    semaphores, found, start = Semaphores(torch.device("cpu")), [], threading.Barrier(8)

    def ask():
        start.wait()
        found.append(semaphores.on(0, 2**14))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*map(id, found)}) == 1 and len(gpu.made) == len(KEPT)


def test_outliving_memory_is_allocated_by_another_thread_on_this_stream(monkeypatch):
    streams, entered = threading.local(), []
    streams.current = 7
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: streams.current)

    @contextlib.contextmanager
    def stream(given):
        entered.append((threading.get_ident(), given))
        yield

    monkeypatch.setattr(torch.cuda, "stream", stream)
    threads = []
    result = workspace.outliving(lambda: threads.append(threading.get_ident()) or "made", torch.device("cuda", 0))
    assert result == "made" and threads != [threading.get_ident()] and entered == [(threads[0], 7)]


def test_a_lack_of_memory_is_told_to_who_asks(gpu, monkeypatch):
    def zeros(*args, **options):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(torch, "zeros", zeros)
    semaphores = Semaphores(torch.device("cpu"))
    with pytest.raises(torch.OutOfMemoryError):
        semaphores.on(0, 100)
    assert not semaphores.kept and not semaphores.lock.locked()
