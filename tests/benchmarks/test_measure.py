"""The clock of the benchmarks against a pretended GPU, whose times are known."""

from types import SimpleNamespace

import pytest

from benchmarks import measure


class Machine:
    """A host that takes a while to issue a command, and a GPU that takes them in order. `clock` is the host's."""

    def __init__(self, host):
        self.host, self.clock, self.free = host, 0.0, 0.0

    def launch(self, seconds):
        self.clock += self.host
        self.free = max(self.free, self.clock) + seconds

    def torch(self):
        machine = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                machine.launch(0.0)
                self.at = machine.free

            def elapsed_time(self, other):
                return 1e3 * (other.at - self.at)

        cuda = SimpleNamespace(
            Event=Event, synchronize=self.synchronize, _sleep=lambda cycles: self.launch(cycles / 1e9)
        )
        return SimpleNamespace(
            cuda=cuda, int8=None, empty=lambda *_, **__: SimpleNamespace(zero_=lambda: self.launch(60e-6))
        )

    def synchronize(self):
        self.clock = max(self.clock, self.free)

    def time(self):
        def sleep(seconds):
            self.clock += seconds

        return SimpleNamespace(perf_counter=lambda: self.clock, sleep=sleep)


@pytest.mark.parametrize("host", (5e-6, 300e-6))
def test_a_busy_host_is_not_charged_to_the_device(host, monkeypatch):
    machine = Machine(host)
    monkeypatch.setattr(measure, "torch", machine.torch())
    monkeypatch.setattr(measure, "time", machine.time())

    def twice():
        machine.launch(10e-6)
        machine.launch(15e-6)

    times = measure.device_times({"one": lambda: machine.launch(20e-6), "two": twice})
    assert times == pytest.approx({"one": 0.020, "two": 0.025})


def test_a_burst_takes_as_long_as_asked(monkeypatch):
    machine, called = Machine(5e-6), []
    monkeypatch.setattr(measure, "torch", machine.torch())
    monkeypatch.setattr(measure, "time", machine.time())

    def call():
        called.append(None)
        machine.launch(940e-6)

    measure.device_times({"one": call}, rounds=1, burst=20.0)
    # One call alone, ten to plan by, then 20 ms of 1 ms each, with the caches overwritten.
    assert len(called) == 1 + 10 + 20
