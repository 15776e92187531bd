"""Right kernels are proved, planted faults refuted, and no proof says what counting or a run does not."""

import functools
import re

import pytest
import torch
from expecttest import assert_expected_inline

import ninetoothed
import ninetoothed.language as ntl
from docs import verification as page
from ninetoothed import Tensor, VerificationError, VerificationWarning, verify
from ninetoothed.arrangement.metaops import partitions
from ninetoothed.arrangement.value import Arrangement
from ninetoothed.runtime.selection import machine
from ninetoothed.verification import claims, notes, witness
from ninetoothed.verification.counting import count
from ninetoothed.verification.subject import examples, subject
from tests.ninetoothed.verification.programs import RIGHT, WRONG, add, double, increment, made, tiles, whole_rows
from tests.ninetoothed_ops.kernels import calls

SHIPPED = (*calls.NAMES, *calls.GRADIENTS)
# Their places are loaded.
BY_INDEX = {"linear_rope_into_cache", "rope_into_cache"}


def taken(programs, name):
    """The kernel, the arguments and the keywords of a program's entry."""
    kernel, *args = programs[name]()
    kwargs = args.pop() if args and isinstance(args[-1], dict) else {}
    return kernel, args, kwargs


@functools.cache
def verified(name):
    """What is found of a program, once for all tests."""
    kernel, args, kwargs = taken(RIGHT if name in RIGHT else WRONG, name)
    return verify(kernel, *args, **kwargs)


@pytest.mark.quick
def test_there_are_sixty_of_each():
    assert len(RIGHT) >= 60 and len(WRONG) >= 60 and RIGHT.keys().isdisjoint(WRONG)


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_proved(name):
    assert verified(name), str(verified(name))


@pytest.mark.parametrize("name", WRONG)
def test_planted_faults_are_refuted(name):
    found = verified(name)
    assert found.verdict == "refuted"
    refuted = [each for each in found.findings if each.verdict == "refuted"]
    assert all(each.reason and "programs.py" in each.line for each in refuted)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_kernels_are_proved(name):
    """All but those whose indices depend on data; docs/verification.md has the same."""
    kernel, args = calls.large(name)
    found = verify(kernel, *args)
    assert found.verdict == ("not decided" if name in BY_INDEX else "proved"), str(found)
    assert f"| `{name}` | {found.verdict} |" in page.FILE.read_text()


@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_what_is_proved_is_counted_too(name):
    """Proofs are for all sizes: with those of each example, counting comes to the same."""
    kernel, args, kwargs = taken(RIGHT if name in RIGHT else WRONG, name)
    found = verified(name)
    proved = {(each.parameter, each.claim) for each in found.findings if each.verdict == "proved"}
    checked = 0
    for case in [args] if args else examples(kernel.definition):
        each = subject(kernel, case, kwargs, machine.H200)
        for parameter in each.shapes:
            stores, loads = (each.sites(parameter, are_stores) for are_stores in (True, False))
            for sites in filter(None, (stores, loads)):
                counts = count(sites, each.space(parameter), each.sizes(parameter), each.values)
                if counts is not None and (parameter, claims.INSIDE) in proved:
                    assert counts.outside is None
                    checked += 1
                if counts is not None and sites is loads:
                    check_readers(parameter, each, counts.programs)
                if counts is not None and sites is stores:
                    assert (parameter, claims.ONCE) not in proved or counts.programs.max() <= 1
                    assert (parameter, claims.EVERYWHERE) not in proved or counts.programs.min() >= 1
        for number, axis in enumerate(each.footprints.space.axes):
            if notes.is_independent(axis, each):
                for parameter in each.shapes:
                    sites = [*each.sites(parameter, True), *each.sites(parameter, False)]
                    counts = notes.counted(parameter, each, sites) if each.sites(parameter, True) else None
                    assert counts is None or counts.apart[number]
    assert checked or not proved


def check_readers(parameter, subject, programs):
    """What is proved of how often elements are read is what is counted."""
    found = notes.readers(parameter, subject)
    if found is not None and programs.size:
        number = found[0].evaluate(subject.values)
        assert programs.max() <= number and (programs.min() == number or not found[1])


@pytest.mark.parametrize("name", WRONG)
def test_elements_that_are_missing_stay_as_they_were(name):
    """What is said to be stored nowhere is left alone by a run."""
    kernel, _, kwargs = taken(WRONG, name)
    missing = [each for each in verified(name).findings if each.reason.startswith("no program stores")]
    for finding in missing:
        parameter, index = re.match(r"no program stores to (\w+)\[(.*?)\]", finding.reason).groups()
        shapes = re.findall(r"(\w+) of (\(.*?\))", finding.reason)
        tensors = {name: torch.full(eval(shape), float("nan")) for name, shape in shapes}
        element = tuple(map(int, index.split(", ")))
        for other in tensors.keys() - {parameter}:
            tensors[other].fill_(1)
        try:
            kernel(*(tensors[each.name] for each in kernel.definition.parameters), **kwargs)
        except ninetoothed.RaceError:
            continue  # it is refused for another fault
        assert tensors[parameter][element].isnan()


def lap(x, y):
    return x.tile((32,), strides=(16,)), y.tile((32,), strides=(16,))


def test_the_table():
    found = verify(made(lap, double, 1, 1), (100,), (100,))
    text = re.sub(r"\S*/(\w+\.py)", r"\1", str(found))
    text = re.sub(r"test_verification.py:\d+", "test_verification.py:N", text)
    assert_expected_inline(
        text,
        """\
kernel double: refuted, for all sizes of its class
    x: nothing is touched out of bounds                proved
    y: nothing is touched out of bounds                proved
    y: no element is written by two programs or lanes  refuted
        program (0), lane (16) and program (1), lane (0) both store to y[16], with x of (100,) and y of (100,)
        by `tile`: test_verification.py:N: return x.tile((32,), strides=(16,)), y.tile((32,), strides=(16,))
    y: every element is written                        not decided
        no proof was found for [lane_0_32 + 16 * program_0], and no example against it
        programs.py:14: y = 2 * x
    each element of x is read by 1 to 2 programs of a call with x of (100,)
    dimension 0 of the grid is not independent: programs apart in it meet in y, with x of (100,) and y of (100,)""",
    )


def test_stores_of_one_number_by_two_programs_are_told():
    """They are no race, and not what "once" means."""

    def ones(x, y):
        y = ntl.zeros(y.shape, dtype=ntl.float32) + 1

    found = verify(made(lap, ones, 1, 1), (112,), (112,))
    assert [each.claim for each in found.findings if each.verdict == "refuted"] == [claims.ONCE]


def test_lanes_of_one_program_meet():
    def pairs(x, y):
        y.source[x.offsets(0) // 2] = x

    once = next(
        each for each in verify(made(tiles(32), pairs, 1, 1), (64,), (64,)).findings if each.claim == claims.ONCE
    )
    assert once.verdict == "refuted" and re.match(
        r"program \(0\), lane \(\d\) and program \(0\), lane \(\d\)", once.reason
    )


def test_conditions_are_not_decided():
    def positive(x, y):
        if ntl.sum(x) > 0:
            y = x

    found = verify(made(tiles(32), positive, 1, 1))
    assert found.verdict == "not decided" and not found
    assert "a condition that a run decides" in str(found) and "y = x" in str(found)


def test_atomic_functions_are_not_followed():
    def added(x, y):
        ntl.atomic_add(y, x)

    assert verify(made(tiles(32), added, 1, 1)).verdict == "not decided"


def test_independent_dimensions():
    def lines(x, y):
        return tuple(t.tile((4, 32), strides=(4, 16)) for t in (x, y))

    assert "dimensions 0 and 1 of the grid are independent" in str(verify(made(tiles(4, 32), double, 2, 2)))
    found = str(verify(made(lines, double, 2, 2)))
    assert "dimension 0 of the grid is independent" in found
    assert "dimension 1 of the grid is not independent: programs apart in it meet in y, with x of (131, 131)" in found


def test_how_often_elements_are_read():
    def arrangement(x, b, y):
        return x.tile((8,)), b.tile((-1,)).expand((x.tile((8,)).shape[0],)), y.tile((8,))

    def weighted(x, b, y):
        y = x * ntl.sum(b)

    found = str(verify(made(arrangement, weighted, 1, 1, 1), (64,), (5,), (64,)))
    assert "each element of x is read by 1 program, whatever the sizes\n" in found
    assert re.search(r"each element of b is read by \(.*_size_0 \+ 7\) // 8 programs, whatever the sizes", found)


def test_pointers():
    """Their places are distances from the first element."""

    def copied(x, y):
        i = x.offsets(0)
        ntl.store(y.source.data_ptr() + i, x, mask=i < y.source.shape[0])

    def unmasked(x, y):
        ntl.store(y.source.data_ptr() + x.offsets(0), x)

    assert verify(made(tiles(32), copied, 1, 1)), str(verify(made(tiles(32), copied, 1, 1)))
    found = verify(made(tiles(32), unmasked, 1, 1))
    refuted = [(each.claim, each.reason) for each in found.findings if each.verdict == "refuted"]
    assert refuted == [
        (claims.INSIDE, "program (4), lane (3) stores to y[131], with x of (131,) and y of (131,)"),
    ]
    plane = made(lambda x, y: (x.tile((32,)), y.tile((-1, -1)).expand((x.tile((32,)).shape[0], -1))), copied, 1, 2)
    assert verify(plane, (6,), (3, 4)).verdict != "proved"


def test_parameters_that_share_memory():
    def shifted(x, y):
        y = x.source[x.offsets(0) + 1]

    x = torch.zeros(100)
    found = verify(made(tiles(32), shifted, 1, 1), x, x)
    assert [each.claim for each in found.findings if each.verdict == "refuted"] == [
        "no program touches what another stores to x, which shares its memory"
    ]
    assert "program (1), lane (0) stores to y[32], and program (0), lane (31) reads x[32]" in str(found)
    assert verify(made(tiles(32), double, 1, 1), x, x) and verify(made(tiles(32), shifted, 1, 1), x, x.clone())
    late = verify(made(tiles(32), double, 1, 1), x[:-1], x[1:])
    assert "program (1), lane (0) stores to" not in str(late) and late.verdict == "refuted"
    assert "program (0), lane (31) stores to y[31], and program (1), lane (0) reads x[32]" in str(late)
    halves = torch.zeros(8, 20)
    assert verify(made(tiles(4, 8), double, 2, 2), halves[:, :10], halves[:, 10:])


def test_an_example_is_run(monkeypatch):
    """What is counted and no run shows is not called refuted."""
    kernel = made(lap, double, 1, 1)
    each = subject(kernel, [(100,), (100,)], {}, machine.H200)

    def of(element):
        return witness.Counterexample("", tuple(witness.Seen("y", program, True, element) for program in ((0,), (1,))))

    assert witness.is_shown(each, of((16,))) and witness.is_shown(each, of(None))
    assert not witness.is_shown(each, of((15,)))
    assert not witness.is_shown(each, witness.Counterexample("", missing=("y", (16,))))
    monkeypatch.setattr(claims, "is_shown", lambda *_: False)
    found = verify(kernel, (100,), (100,))
    assert found.verdict == "not decided" and "so it is counted, but no run showed it" in str(found)


def test_made_and_verified():
    options = {"verify": True}
    assert ninetoothed.make(tiles(64), double, (Tensor(1), Tensor(1)), **options)
    with pytest.raises(
        VerificationError, match=r"kernel double: refuted(.|\n)*by `tile`: .*test_verification.py"
    ) as error:
        ninetoothed.make(lap, double, (Tensor(1), Tensor(1)), **options)
    assert error.value.verification.verdict == "refuted"

    def positive(x, y):
        if ntl.sum(x) > 0:
            y = x

    with pytest.warns(VerificationWarning, match="kernel positive: not decided"):
        ninetoothed.make(tiles(32), positive, (Tensor(1), Tensor(1)), **options)


def test_what_cannot_be_verified_is_an_error():
    with pytest.raises(ninetoothed.ArgumentTypeError, match="takes a kernel that `make` or `jit` has made"):
        verify(double)
    kernel = made(tiles(32), double, 1, 1)
    with pytest.raises(ninetoothed.ArgumentTypeError, match=r"takes 2 arguments"):
        verify(kernel, (100,))
    with pytest.raises(ninetoothed.SizeError, match="sizes 100 .* and 90"):
        verify(kernel, (100,), (90,))

    def scaled(x, alpha, y):
        y = alpha * x

    arrangement = lambda x, alpha, y: (x.tile((32,)), alpha, y.tile((32,)))  # noqa: E731
    kernel = made(arrangement, scaled, 1, Tensor(0, constexpr=True), 1)
    with pytest.raises(ninetoothed.ArgumentError, match=r"`alpha` .* give `verify` the arguments of a call"):
        verify(kernel)
    assert verify(kernel, (100,), 2.0, (100,))


def test_a_gpu_is_not_needed_and_nothing_runs():
    x = torch.zeros(100)
    assert verify(made(tiles(32), increment, 1), x)
    assert not x.any()


def test_tensors_and_shapes_alike():
    kernel = made(whole_rows, double, 2, 2)
    x, y = torch.empty(7, 200)[:, ::2], torch.empty(100, 7).T
    assert verify(kernel, x, y) and verify(kernel, (7, 100), y) and verify(kernel, x.shape, y.shape)
    bias = made(lambda *ts: tuple(t.tile((8,)) if t.ndim else t for t in ts), add, 1, 0, 1)
    assert verify(bias, (20,), 1.5, (20,))


def test_steps_that_do_not_partition():
    def last(tensor):
        assert isinstance(tensor.arrangement, Arrangement)
        return partitions(tensor.arrangement.steps[-1])

    kept = (
        lambda x: x.tile((2, 3)), lambda x: x.permute((1, 0)), lambda x: x.flatten(), lambda x: x.unsqueeze(0),
        lambda x: x.tile((2, 3)).ravel(), lambda x: x[:, :], lambda x: x.tile((-1, 3)),
        lambda x: x.pad(((0, 0), (0, 0))),
    )  # fmt: skip
    lost = (
        lambda x: x.tile((2, 3), strides=(2, 4)), lambda x: x.tile((2, 3), dilation=(1, 2)), lambda x: x[1:],
        lambda x: x[::2], lambda x: x[0], lambda x: x.pad(((1, 0), (0, 0))), lambda x: x.tile((2, 3), floor_mode=True),
        lambda x: x[:1].expand((4, -1)),
    )  # fmt: skip
    assert all(last(each(Tensor(2))) for each in kept)
    assert not any(last(each(Tensor(2))) for each in lost)
