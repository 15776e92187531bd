"""Memory of kernels' own: kept for the next launch, never let go under one that is about to run."""

import threading

import pytest
import torch

from ninetoothed.runtime.scratch import Pool


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return Pool(torch.device("cpu"))


def test_it_is_kept_by_stream_place_and_zeros(pool):
    first = pool.addresses(0, ((4096, False), (64, True)))
    assert pool.addresses(0, ((4000, False), (64, True))) == first and len({*first}) == 2
    assert not {*pool.addresses(1, ((4096, False), (64, True)))} & {*first}
    assert not pool.kept[0, 1, True].any()


def test_what_is_outgrown_stays_where_it_is(pool):
    (before,) = pool.addresses(0, ((100, True),))
    (after,) = pool.addresses(0, ((1000, True),))
    assert before != after and [tensor.data_ptr() for tensor in pool.outgrown] == [before]
    assert pool.kept[0, 0, True].numel() == 1024


def test_parts_of_a_captured_launch_do_not_overlap(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    pool = Pool(torch.device("cpu"))
    for _ in range(20):
        first, second = pool.addresses(0, ((4096, False), (4096, True)))
        assert abs(first - second) >= 4096
    assert not pool.kept


def test_threads_get_the_same_memory(pool):
    found = []
    start = threading.Barrier(8)

    def ask():
        start.wait()
        found.append(pool.addresses(0, ((2**16, False), (2**10, True))))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*map(tuple, found)}) == 1 and not pool.outgrown
