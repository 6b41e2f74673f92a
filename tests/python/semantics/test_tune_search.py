"""Rule N3: how a space with grids, domains and functions becomes configurations."""

import math

import pytest

from eagleray.tune.search import sample as tune
from eagleray.tune.search.variant_generator import (
    RecursiveDependencyError,
    count_variants,
    flatten_resolved_vars,
    format_vars,
    generate_variants,
    preset_variants,
)


def configs(space, **options):
    return [spec["config"] for _, spec in generate_variants({"config": space}, **options)]


def test_N3a_a_grid_is_the_product_with_the_first_key_varying_fastest():
    space = {"bar": tune.grid_search([True, False]), "foo": tune.grid_search([1, 2, 3]), "fixed": "f"}
    assert [(each["bar"], each["foo"]) for each in configs(space)] == [
        (True, 1),
        (False, 1),
        (True, 2),
        (False, 2),
        (True, 3),
        (False, 3),
    ]
    assert all(each["fixed"] == "f" for each in configs(space))


def test_N3a_first_is_by_name_and_not_by_position():
    space = {"foo": tune.grid_search([1, 2]), "bar": {"inner": tune.grid_search(["xy"] + ["z"])}}
    assert [each["bar"]["inner"] for each in configs(space)] == ["xy", "z", "xy", "z"]


def test_N3b_samples_repeat_the_grid_and_draw_anew_for_every_combination():
    from eagleray.tune.search.basic_variant import BasicVariantGenerator

    space = {"a": tune.grid_search([1, 2]), "b": tune.uniform(0, 1)}
    searcher = BasicVariantGenerator(random_state=1)
    searcher.set_space(space, num_samples=3)
    drawn = [searcher.next_config() for _ in range(6)]
    assert searcher.total_samples == 6
    assert searcher.next_config() is None
    assert [each.config["a"] for each in drawn] == [1, 2] * 3
    assert len({each.config["b"] for each in drawn}) == 6


def test_N3c_random_values_stay_the_same_over_a_grid_if_told_so():
    space = {"a": tune.grid_search([1, 2, 3]), "b": tune.uniform(0, 1), "c": tune.sample_from(lambda c: c.a + c.b)}
    drawn = configs(space, constant_grid_search=True, random_state=1)
    assert len({each["b"] for each in drawn}) == 1
    assert all(each["c"] == each["a"] + each["b"] for each in drawn)


def test_N3d_functions_see_the_rest_of_the_configuration_whatever_the_order():
    space = {
        "last": tune.sample_from(lambda spec: spec.config.middle * 2),
        "middle": tune.sample_from(lambda config: config["nested"]["first"] + 1),
        "nested": {"first": tune.randint(3, 4)},
        "free": tune.sample_from(lambda: 7),
    }
    assert configs(space) == [{"last": 8, "middle": 4, "nested": {"first": 3}, "free": 7}]


def test_N3d_a_function_of_a_grid_value():
    space = {"a": tune.grid_search([1, 2]), "b": tune.sample_from(lambda spec: spec.config.a * 10)}
    assert [each["b"] for each in configs(space)] == [10, 20]


def test_N3d_a_function_that_fails_is_named():
    with pytest.raises(ValueError, match=r"Failed to evaluate expression: \('config', 'broken'\)") as caught:
        configs({"broken": tune.sample_from(lambda config: config["nowhere"])})
    assert isinstance(caught.value.__cause__, KeyError)


def test_N3e_functions_of_each_other_are_an_error():
    space = {"a": tune.sample_from(lambda spec: spec.config.b), "b": tune.sample_from(lambda spec: spec.config.a)}
    with pytest.raises(RecursiveDependencyError, match="recursively depends on"):
        configs(space)


def test_N3f_expressions_are_evaluated():
    assert configs({"x": {"eval": "2+2"}, "y": {"eval": "spec.config.x * 2"}}) == [{"x": 4, "y": 8}]


def test_N3g_the_tag_names_what_was_chosen():
    space = {"foo": tune.grid_search([1]), "bar": tune.grid_search([True]), "fixed": 3}
    [(chosen, _)] = generate_variants({"config": space})
    assert format_vars(chosen) == "bar=True,foo=1"
    assert flatten_resolved_vars(chosen) == {"foo": 1, "bar": True}


def test_N3g_the_tag_is_fit_for_a_file_name():
    tag = format_vars({("config", "a", "lr"): 0.123456, ("config", "path"): "/tmp/x y", ("config", "n"): None})
    assert tag == "lr=0.1235,n=None,path=tmp_x_y"


def test_N3h_lists_tuples_and_choices_with_spaces_inside_are_resolved():
    space = {
        "layers": [tune.grid_search([8, 16]), (4, tune.randint(1, 2))],
        "model": tune.choice([{"kind": "svm", "c": tune.loguniform(1e-3, 1)}]),
    }
    first, second = configs(space, random_state=0)
    assert (first["layers"], second["layers"]) == ([8, (4, 1)], [16, (4, 1)])
    assert first["model"]["kind"] == "svm"
    assert 1e-3 <= first["model"]["c"] <= 1
    # The space itself is as it was.
    assert isinstance(space["layers"][1][1], tune.Integer)


DRAWS = 400

DOMAINS = [
    (tune.uniform(-2, 3), lambda v: -2 <= v <= 3, float),
    (tune.quniform(0, 1, 0.1), lambda v: round(v * 10) / 10 == v and 0 <= v <= 1, float),
    (tune.loguniform(1e-4, 1e-1), lambda v: 1e-4 <= v <= 1e-1, float),
    (tune.loguniform(1e-4, 1e-1, base=2), lambda v: 1e-4 <= v <= 1e-1, float),
    (tune.qloguniform(0.5, 10, 0.5), lambda v: v * 2 == round(v * 2) and 0.5 <= v <= 10, float),
    (tune.randint(-3, 4), lambda v: -3 <= v < 4, int),
    (tune.qrandint(3, 12, 3), lambda v: v in (3, 6, 9, 12), int),
    (tune.lograndint(1, 100), lambda v: 1 <= v < 100, int),
    (tune.qlograndint(2, 100, 2), lambda v: v % 2 == 0 and 2 <= v <= 100, int),
    (tune.choice(["a", "b"]), lambda v: v in ("a", "b"), str),
    (tune.randn(5, 0.5), lambda v: math.isfinite(v), float),
    (tune.qrandn(5, 2, 0.5), lambda v: v * 2 == round(v * 2), float),
]


@pytest.mark.parametrize(("domain", "is_right", "kind"), DOMAINS)
def test_N3i_what_is_drawn_lies_in_its_domain(domain, is_right, kind):
    values = domain.sample(size=DRAWS, random_state=11)
    assert len(values) == DRAWS
    assert all(type(value) is kind and is_right(value) and domain.is_valid(value) for value in values)
    assert len(set(values)) > 1
    assert values == domain.sample(size=DRAWS, random_state=11)


def test_N3i_every_value_comes_up():
    assert set(tune.randint(0, 4).sample(size=DRAWS, random_state=1)) == {0, 1, 2, 3}
    assert set(tune.qrandint(0, 8, 4).sample(size=DRAWS, random_state=1)) == {0, 4, 8}
    assert set(tune.qrandint(0, 4, 1).sample(size=DRAWS, random_state=1)) == {0, 1, 2, 3}
    assert set(tune.quniform(0, 0.3, 0.1).sample(size=DRAWS, random_state=1)) == {0.0, 0.1, 0.2, 0.3}


def test_N3i_orders_of_magnitude_are_alike():
    values = tune.loguniform(1e-4, 1).sample(size=4000, random_state=1)
    shares = [sum(10.0**e <= value < 10.0 ** (e + 1) for value in values) / 4000 for e in range(-4, 0)]
    assert all(0.22 < share < 0.28 for share in shares)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tune.uniform(2, 1), "lower is 2, upper is 1"),
        (lambda: tune.uniform(math.nan, 1), "nan"),
        (lambda: tune.Float(None, 1).uniform(), "Uniform requires a lower bound"),
        (lambda: tune.loguniform(0, 1), "LogUniform requires a lower bound greater than 0"),
        (lambda: tune.lograndint(-1, 4), "LogUniform requires a lower bound greater than 0"),
        (lambda: tune.quniform(0.05, 1, 0.1), "0.05 is not divisible by quantization factor 0.1"),
        (lambda: tune.quniform(0, 1, 0), "q=0"),
        (lambda: tune.randint(3, 3), "no integer from 3 to below 3"),
        (lambda: tune.randint(4, 3), "lower is 4, upper is 3"),
        (lambda: tune.randint(0.5, 3), "An integer is needed, got 0.5"),
        (lambda: tune.qrandint(5, 7, 4), "no multiple of q=4 between 5 and 7"),
        (lambda: tune.choice([]), "empty"),
        (lambda: tune.randn(0, 0), "sd=0"),
        (lambda: tune.Float(0, 1).normal(), "does not allow value bounds"),
        (lambda: tune.uniform(0, 1).loguniform(), "greater than 0"),
        (lambda: tune.uniform(1, 2).loguniform(), "You can only choose one sampler"),
        (lambda: tune.sample_from(lambda a, b: 1), "either 0 or 1 parameters"),
        (lambda: configs({"grid": tune.grid_search([])}), "`grid` has no values"),
        (lambda: configs({"grid": tune.grid_search(3)}), "`grid` expected a list of values, got: 3"),
    ],
)
def test_N3j_domains_that_contradict_themselves_say_so(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_N3k_a_seed_or_a_generator_of_numpy_decides():
    np = pytest.importorskip("numpy")
    space = {"a": tune.uniform(0, 1), "b": tune.randint(0, 1000), "c": tune.randn(), "d": tune.choice([1, 2, 3])}
    assert configs(space, random_state=3) == configs(space, random_state=3)
    assert configs(space, random_state=3) != configs(space, random_state=4)
    for make in (np.random.default_rng, np.random.RandomState):
        assert configs(space, random_state=make(5)) == configs(space, random_state=make(5))
    np.random.seed(9)
    first = configs(space)
    np.random.seed(9)
    assert configs(space) == first
    with pytest.raises(TypeError, match="random_state is a seed"):
        configs(space, random_state="seed")


def test_N3l_given_points_come_first_and_overwrite_grids(caplog):
    spec = {"config": {"a": tune.grid_search([1, 2]), "b": tune.randint(0, 3)}, "num_samples": 4}
    presets = [{"a": 2, "b": 2}, {"a": 1}, {"b": 2}]
    assert [len(list(preset_variants(spec, preset))) for preset in presets] == [1, 1, 2]
    assert count_variants(spec, presets) == 6
    with pytest.raises(ValueError, match="Pre-set config key `nested` does not correspond"):
        preset_variants(spec, {"nested": {"x": 1}})
    list(preset_variants(spec, {"b": 77}))
    assert "Pre-set value `77` is not within valid values of parameter `b`: (0, 3)" in caplog.text
