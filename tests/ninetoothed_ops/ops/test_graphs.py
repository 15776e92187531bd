"""Operators in CUDA graphs, as PyTorch has them: by hand, by `torch.compile`, in pools, on streams and in threads."""

import threading

import pytest
import torch

import ninetoothed_ops as ops
from tests.ninetoothed_ops.graphed import CALLS, WITH_WORKSPACE, call, captured, half, leaves_nothing, warmed

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", CALLS)
def test_a_captured_call_gives_the_same_bits(name):
    function, args = call(name)
    expected = warmed(function, args)
    graph, output = captured(function, args)
    for _ in range(3):
        output.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(output, expected)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_nothing_in_a_private_pool(name):
    assert leaves_nothing(*call(name))


@pytest.mark.parametrize("mode", ("reduce-overhead", "max-autotune"))
def test_compiled_into_graphs(mode):
    """All calls in one function, whose graph Inductor warms up, captures and checks for memory that is left."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    calls = [call(name) for name in CALLS]
    expected = [warmed(*each) for each in calls]

    def run(every):
        return [function(*args) for (function, _), args in zip(calls, every, strict=True)]

    compiled = torch.compile(run, mode=mode)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        found = compiled([args for _, args in calls])
        torch.cuda.synchronize()
        wrong = [name for name, one, other in zip(CALLS, found, expected, strict=True) if not torch.equal(one, other)]
        assert not wrong
    assert not counters["inductor"]["cudagraph_skips"]


def test_several_graphs_in_one_pool():
    calls = [call(name) for name in WITH_WORKSPACE]
    expected = [warmed(*each) for each in calls]
    pool = torch.cuda.graph_pool_handle()
    graphs = [captured(*each, pool=pool) for each in calls]
    for _ in range(3):
        for (graph, output), result in zip(graphs, expected, strict=True):
            output.fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(output, result)


def test_replays_in_threads_beside_calls_on_other_streams():
    """Each thread has a graph and a stream, the last two none but a stream: all have memory of their own."""
    names = (*WITH_WORKSPACE[:4], "mm, split", "addmm, split")
    calls = [call(name) for name in names]
    expected = [warmed(*each) for each in calls]
    graphs = [captured(*each) for each in calls[:-2]]
    start, wrong = threading.Barrier(len(calls)), []

    def work(index):
        function, args = calls[index]
        start.wait()
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                if index < len(graphs):
                    graphs[index][0].replay()
                    found = graphs[index][1].clone()
                else:
                    found = function(*args)
                torch.cuda.current_stream().synchronize()
                if not torch.equal(found, expected[index]):
                    wrong.append(names[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_capture_beside_calls_in_another_thread():
    function, args = call("mm, split")
    expected = warmed(function, args)
    ready, done, wrong = threading.Event(), threading.Event(), []

    def work():
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            while not done.is_set():
                found = function(*args)
                ready.set()
                torch.cuda.current_stream().synchronize()
                if not torch.equal(found, expected):
                    wrong.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        ready.wait(60)
        graphs = [captured(function, args, capture_error_mode="thread_local") for _ in range(3)]
        for graph, output in graphs:
            graph.replay()
            torch.cuda.current_stream().synchronize()
            assert torch.equal(output, expected)
    finally:
        done.set()
        thread.join()
    assert not wrong


def test_graphed_callables():
    weights = half(4096, 512), half(512, 4096)
    graphed = torch.cuda.make_graphed_callables(
        lambda x: ops.mm(ops.silu(ops.mm(x, weights[0])), weights[1]), (half(2, 4096),)
    )
    for _ in range(3):
        x = half(2, 4096)
        assert torch.equal(graphed(x), ops.mm(ops.silu(ops.mm(x, weights[0])), weights[1]))


class TestFilters:
    """What `conv2d` keeps is no part of a graph, and nothing that a graph has computed is kept."""

    def test_captured_first(self):
        function, (images, filters) = call("conv2d, repacked")
        warmed(function, (images, filters.clone()))
        graph, output = captured(function, (images, filters))
        expected = function(images, filters)
        assert torch.equal(expected, function(images, filters.clone()))
        graph.replay()
        assert torch.equal(output, expected)

    def test_changed_in_place(self):
        function, (images, filters) = call("conv2d, repacked")
        warmed(function, (images, filters))
        graph, output = captured(function, (images, filters))
        filters.mul_(2)
        graph.replay()
        assert torch.equal(output, function(images, filters))

    def test_used_on_a_stream_that_did_not_repack_them(self):
        function, (images, filters) = call("conv2d, repacked")
        expected, stream = function(images, filters.clone()), torch.cuda.Stream()
        torch.cuda.synchronize()
        torch.cuda._sleep(50_000_000)
        function(images, filters)
        with torch.cuda.stream(stream):
            found = function(images, filters)
        stream.synchronize()
        assert torch.equal(found, expected)
