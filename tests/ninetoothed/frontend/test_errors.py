"""A user's mistake is told with its kernel, its place, and what to do instead, before anything is written."""

import warnings

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ApplicationError, ArrangementError, Symbol, Tensor, UnsupportedError
from ninetoothed.errors import ArgumentTypeError, EmptyKernelWarning, ExecutionError
from tests.conftest import DEVICE
from tests.ninetoothed.applications import application_of


def elementwise(*tensors):
    return tuple(tensor.tile((32,)) for tensor in tensors)


def tiles_of_tiles(*tensors):
    return tuple(tensor.tile((32,)).tile((-1,)) for tensor in tensors)


def returns_early(x, y):
    y = x
    if ntl.sum(x) > 0:
        return
    y = x + 1


def breaks(x, y):
    for _ in range(3):
        break
    y = x


def calls_torch(x, y):
    y = torch.exp(x)


def changes_a_function_in_a_loop(x, y):
    function = square
    for i in range(8):
        y[i] = function(x[i])
        function = absolute


def square(value):
    return value * value


def recursive(x):
    return recursive(x)


def recurses(x, y):
    y = recursive(x)


def absolute(value):
    if ntl.sum(value) > 0:
        return value
    return -value


def calls_what_returns_early(x, y):
    y = absolute(x)


def stored(target, value):
    target = value
    return value


def stores_where_a_tile_is_positive(x, y):
    stored(y, x) if x > 0 else x


def stores_and_chooses_truth_values(x, y):
    z = x > 0 and stored(y, x)


@pytest.mark.parametrize(
    "application, message, line",
    (
        (returns_early, "decided at run time", "return"),
        (breaks, "`break`", "break"),
        (calls_torch, "'exp' is not a function of the language .* use `ninetoothed.language.exp`", "torch.exp(x)"),
        (changes_a_function_in_a_loop, "'function' is the function 'square' on one path", "for i in range(8)"),
        (recurses, "cannot recurse", "return recursive(x)"),
        (calls_what_returns_early, r"decided at run time.*`ntl\.where`", "        return value"),
        (stores_where_a_tile_is_positive, "one side of this choice stores.*the condition is a tile", "stored(y, x) if"),
        (stores_and_chooses_truth_values, "one side of this choice stores.*the condition is a tile", "and stored(y"),
    ),
)
def test_mistakes_in_an_application_point_at_the_source(application, message, line):
    kernel = ninetoothed.make(elementwise, application, (Tensor(1), Tensor(1)))
    x, y = torch.randn(100, device=DEVICE), torch.full((100,), 77.0, device=DEVICE)
    with pytest.raises(ApplicationError, match=message) as caught:
        kernel(x, y)
    error = caught.value
    assert error.filename == __file__ and application.__name__ in str(error) and line in error.text
    assert error.text.strip() in open(__file__).read().splitlines()[error.lineno - 1]
    assert bool((y == 77).all()), "nothing may be written before an error"


def test_an_assertion_without_a_message_shows_its_text():
    def application(x, y):
        assert ntl.sum(x) > 1e9
        y = x

    kernel = ninetoothed.make(elementwise, application, (Tensor(1), Tensor(1)))
    with pytest.raises(ExecutionError, match=r"ntl\.sum\(x\) > "):
        kernel(torch.zeros(32), torch.zeros(32))


def test_a_step_of_zero():
    def application(step, y):
        for i in range(0, 8, step):
            y[i] = 1.0

    kernel = ninetoothed.make(lambda step, y: (step, y.tile((8,))), application, (Tensor(0), Tensor(1)))
    with pytest.raises(ExecutionError, match=r"test_errors.py:\d+\): the step of `range` must not be zero"):
        kernel(0, torch.zeros(8))


def test_what_is_assigned_to_a_number_would_be_lost():
    def application(x, total):
        total = ntl.sum(x)

    kernel = ninetoothed.make(lambda x, total: (x.tile((-1,)), total), application, (Tensor(1), Tensor(0)))
    x, total = torch.ones(8, device=DEVICE), torch.zeros((), device=DEVICE)
    kernel(x, total)
    assert total.item() == 8
    with pytest.raises(ApplicationError, match="assigned to 'total' would be lost: .* pass a 0-d tensor"):
        kernel(x, 0.0)


@pytest.mark.parametrize(
    "other, dtype, kind",
    (
        (2**40, torch.int32, "int32"),
        (0.5, torch.int32, "int32"),
        (float("nan"), torch.int64, "int64"),
        (-1, torch.uint8, "uint8"),
        (2, torch.bool, "int1"),
    ),
)
def test_an_other_that_the_elements_cannot_have(other, dtype, kind):
    def application(x, y):
        y = x

    kernel = ninetoothed.make(elementwise, application, (Tensor(1, other=other), Tensor(1)))
    x, y = torch.ones(8, device=DEVICE, dtype=dtype), torch.zeros(8, device=DEVICE, dtype=dtype)
    with pytest.raises(ninetoothed.ArgumentError, match=rf"'x' has other={other}, which is no {kind}; give a whole"):
        kernel(x, y)
    assert not y.any()


def test_a_number_that_an_element_cannot_have():
    def application(x):
        x = 1000

    kernel = ninetoothed.make(lambda x: x.tile((8,)), application, (Tensor(1),))
    with pytest.raises(ApplicationError, match="cannot store 1000 to 'x', whose elements are int8"):
        kernel(torch.zeros(8, dtype=torch.int8, device=DEVICE))


def test_a_tile_of_tiles_must_be_indexed():
    def application(x, y):
        y[0] = x

    kernel = ninetoothed.make(tiles_of_tiles, application, (Tensor(1), Tensor(1)))
    with pytest.raises(ApplicationError, match="'x' is a tile of tiles here .* index it"):
        kernel(torch.randn(64, device=DEVICE), torch.empty(64, device=DEVICE))


@pytest.mark.parametrize("dtype", (torch.uint8, torch.int16, torch.int32, torch.int64))
def test_products_of_integers_that_no_gpu_multiplies(dtype):
    def application(x, y):
        y = ntl.dot(x, x)

    kernel = ninetoothed.make(lambda x, y: (x.tile((32, 32)), y.tile((32, 32))), application, (Tensor(2), Tensor(2)))
    x, y = torch.ones(32, 32, device=DEVICE, dtype=dtype), torch.zeros(32, 32, device=DEVICE)
    with pytest.raises(ApplicationError, match=r"or of int8 into int32, not of .* convert them"):
        kernel(x, y)
    assert not y.any()


@pytest.mark.parametrize(
    "name, said",
    (
        ("expp", "did you mean exp"),
        ("zzzzzz", r"`dir\(ninetoothed.language\)` lists what it has"),
        ("relu", r"write `ntl.where\(x < 0, 0, x\)`"),
        ("log1p", r"write `ntl.libdevice.log1p`"),
    ),
)
def test_names_that_the_language_has_not(name, said):
    with pytest.raises(AttributeError, match=f"has no '{name}'; {said}"):
        getattr(ntl, name)


def stores_elsewhere(x, y):
    yy = x + 1


def returns(x, y):
    return x + 1


@pytest.mark.parametrize(
    "application, hint", ((stores_elsewhere, "did you mean 'y'"), (returns, "one of its parameters"))
)
def test_a_kernel_that_would_do_nothing(application, hint):
    with pytest.warns(EmptyKernelWarning, match="stores nothing"):
        kernel = ninetoothed.make(elementwise, application, (Tensor(1), Tensor(1)))
    x, y = torch.ones(8, device=DEVICE), torch.ones(8, device=DEVICE)
    with pytest.warns(EmptyKernelWarning, match=f"(?s)stores nothing.*{hint}.*def {application.__name__}") as warned:
        kernel(x, y)
    assert warned[0].filename == __file__ and torch.equal(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(x, y)


def test_a_branch_that_is_known_not_to_be_taken():
    def application(x, flag, y):
        if flag:
            y = x

    kernel = ninetoothed.make(
        lambda x, flag, y: (x.tile((32,)), flag, y.tile((32,))),
        application,
        (Tensor(1), Tensor(0, constexpr=True), Tensor(1)),
    )
    x, y = torch.ones(8, device=DEVICE), torch.zeros(8, device=DEVICE)
    kernel(x, False, y)
    assert not y.any()


def test_what_is_tuned_is_a_kernel():
    with pytest.raises(ArgumentTypeError, match="takes a kernel that .* got .*; operators are tuned"):
        ninetoothed.tune(torch.mm, torch.ones(2, 2), torch.ones(2, 2))


@pytest.mark.parametrize(
    "body, dtype, said",
    (
        (
            "ntl.atomic_add(y.source.data_ptr(), 1)",
            torch.int8,
            "`atomic_add` takes integers of 32 and 64 bits and floats, not int8; give it a tensor of such a type",
        ),
        ("ntl.atomic_add(y.source.data_ptr(), 1)", torch.int16, "`atomic_add` takes"),
        (
            "ntl.atomic_or(y.source.data_ptr(), 1)",
            torch.float32,
            "`atomic_or` takes integers of 32 and 64 bits, not float32",
        ),
        (
            "ntl.atomic_max(y.source.data_ptr(), 1)",
            torch.float16,
            "`atomic_max` takes integers of 32 and 64 bits, float32 and float64, not float16; give it a tensor",
        ),
        ("y = ntl.xor_sum(x)", torch.float32, "`xor_sum` takes integers, not float32"),
        ("y = ntl.umulhi(x, x)", torch.int16, "`umulhi` takes integers of 32 and 64 bits, not int16"),
        ("y = ntl.umulhi(x, x)", torch.float32, "`umulhi` takes integers of 32 and 64 bits, not float32"),
        (
            "y = ntl.histogram(x, 8)",
            torch.float32,
            r"`histogram` takes integers and bools, not float32; convert it with `.to\(ntl.int32\)`",
        ),
        ("y = ntl.rand(x, x)", torch.int32, "`rand` takes seed: scalar integer, .* is given a tile for a scalar"),
    ),
)
def test_what_no_gpu_does(body, dtype, said):
    kernel = ninetoothed.make(elementwise, application_of(body), (Tensor(1), Tensor(1)))
    with pytest.raises(ApplicationError, match=said):
        kernel(torch.ones(8, device=DEVICE, dtype=dtype), torch.ones(8, device=DEVICE, dtype=dtype))


def test_the_number_of_parameters():
    def application(x, y, z):
        z = x + y

    with pytest.raises(ArrangementError, match=r"'application' takes 3 parameters \(x, y, z\), and .* gives 2 tensors"):
        ninetoothed.make(elementwise, application, (Tensor(1), Tensor(1)))


def test_symbols_without_a_value():
    def arrangement(x, y):
        size = ninetoothed.Symbol("SIZE")
        return x.tile((size,)), y.tile((size,))

    def application(x, y):
        y = x

    with pytest.raises(ArrangementError, match="uses 'SIZE'.*constexpr=True nor meta=True"):
        ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))


@pytest.mark.parametrize("option", ({"constexpr": True}, {"meta": True}))
def test_a_symbol_named_as_a_parameter(option):
    def application(x, SIZE, y):
        y = x * SIZE

    def arrangement(x, factor, y):
        return x.tile((Symbol("SIZE", **option),)), factor, y.tile((Symbol("SIZE", **option),))

    with pytest.raises(ArrangementError, match="'SIZE' is a parameter .* a symbol in .* 'x'; give one .* another name"):
        ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0, constexpr=True), Tensor(1)))


def test_outermost_shapes_known_to_disagree():
    def application(x, y):
        y = x

    with pytest.raises(ArrangementError, match=r"'x' has \(2,\) and 'y' has \(4,\)"):
        ninetoothed.make(
            lambda x, y: (x.tile((4,)), y.tile((2,))), application, (Tensor(shape=(8,)), Tensor(shape=(8,)))
        )


@pytest.mark.parametrize("name", ("for", "tl", "a b", ""))
def test_names_that_no_kernel_can_have(name):
    with pytest.raises(ArrangementError, match="cannot be named"):
        ninetoothed.make(elementwise, calls_torch, (Tensor(1), Tensor(1)), kernel_name=name)


@pytest.mark.parametrize("option", ({"num_warps": ()}, {"num_stages": True}, {"num_warps": "4"}))
def test_options_that_are_no_choice(option):
    with pytest.raises(ArrangementError, match="is no choice"):
        ninetoothed.make(elementwise, calls_torch, (Tensor(1), Tensor(1)), **option)


@pytest.mark.parametrize("size", (0, -1))
def test_tiles_without_elements(size):
    block = ninetoothed.Symbol("BLOCK", constexpr=True)

    def application(x, y):
        y = x

    kernel = ninetoothed.make(lambda x, y: (x.tile((block,)), y.tile((block,))), application, (Tensor(1), Tensor(1)))
    with pytest.raises(ninetoothed.ArgumentError, match=f"`BLOCK` is the size of a tile, and the call gives {size}"):
        kernel(torch.randn(8, device=DEVICE), torch.empty(8, device=DEVICE), BLOCK=size)


def test_squeezing_more_than_one_element():
    def application(x, y):
        y = x

    kernel = ninetoothed.make(
        lambda x, y: (x.tile((8,)).squeeze(0), y.tile((8,)).squeeze(0)), application, (Tensor(1), Tensor(1))
    )
    y = torch.full((8,), 7.0, device=DEVICE)
    kernel(torch.ones(8, device=DEVICE), y)
    assert bool((y == 1).all())
    with pytest.raises(ninetoothed.ArgumentError, match="`x` is squeezed along a dimension .* which is 2"):
        kernel(torch.ones(16, device=DEVICE), torch.zeros(16, device=DEVICE))


def copies(x, y):
    y = x


def test_expanding_more_than_one_element():
    kernel = ninetoothed.make(
        lambda x, y: (x.expand((y.shape[0],)).tile((4,)), y.tile((4,))), copies, (Tensor(1), Tensor(1))
    )
    x, y = torch.arange(5.0, device=DEVICE), torch.full((4,), 7.0, device=DEVICE)
    for count, expected in ((1, [0, 0, 0, 0]), (4, [0, 1, 2, 3])):
        kernel(x[:count], y)
        assert y.tolist() == expected
    for count in (3, 5):
        with pytest.raises(ninetoothed.ArgumentError, match=f"`x` is expanded to y_size_0, which is 4 .* is {count} "):
            kernel(x[:count], y)


@pytest.mark.parametrize("kind", ("stride", "dilation"))
@pytest.mark.parametrize("size", (Symbol("S", constexpr=True), Symbol("S", constexpr=True) // 2 * 2))
def test_strides_and_dilations_are_positive(kind, size):
    def tiled(tensor):
        return tensor.tile((4,), (size,)) if kind == "stride" else tensor.tile((4,), None, (size,))

    kernel = ninetoothed.make(lambda x, y: (tiled(x), tiled(y)), copies, (Tensor(1), Tensor(1)))
    x = torch.arange(4.0, device=DEVICE)
    for number in (0, -2):
        with pytest.raises(ninetoothed.ArgumentError, match=f"`x` is cut into tiles with a {kind} of S.* is {number} "):
            kernel(x, torch.empty_like(x), S=number)
    y = torch.zeros_like(x)
    kernel(x, y, S=2)
    assert y[::2].tolist() == [0, 2]


@pytest.mark.parametrize("count", (0, -1, 2.5, True))
def test_a_number_of_configurations(count):
    with pytest.raises(ArrangementError, match="max_num_configs=.* is no number of configurations"):
        ninetoothed.make(elementwise, calls_torch, (Tensor(1), Tensor(1)), max_num_configs=count)


def test_parameters_of_jit_are_annotated_with_tensors():
    def plain(x: Tensor(1).tile((4,)), y):
        y = x

    def typed(x: Tensor(1).tile((4,)), y: int):
        y = x

    for function, what in ((plain, "not annotated"), (typed, "annotated with `int`")):
        place = f"at {__file__}:{function.__code__.co_firstlineno}"
        with pytest.raises(ArrangementError, match=f"'y' is {what}; annotate it with an arranged .*\n.*{place}"):
            ninetoothed.jit(function)


def test_annotations_that_are_text_see_no_local_variables():
    block = 4

    def application(x: "Tensor(1).tile((block,))"):
        pass

    with pytest.raises(
        ArrangementError, match="parameter 'x' cannot be read: name 'block' .* make the variable global"
    ):
        ninetoothed.jit(application)


def test_a_whole_dimension_where_a_power_of_two_is_needed():
    def application(x, y):
        y = ntl.flip(x)

    kernel = ninetoothed.make(lambda x, y: (x.tile((-1,)), y.tile((-1,))), application, (Tensor(1), Tensor(1)))
    with pytest.raises(ApplicationError, match=r"`flip` needs .* not shape \(x_size_0,\); .*shape_options="):
        kernel(torch.ones(8, device=DEVICE), torch.ones(8, device=DEVICE))


def takes_a_keyword(x, y, *, z):
    y = x * z


@pytest.mark.parametrize(
    "arrangement, application, tensors, message",
    (
        (3, breaks, (Tensor(1),), "the arrangement is 3; give a function"),
        (elementwise, breaks, Tensor(1), "`tensors` is one tensor; give a function, and a tuple"),
        (elementwise, breaks, 2, "`tensors` is 2; give a function, and a tuple"),
        (elementwise, breaks, (torch.ones(3),) * 2, r"'x' is arranged to a torch.Tensor; .* symbolic tensors, such as"),
        (lambda x, y: None, breaks, (Tensor(1), Tensor(1)), "returns None"),
        (elementwise, 3, (Tensor(1), Tensor(1)), "the application is 3; give a function written in Python"),
        (elementwise, max, (Tensor(1), Tensor(1)), "give a function written in Python"),
        (elementwise, takes_a_keyword, (Tensor(1), Tensor(1)), "takes 'z' by keyword alone"),
    ),
)
def test_what_makes_no_kernel(arrangement, application, tensors, message):
    with pytest.raises(ArrangementError, match=message):
        ninetoothed.make(arrangement, application, tensors)


def test_a_kernel_takes_no_grid():
    kernel = ninetoothed.make(elementwise, breaks, (Tensor(1), Tensor(1)))
    with pytest.raises(ninetoothed.ArgumentError, match=r"takes no grid: .* `breaks\(x, y\)`"):
        kernel[(1,)](1, 2)


def test_an_arrangement_that_returns_no_tensors():
    def application(x):
        pass

    with pytest.raises(
        ArrangementError, match="'x' is arranged to the number .*: let the application read sizes off them"
    ):
        ninetoothed.make(lambda x: 3, application, (Tensor(1),))


def test_what_comes_later_says_so():
    def application(x):
        pass

    with pytest.raises(UnsupportedError, match="ahead of time"):
        ninetoothed.make(lambda x: x.tile((1,)), application, (Tensor(1),), output_dir="somewhere")


def test_language_functions_outside_an_application():
    with pytest.raises(ApplicationError, match="`ninetoothed.language.exp` works on tiles"):
        ntl.exp(1.0)
    with pytest.raises(AttributeError, match="has no 'no_such_function'"):
        ntl.no_such_function


def test_source_that_python_did_not_keep():
    namespace = {}
    exec("def application(x, y):\n    y = x\n", namespace)
    with pytest.raises(ApplicationError, match="cannot be read"):
        ninetoothed.make(elementwise, namespace["application"], (Tensor(1), Tensor(1)))
