"""Programs before and after a pass number the values that the pass keeps alike."""

from ninetoothed.passes.numbering import numbered_as

HEADER = ["program f(", "    x: f16[v_1],", ")", ""]
BEFORE = [*HEADER, "x_1: f32 = load x[v_1]", "v: f32 = exp(x_1)", "# v = v_1", "v_2: f32 = sum(v)", "store x[0] = v_2"]


def numbered(*lines):
    return numbered_as(BEFORE, [*HEADER, *lines])[len(HEADER) :]


def test_a_value_before_others():
    after = "x_1: f32 = load x[v_1]", "v: f32 = mul(x_1, x_1)", "v_2: f32 = exp(v)", "v_3: f32 = sum(v_2)"
    assert numbered(*after)[1:] == ["v_4: f32 = mul(x_1, x_1)", "v: f32 = exp(v_4)", "v_2: f32 = sum(v)"]


def test_a_value_less():
    after = "x_1: f32 = load x[v_1]", "v: f32 = sum(x_1)", "store x[0] = v"
    assert numbered(*after) == ["x_1: f32 = load x[v_1]", "v_2: f32 = sum(x_1)", "store x[0] = v_2"]


def test_names_stay_apart():
    after = "x_1: f32 = load x[v_1]", "v_2: f32 = neg(x_1)", "v: f32 = exp(x_1)", "v_3: f32 = sum(v)"
    assert numbered(*after) == [
        "x_1: f32 = load x[v_1]",
        "v_4: f32 = neg(x_1)",
        "v: f32 = exp(x_1)",
        "v_2: f32 = sum(v)",
    ]


def test_parameters_sizes_and_comments_are_left():
    assert numbered("# v = v_1", "v: f32 = add(v_1, x)")[0] == "# v = v_1"
    assert "v_1" in numbered("v: f32 = add(v_1, x)")[0]


def test_counters_and_results_of_loops():
    before = ["", "for k in range(n) carry (t: f32 = z) -> (t_1):", "    yield t", "store x[0] = t_1"]
    after = ["", "w: f32 = load x[0]", "for k_1 in range(n) carry (t_2: f32 = z) -> (t_3):", "    yield w"]
    expected = ["", "w: f32 = load x[0]", "for k in range(n) carry (t: f32 = z) -> (t_1):", "    yield w"]
    assert numbered_as(before, after) == expected
