"""How loaded kernels are launched: past Triton's launcher where nobody watches, and through it otherwise."""

import types

import pytest

from ninetoothed.runtime.compile import Loaded


class Launcher:
    """Stands for Triton's: takes what that takes, and passes it on to what is written in C."""

    global_scratch_size, profile_scratch_size = 0, 0

    def __init__(self, in_c):
        self.launch, self.calls = in_c, 0


class Spread(Launcher):
    """As in Triton 3.4 to 3.6."""

    def __call__(self, x, y, z, stream, function, *args):
        self.calls += 1
        self.launch(x, y, z, stream, function, "cooperative", *args)


class Packed(Launcher):
    """As in Triton 3.7."""

    def __call__(self, x, y, z, stream, function, metadata, launch_metadata, enter, leave, *args):
        self.calls += 1
        self.launch(x, y, z, stream, function, metadata, launch_metadata, enter, leave, "signature", args)


class Fussy(Spread):
    """Cannot be watched."""

    def __call__(self, x, y, z, stream, function, *args):
        super().__call__(x, y, z, int(stream), function, *args)


class Greedy(Spread):
    """Has memory to allocate."""

    global_scratch_size = 64


class Other(Spread):
    """Passes something else."""

    def __call__(self, x, y, z, stream, function, *args):
        self.calls += 1
        self.launch((x, y, z), stream, function, *args)


class Closed:
    """Lets nobody see or change what it calls."""

    __slots__ = ("calls", "_launch")

    def __init__(self, in_c):
        self._launch, self.calls = in_c, 0

    __call__ = Other.__call__
    launch = property(lambda self: self._launch)


def load(launcher):
    """A kernel behind a launcher, what reached the function in C, and Triton's settings."""
    reached, calls = [], types.SimpleNamespace(calls=[])
    settings = types.SimpleNamespace(launch_enter_hook=calls, launch_exit_hook=None)
    kernel = types.SimpleNamespace(
        run=launcher(lambda *args: reached.append(args)),
        function="function",
        packed_metadata="metadata",
        launch_metadata=lambda grid, stream, *args: (grid, stream, args),
    )
    return Loaded(kernel, settings, False), reached, settings


@pytest.mark.parametrize("launcher", (Spread, Packed))
@pytest.mark.parametrize("arguments", ((), (5,), (5, 6.0, 7)))
def test_what_the_launcher_would_pass_is_passed_without_it(launcher, arguments):
    loaded, reached, _ = load(launcher)
    loaded._kernel.run(3, 1, 1, 9, "function", "metadata", None, None, None, *arguments)
    before = loaded._kernel.run.calls
    loaded(3, arguments, 9)
    assert reached[0] == reached[1] and len(reached) == 2
    assert loaded._kernel.run.calls == before


@pytest.mark.parametrize("launcher", (Fussy, Greedy, Other, Closed))
def test_a_launcher_that_is_not_as_expected_is_called(launcher):
    loaded, reached, _ = load(launcher)
    before = loaded._kernel.run.calls
    loaded(3, (5, 6), 9)
    assert loaded._kernel.run.calls == before + 1 and len(reached) == 1 and reached[0][-2:] == (5, 6)


@pytest.mark.parametrize("launcher", (Spread, Packed))
def test_hooks_are_passed_to_the_launcher(launcher):
    loaded, reached, settings = load(launcher)
    hook = types.SimpleNamespace(calls=[print])
    for enter, leave, expected in (
        (hook, None, (((3, 1, 1), 9, (5,)), hook, None)),
        (None, print, (None, None, print)),
        (settings.launch_enter_hook, hook, (None, None, hook)),
        (None, None, (None, None, None)),
    ):
        settings.launch_enter_hook, settings.launch_exit_hook = enter, leave
        loaded(3, (5,), 9)
        passed = reached.pop()
        assert passed[passed.index("metadata") + 1 :][:3] == expected
    assert loaded._kernel.run.calls == 1 + 3
