"""`make`, `jit` and `Kernel`: their examples, what they find without a call, and where their errors' tracebacks end."""

import doctest
import pathlib
import pickle
import sys
import traceback

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ApplicationError, ArrangementError, ArrangementTypeError, EmptyKernelWarning, Tensor

PACKAGE = str(pathlib.Path(ninetoothed.__file__).parent)
MISSPELT = "ninetoothed.language has no 'expp'"


def tiled(*tensors):
    return tuple(tensor.tile((4,)) for tensor in tensors)


def copy(x, y):
    y = x


def make(application, arrangement=tiled, count=2):
    return ninetoothed.make(arrangement, application, tuple(Tensor(1) for _ in range(count)))


def test_examples_run():
    # As if the examples were a user's module: the compiler takes no functions of its own for applications.
    found = doctest.testmod(sys.modules["ninetoothed.make"], extraglobs={"__name__": "examples"})
    assert found.attempted > 10 and not found.failed


# -- the arguments of `make` --


def test_a_real_tensor_in_the_place_of_the_tensors():
    with pytest.raises(ArrangementError, match="`tensors` is one tensor; give a function, and a tuple"):
        ninetoothed.make(tiled, copy, torch.zeros(3))


def test_a_real_tensor_among_the_tensors():
    def arrangement(x, y):
        return x.tile((4,)), y.tile((4,), strides=(1,))

    with pytest.raises(ArrangementError, match=r"'arrangement' fails: .*; `tensors\[1\]` is a torch.Tensor: give symb"):
        ninetoothed.make(arrangement, copy, (Tensor(1), torch.zeros(3)))


@pytest.mark.parametrize("count", (1, 3))
def test_as_many_tensors_as_the_arrangement_takes(count):
    with pytest.raises(ArrangementError, match=rf"'<lambda>' takes \(x, y\), and `tensors` has {count}: "):
        make(copy, lambda x, y: (x, y), count)


def test_a_mistake_inside_the_arrangement_names_its_line():
    def arrangement(x, y):
        return len(3), y

    with pytest.raises(ArrangementTypeError, match=r"(?s)object of type 'int' has no len.*; .*at .*len\(3\), y"):
        make(copy, arrangement)


def test_what_an_arrangement_raises_itself_stays_its_own():
    def raises(x, y):
        raise LookupError("no such tile")

    def asserts(x, y):
        assert x is y, "two tensors"

    for arrangement, kind in ((raises, LookupError), (asserts, AssertionError)):
        with pytest.raises(kind) as caught:
            make(copy, arrangement)
        assert type(caught.value) is kind


def test_exchanged():
    def application(x, y):
        y = ntl_like(x)

    def ntl_like(x):
        return x

    with pytest.raises(ArrangementError, match="'application' returns no tensors.* 'tiled' does: .* exchanged"):
        make(tiled, application)


def test_one_tensor_for_several_parameters():
    kernel = ninetoothed.make(tiled, copy, (Tensor(1),) * 2)
    x, y = torch.arange(6), torch.zeros(6, dtype=torch.int64)
    kernel(x, y)
    assert torch.equal(x, y)
    both = "and one Tensor stands for `x` and `y`; make a Tensor of its own for each parameter"
    with pytest.raises(ninetoothed.ArgumentError, match=f"`y` has stride 2 where `x` has 1, {both}"):
        kernel(x, torch.zeros(12, dtype=torch.int64)[::2])
    with pytest.raises(ninetoothed.ArgumentError, match=f"`y` has size 7 in dimension 0 where `x` has 6, {both}"):
        kernel(x, torch.zeros(7, dtype=torch.int64))


# -- the text of the application --


def misspelt(x, y):
    y = ntl.exp(ntl.expp(x))


def misspelt_in_a_branch(x, y, flag: ntl.constexpr = False):
    if flag:
        y = ntl.expp(x)
    else:
        y = x


def misspelt_after_a_return(x, y, flag: ntl.constexpr = True):
    y = x
    if flag:
        return
    y = ntl.expp(x)


def test_a_name_that_every_call_would_read():
    with pytest.raises(ApplicationError, match=MISSPELT) as error:
        make(misspelt)
    assert error.value.text.strip() == "y = ntl.exp(ntl.expp(x))" and error.value.filename == __file__
    with pytest.raises(ApplicationError, match=MISSPELT):
        make(lambda x, y: ninetoothed.language.expp(x))


@pytest.mark.parametrize("application", (misspelt_in_a_branch, misspelt_after_a_return))
def test_a_name_that_a_call_may_never_read(application):
    x, y = torch.ones(4), torch.zeros(4)
    make(application)(x, y)
    assert torch.equal(x, y)


def test_a_local_name_is_not_the_language():
    def application(x, y):
        ntl = x
        y = ntl.offsets(0)

    make(application)


def reduces(x, y):
    total = ntl.sum(ntl.exp(x) * 2)


def stores_through_a_name(x, y):
    z = y
    z[0] = 1


def stores_in_a_helper(x, y):
    copy(x, y)


def stores_by_an_atomic(x, y):
    ntl.atomic_add(y.data_ptr(), 1.0)


def test_an_application_that_stores_nothing():
    with pytest.warns(EmptyKernelWarning, match=r"'reduces': the application stores nothing.*\(x, y\)"):
        make(reduces)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("application", (copy, stores_through_a_name, stores_in_a_helper, stores_by_an_atomic))
def test_an_application_that_may_store(application):
    make(application)


# -- tracebacks --


def frames(error):
    """The files of an error's traceback, outermost first, and how many of them are the package's."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return files, sum(file.startswith(PACKAGE) for file in files)


def helper(x):
    return x + x.nothing


def uses_a_helper(x, y):
    y = helper(x)


@pytest.mark.parametrize(
    "run",
    (
        lambda: make(uses_a_helper)(torch.ones(4), torch.ones(4)),
        lambda: make(copy)(torch.ones(4)),
        lambda: make(copy).source(torch.ones(4)),
        lambda: make(copy, lambda x, y: (x.tile((4, 4)), y)),
        lambda: ninetoothed.jit(copy),
        lambda: ninetoothed.tune(copy),
    ),
)
def test_tracebacks_are_short(run, monkeypatch):
    monkeypatch.delenv("NINETOOTHED_TRACEBACK", raising=False)
    with pytest.raises(ninetoothed.NineToothedError) as caught:
        run()
    files, ours = frames(caught.value)
    assert ours == 1 and files[0] == __file__ and len(files) < 6


def test_the_user_s_line_ends_the_traceback():
    with pytest.raises(ApplicationError) as caught:
        make(uses_a_helper)(torch.ones(4), torch.ones(4))
    text = "".join(traceback.format_exception(caught.value))
    assert "return x + x.nothing" in text and text.count("File ") < 6


def test_a_full_traceback_where_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("NINETOOTHED_TRACEBACK", "full")
    with pytest.raises(ApplicationError) as caught:
        make(uses_a_helper)(torch.ones(4), torch.ones(4))
    assert frames(caught.value)[1] > 10


def test_mistakes_of_ours_keep_their_traceback(monkeypatch):
    def fail(*args):
        raise AssertionError

    monkeypatch.setattr("ninetoothed.frontend.trace", fail)
    with pytest.raises(AssertionError) as caught:
        make(copy)(torch.ones(4), torch.ones(4))
    assert frames(caught.value)[1] > 3


# -- source --


def test_source_is_a_string():
    source = make(copy).source(torch.ones(4), torch.ones(4), gpu="h100")
    assert isinstance(source, str) and source.splitlines()[0].startswith("#") and source.endswith(source.text)
    assert str(source) == source == repr(source) and source.gpu.name == "H100"
    again = pickle.loads(pickle.dumps(source))
    assert again == source and again.configuration == source.configuration


def test_jit_by_the_names_of_the_original():
    def double(x: Tensor(1).tile((4,)), y: Tensor(1).tile((4,))):
        y = 2 * x

    for kernel in (ninetoothed.jit(func=double), ninetoothed.jit(_prettify=True)(double), ninetoothed.jit()(double)):
        y = torch.empty(5)
        kernel(torch.arange(5.0), y)
        assert y.tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(ArrangementError, match="`jit` is given 3"):
        ninetoothed.jit(func=3)


def test_the_truth_of_a_condition_takes_no_branch():
    def arrangement(x, y):
        return (x.tile((4,)) if x.shape[0] < 5 else x.tile((8,))), y.tile((4,))

    with pytest.raises(ArrangementTypeError, match="`x_size_0 < 5` has no value before a call, so it is neither true"):
        make(copy, arrangement)
