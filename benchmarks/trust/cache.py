"""The cache on disk: crowds of processes that are killed, and whatever may become of a file or a directory.

A seed is a crowd (16 processes of 16 threads each make, compile and launch on one directory, some killed at random
moments and replaced; fewer in the first seed), damage to the files that it left, files cut off at every 32nd byte, and
one state of the directory.
"""

import contextlib
import errno
import hashlib
import multiprocessing
import os
import pathlib
import queue
import random
import shutil
import signal
import struct
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

import torch

from ninetoothed.backends.triton import emit
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.compilation import disk_cache, triton_cache
from ninetoothed.runtime.compilation.compile import compile_kernel
from ninetoothed.runtime.selection.machine import H200
from ninetoothed_ops.kernels import activation, add

from .parts import Case

# How many processes, threads in each, and how many are killed.
CROWD, FIRST_CROWD = (16, 16, 8), (4, 4, 2)
SIZES = (33, 1000)
DAMAGES = 10
STRIDE = 32
STATES = ("read-only", "full", "foreign", "open to others", "another version")


@dataclass(frozen=True)
class Job:
    """One kernel at one size: made, compiled for a GPU that need not be there, and launched where tensors are."""

    name: str
    size: int

    @property
    def arguments(self) -> tuple:
        x, y = torch.arange(self.size, dtype=torch.float32), torch.empty(self.size)
        return (x, y) if self.name == "silu" else (x, x, 1.0, y)

    def compile(self):
        kernel = _make(self.name)
        return compile_kernel(emit(dispatch.program(kernel, self.arguments, {})), H200, 4, 3)

    def digest(self) -> str:
        """Of the machine code of the job, as the cache at hand gives it."""
        return hashlib.sha256(b"".join(code_of(self.compile().asm["cubin"]))).hexdigest()

    def launch(self) -> str:
        """Tell what is wrong with the numbers that a new kernel gives, else ""."""
        *inputs, output = (a.cuda() if isinstance(a, torch.Tensor) and _HAS_GPU else a for a in self.arguments)
        _make(self.name)(*inputs, output)
        x = inputs[0].double()
        expected = x * torch.sigmoid(x) if self.name == "silu" else x + x
        error = (output.double() - expected).abs().max().item()
        return "" if error < 1e-3 else f"{self}: off by {error}"


JOBS = tuple(Job(name, size) for name in ("add", "silu") for size in SIZES)
# Asked without making a context: children of a fork could not use it.
_HAS_GPU = os.path.exists("/dev/nvidiactl")


def code_of(cubin: bytes) -> list[bytes]:
    """The sections of a cubin that are run: the rest names files that the assembler had."""
    (table,), (size, count, names) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<3H", cubin, 58)
    sections = [struct.unpack_from("<2I4Q", cubin, table + n * size) for n in range(count)]
    start = sections[names][4]
    return [
        cubin[place : place + length]
        for name, _, _, _, place, length in sections
        if cubin[start + name :].startswith(b".text.")
    ]


def _make(name):
    """A kernel that nobody has made before, so that each thread makes its own."""
    return add.make.__wrapped__(1) if name == "add" else activation.make.__wrapped__("silu")


def cases(seed: int) -> Iterator[Case]:
    rng = random.Random(seed)
    with at_a_place_of_its_own() as folder:
        expected = {job: job.digest() for job in JOBS}
        shutil.rmtree(folder)
        yield from crowd(seed, expected, *(CROWD if seed else FIRST_CROWD))
        yield from damages(rng, expected, DAMAGES)
        yield from truncations(JOBS[seed // STRIDE % len(JOBS)], seed % STRIDE, STRIDE)
        yield state(STATES[seed % len(STATES)], rng.choice(JOBS), expected)


@contextlib.contextmanager
def at_a_place_of_its_own() -> Iterator[pathlib.Path]:
    """Let both caches lie in a folder of their own; warnings, of which there will be many, are not printed."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        places = {"NINETOOTHED_CACHE_DIR": f"{folder}/cache/own", "TRITON_CACHE_DIR": f"{folder}/cache/triton"}
        with mock.patch.dict(os.environ, places):
            yield pathlib.Path(folder, "cache")


# -- crowds --


def crowd(seed, expected, processes, threads, kills) -> Iterator[Case]:
    """Processes that share a directory; one case each, of those that were not killed."""
    rng, context = random.Random(seed), multiprocessing.get_context("fork")
    results, running, number = context.SimpleQueue(), {}, 0

    def begin():
        nonlocal number
        process = context.Process(target=work, args=(seed * 1000 + number, expected, threads, results))
        process.start()
        running[number] = process
        number += 1

    for _ in range(processes):
        begin()
    for _ in range(kills):
        time.sleep(rng.uniform(0, 0.5))
        victim = rng.choice(list(running))
        process = running.pop(victim)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        begin()
    wrong = {}
    for own, process in running.items():
        process.join(60)
        if process.exitcode is None:
            process.kill()
            process.join()
        wrong[own] = "" if process.exitcode == 0 else f"exit status {process.exitcode}"
    reported = ""
    while not results.empty():
        reported += results.get()
    for own, what in wrong.items():
        yield Case(f"crowd {seed}, process {own} of {threads} threads", what and f"{what}: {reported[:2000]}")


def work(seed, expected, threads, results):
    """Let threads do all jobs, each in an order of its own; report what went wrong."""
    problems = queue.SimpleQueue()

    def run(number):
        try:
            for job in random.Random(seed * 100 + number).sample(JOBS, 2):
                if (found := job.digest()) != expected[job]:
                    problems.put(f"{job}: machine code {found}, not {expected[job]}\n")
                if what := job.launch():
                    problems.put(what)
        except BaseException:
            problems.put(traceback.format_exc()[-1500:])

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    is_well = problems.empty()
    if not is_well:
        results.put(problems.get())
    os._exit(0 if is_well else 1)


# -- damage --


def damages(rng, expected, count) -> Iterator[Case]:
    """Files cut off, changed, or exchanged, one at a time: each is told from what was written, or does not matter."""
    for _ in range(count):
        job, description = rng.choice(JOBS), None
        job.compile()
        paths = sorted(path for path in _root().rglob("*") if path.is_file())
        path = rng.choice([path for path in paths if path.suffix in (".json", ".cubin", ".py", ".ptx")])
        whole = path.read_bytes()
        at = rng.randrange(len(whole))
        description, content = rng.choice(
            [
                ("cut off", whole[:at]),
                ("changed", whole[:at] + bytes([whole[at] ^ rng.randrange(1, 256)]) + whole[at + 1 :]),
                ("longer", whole + b"\0"),
                ("another file", rng.choice(paths).read_bytes()),
            ]
        )
        path.write_bytes(content)
        yield Case(f"{_kind(path)} {description} at {at} of {len(whole)}", _mistaken(expected))


def truncations(job: Job, first: int, stride: int) -> Iterator[Case]:
    """The files of one job cut off at one byte after another: nothing is loaded then, and no exception raised."""
    shutil.rmtree(_root())
    expected = {job: job.digest()}
    for path in sorted(path for path in _root().rglob("*") if path.suffix in (".json", ".cubin", ".py")):
        whole = path.read_bytes()
        for at in range(first, len(whole), stride):
            path.write_bytes(whole[:at])
            # The text of a kernel is compared and written anew; the rest is found to be broken.
            with mock.patch.object(triton_cache, "_under_own_key", side_effect=Recompiled):
                try:
                    found = job.digest()
                    what = "" if found == expected[job] else "other machine code was loaded"
                except Exception as error:
                    what = "" if isinstance(error.__cause__, Recompiled) else repr(error)
            yield Case(f"{_kind(path)} of {job} cut off at {at}", what)
        path.write_bytes(whole)


class Recompiled(Exception):
    """Nothing was found in the cache, and the compiler was about to be asked."""


def _mistaken(expected) -> str:
    """Tell what the cache gives that it should not; it mends itself while it is looked at."""
    try:
        return "".join(f"{job}: another machine code\n" for job in JOBS if job.digest() != expected[job])
    except Exception:
        return traceback.format_exc()[-1500:]


def _root() -> pathlib.Path:
    return pathlib.Path(os.environ["NINETOOTHED_CACHE_DIR"]).parent


def _kind(path: pathlib.Path) -> str:
    """A file's name without what differs between runs."""
    parts = path.relative_to(_root()).parts
    return "/".join((parts[0], *parts[1:-1][:1])) + path.suffix if parts[0] == "own" else f"triton {path.name}"


# -- states of the directory --


def state(name, job, expected) -> Case:
    """One state that a directory can be in, empty and full of results: the right machine code all the same."""
    wrong = []
    for filled in (False, True):
        shutil.rmtree(_root())
        if filled:
            job.compile()
        else:
            pathlib.Path(os.environ["NINETOOTHED_CACHE_DIR"]).mkdir(parents=True)
        with _STATES[name]():
            try:
                wrong += [] if job.compile().asm["cubin"] else ["no machine code"]
            except Exception:
                wrong.append(traceback.format_exc()[-1500:])
    return Case(f"a directory {name}: {job}", "".join(wrong))


@contextlib.contextmanager
def _refusing(reason):
    """Let nothing be written below the directory; permissions would not keep root from it."""

    def failing(original, takes):
        def call(*args, **kwargs):
            if str(takes(*args, **kwargs)).startswith(str(_root())):
                raise OSError(reason, os.strerror(reason))
            return original(*args, **kwargs)

        return call

    with (
        mock.patch.object(tempfile, "mkstemp", failing(tempfile.mkstemp, lambda *args, dir=None, **kwargs: dir)),
        mock.patch.object(os, "makedirs", failing(os.makedirs, lambda path, *args, **kwargs: path)),
        mock.patch.object(os, "replace", failing(os.replace, lambda first, second: second)),
    ):
        yield


@contextlib.contextmanager
def _open():
    path = pathlib.Path(os.environ["NINETOOTHED_CACHE_DIR"])
    path.chmod(0o777)
    yield


_STATES = {
    "read-only": lambda: _refusing(errno.EROFS),
    "full": lambda: _refusing(errno.ENOSPC),
    "foreign": lambda: mock.patch.object(os, "geteuid", return_value=os.geteuid() + 1),
    "open to others": _open,
    "another version": lambda: mock.patch.object(disk_cache, "version", return_value="another"),
}
