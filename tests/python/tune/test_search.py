"""Searchers: what they suggest, what they learn, and that they do the same when they are told the same again."""

import inspect
import math
import pickle
import sys
from typing import Any

import pytest

from eagleray import tune as _tune  # noqa: F401
from eagleray.tune.search import (
    BasicVariantGenerator,
    CMAESSearch,
    ConcurrencyLimiter,
    GPSearch,
    RandomSearch,
    Repeater,
    Searcher,
    SearchGenerator,
    SobolSearch,
    TPESearch,
    create_searcher,
)
from eagleray.tune.search import sample as tune
from eagleray.tune.search.bohb import TuneBOHB

SPACE = {
    "lr": tune.loguniform(1e-5, 1e-1),
    "batch": tune.qrandint(16, 128, 16),
    "layers": tune.randint(1, 4),
    "width": tune.lograndint(8, 513),
    "rate": tune.quniform(0, 0.5, 0.1),
    "noise": tune.randn(0, 2),
    "coarse": tune.qrandn(0, 2, 0.5),
    "fixed": {"name": "net", "deep": [1, tune.uniform(0, 1)]},
    "model": tune.choice(
        [
            {"kind": "svm", "c": tune.uniform(0, 1), "kernel": tune.choice(["rbf", {"poly": tune.randint(2, 5)}])},
            {"kind": "forest", "trees": tune.randint(10, 20)},
            "none",
        ]
    ),
    "twice": tune.sample_from(lambda config: config["lr"] * 2),
}
KINDS = [RandomSearch, SobolSearch, TPESearch, CMAESSearch, GPSearch]


def score(config):
    return math.log10(config["lr"] / 1e-3) ** 2 + (0 if config["model"] == "none" else 1)


def check(config):
    assert 1e-5 <= config["lr"] <= 1e-1
    assert type(config["batch"]) is int
    assert config["batch"] in range(16, 129, 16)
    assert config["layers"] in (1, 2, 3)
    assert 8 <= config["width"] <= 512
    assert config["rate"] in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert math.isfinite(config["noise"])
    assert config["coarse"] * 2 == round(config["coarse"] * 2)
    assert config["fixed"]["name"] == "net"
    assert 0 <= config["fixed"]["deep"][1] <= 1
    assert config["twice"] == config["lr"] * 2
    model = config["model"]
    if model == "none":
        return
    if model["kind"] == "svm":
        assert set(model) == {"kind", "c", "kernel"}
        assert model["kernel"] == "rbf" or model["kernel"]["poly"] in (2, 3, 4)
    else:
        assert set(model) == {"kind", "trees"}
        assert 10 <= model["trees"] < 20


def drive(searcher, trials, *, start=0):
    """Two trials at a time; some fail, some never report the metric, some report what is no number."""
    configs = []
    for at in range(start, start + trials):
        config = searcher.suggest(f"t{at}")
        configs.append(config)
        if at > start:
            last = f"t{at - 1}"
            value = score(configs[-2])
            if at % 7 == 0:
                searcher.on_trial_complete(last, error=True)
            elif at % 11 == 0:
                searcher.on_trial_complete(last, {"other": 1})
            elif at % 13 == 0:
                searcher.on_trial_complete(last, {"loss": math.nan})
            else:
                searcher.on_trial_result(last, {"loss": value + 1, "training_iteration": 1})
                searcher.on_trial_complete(last, {"loss": value})
    return configs


@pytest.mark.parametrize("kind", KINDS)
def test_suggestions_lie_in_the_space_and_follow_from_the_seed(kind):
    configs = drive(kind(SPACE, metric="loss", mode="min", seed=5), 40)
    for config in configs:
        check(config)
    assert configs == drive(kind(SPACE, metric="loss", mode="min", seed=5), 40)
    assert configs != drive(kind(SPACE, metric="loss", mode="min", seed=6), 40)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_searcher_goes_on_where_it_was(kind, tmp_path):
    first = kind(SPACE, metric="loss", mode="min", seed=5)
    drive(first, 25)
    first.save_to_dir(str(tmp_path), "one")
    copy = pickle.loads(__import__("cloudpickle").dumps(first))
    rest = drive(first, 5, start=25)
    restored = kind(metric="loss", mode="min")
    restored.restore_from_dir(str(tmp_path))
    assert drive(restored, 5, start=25) == rest
    assert drive(copy, 5, start=25) == rest


class Own(Searcher):
    """A user's own, which counts."""

    def __init__(self, **options):
        super().__init__(**options)
        self.count = 0

    def suggest(self, trial_id):
        self.count += 1
        return {"x": self.count}

    def on_trial_complete(self, trial_id, result=None, error=False):
        pass


class OwnWithState(Own):
    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.count = state["count"]


def test_a_searcher_of_ones_own_is_saved_if_it_says_what_its_state_is(tmp_path):
    first, second = OwnWithState(), OwnWithState()
    first.suggest("1")
    first.save_to_dir(str(tmp_path), "one")
    second.restore_from_dir(str(tmp_path))
    assert second.suggest("2") == {"x": 2}
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    Own().save_to_dir(str(nothing), "one")
    assert list(nothing.iterdir()) == []


MAKERS = {
    **{kind.__name__: lambda kind=kind: kind(SPACE, metric="loss", mode="min", seed=5) for kind in KINDS},
    "univariate": lambda: TPESearch(SPACE, metric="loss", mode="min", seed=5, multivariate=False),
    "begins with points": lambda: TPESearch(
        SPACE, metric="loss", mode="min", seed=5, points_to_evaluate=[{"lr": 1e-3}], n_startup_trials=4
    ),
    "TuneBOHB": lambda: TuneBOHB(SPACE, {"min_points_in_model": 5}, metric="loss", mode="min", seed=5),
    "limited": lambda: ConcurrencyLimiter(MAKERS["TPESearch"](), 3, batch=True),
    "repeated": lambda: Repeater(MAKERS["TPESearch"](), 2),
}


def relive(searcher, trials, known=()):
    """Runs a searcher as the engine does, the first trials as it resumes them. Returns configurations and traces."""
    generator = SearchGenerator(searcher)
    generator.set_space({}, num_samples=-1)
    given = []
    for at in range(trials):
        if at < len(known):
            suggestion = known[at]
            generator.retrace(f"t{at}", pickle.loads(pickle.dumps(suggestion.trace)))
        else:
            suggestion = generator.next_config(f"t{at}")
        given.append(suggestion)
        for last in [at - 1] * (at % 3 > 0) + [at] * (at % 3 == 2):
            result = {"loss": score(given[last].config), "training_iteration": 1 + last % 3}
            generator.on_trial_result(f"t{last}", result)
            generator.on_trial_complete(f"t{last}", result, error=last % 7 == 0)
    return given


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_retraced_changes_nothing_about_what_comes(name):
    given = relive(MAKERS[name](), 45)
    for known in (3, 11, 40):
        assert relive(MAKERS[name](), 45, given[:known]) == given


@pytest.mark.parametrize("name", ["TPESearch", "GPSearch", "TuneBOHB"])
def test_what_is_retraced_is_not_thought_of_again(name):
    given = relive(MAKERS[name](), 40)
    again = MAKERS[name]()

    class Forgetful:
        """A native searcher that cannot be asked."""

        def __init__(self, search):
            self.search = search

        def ask(self, number):
            raise AssertionError("it was asked")

        def __getattr__(self, name):
            return getattr(self.search, name)

    again._search = Forgetful(again._search)
    relive(again, 40, given)


def test_a_subclass_with_suggestions_of_its_own_is_asked_again():
    class Counting(TPESearch):
        asked = 0

        def suggest(self, trial_id):
            self.asked += 1
            return super().suggest(trial_id)

    class Plain:
        """As users may write it, of no class of ours."""

        metric = mode = None
        asked = 0

        def suggest(self, trial_id):
            self.asked += 1
            return {"lr": 1 / self.asked, "model": "none"}

        def on_trial_result(self, trial_id, result):
            pass

        def on_trial_complete(self, trial_id, result=None, error=False):
            pass

    for make in (lambda: Counting(SPACE, metric="loss", mode="min", seed=5), Plain):
        given = relive(make(), 20)
        again = make()
        assert relive(again, 20, given[:15]) == given
        assert again.asked == 20


def test_a_trace_of_another_space_is_passed_over():
    given = relive(MAKERS["TPESearch"](), 12)
    searcher = TPESearch({"lr": tune.loguniform(1e-5, 1e-1), "model": "none"}, metric="loss", mode="min", seed=5)
    assert len(relive(searcher, 20, given)) == 20


@pytest.mark.parametrize("kind", [TPESearch, CMAESSearch, GPSearch])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_those_that_learn_find_what_is_better(kind, mode):
    space = {"x": tune.uniform(-5, 5), "y": {"z": tune.uniform(-5, 5)}}
    searcher = kind(space, metric="m/deep", mode=mode, seed=1)
    values = []
    for at in range(60):
        config = searcher.suggest(str(at))
        value = (config["x"] - 2) ** 2 + (config["y"]["z"] + 1) ** 2
        values.append(value)
        searcher.on_trial_complete(str(at), {"m": {"deep": value if mode == "min" else -value}})
    assert min(values[30:]) < 0.5
    assert sum(values[-10:]) < sum(values[:10])


def test_points_to_evaluate_come_first_and_are_completed():
    points = [{"lr": 1e-3}, {"model": {"kind": "forest", "trees": 12}, "lr": 1e-2}]
    searcher = TPESearch(SPACE, metric="loss", mode="min", points_to_evaluate=points, seed=1)
    first, second, third = (searcher.suggest(str(at)) for at in range(3))
    for config in (first, second, third):
        check(config)
    assert first["lr"] == 1e-3
    assert second["lr"] == 1e-2
    assert second["model"] == {"kind": "forest", "trees": 12}
    assert third["lr"] not in (1e-3, 1e-2)


def test_what_was_tried_elsewhere_is_learned_from():
    space = {"x": tune.uniform(0, 1), "kind": tune.choice(["a", {"b": tune.randint(0, 3)}])}
    searcher = TPESearch(space, metric="loss", mode="min", seed=1)
    for at in range(30):
        x = at / 30
        searcher.add_evaluated_point({"x": x, "kind": {"b": at % 3}}, (x - 0.9) ** 2)
    searcher.add_evaluated_point({"x": 7.0, "kind": "a"}, -100)
    searcher.add_evaluated_point({"x": 0.5, "kind": "unknown"}, -100)
    found = [searcher.suggest(str(at))["x"] for at in range(10)]
    assert sum(found) / 10 > 0.65


def test_a_searcher_without_space_or_metric_says_so():
    with pytest.raises(RuntimeError, match="no search space has been defined"):
        TPESearch().suggest("t")
    with pytest.raises(RuntimeError, match=r"`metric` \(None\) or `mode` \(None\)"):
        TPESearch({"x": tune.uniform(0, 1)}).suggest("t")
    with pytest.raises(ValueError, match="Grid search parameters cannot be automatically converted.*`a/b`"):
        TPESearch({"a": {"b": tune.grid_search([1, 2])}})
    with pytest.raises(AssertionError, match="'min' or 'max'"):
        TPESearch(metric="loss", mode="least")


def test_the_experiments_space_is_taken_unless_there_is_one():
    searcher = RandomSearch(seed=1)
    assert searcher.set_search_properties("loss", "min", {"x": tune.randint(0, 2)})
    assert searcher.suggest("a")["x"] in (0, 1)
    assert not searcher.set_search_properties("loss", "min", {"y": 1})
    generator = SearchGenerator(RandomSearch({"x": tune.randint(0, 2)}, seed=1))
    assert generator.set_search_properties("loss", "min", {"y": 1})
    with pytest.raises(ValueError, match="already instantiated with a search space"):
        generator.set_search_properties("loss", "min", {"y": tune.uniform(0, 1)})


def test_a_generator_gives_what_is_the_same_for_all_too():
    generator = SearchGenerator(RandomSearch({"x": tune.randint(0, 3)}, seed=1))
    generator.set_space({"y": {"z": 7}}, num_samples=2)
    first = generator.next_config("a")
    assert first.config["y"] == {"z": 7}
    assert first.evaluated_params == {"x": first.config["x"]}
    assert first.experiment_tag == f"1_x={first.config['x']},z=7"
    assert generator.next_config("b") is not None
    assert generator.is_finished()
    assert generator.next_config("c") is None


class Script(Searcher):
    """A searcher of a user's own, with the least that it needs."""

    def __init__(self, suggestions):
        super().__init__(metric="loss", mode="min")
        self.suggestions = list(suggestions)
        self.heard = []

    def suggest(self, trial_id):
        return self.suggestions.pop(0) if self.suggestions else Searcher.FINISHED

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.heard.append((trial_id, result, error))


def test_a_users_searcher_ends_the_search():
    generator = SearchGenerator(Script([{"a": 1}, None, {"a": 2}]))
    assert generator.set_search_properties("loss", "min", {})
    generator.set_space({}, num_samples=-1)
    assert generator.next_config("x").config == {"a": 1}
    assert generator.next_config("y") is None
    assert not generator.is_finished()
    assert generator.next_config("z").config == {"a": 2}
    assert generator.next_config("z") is None
    assert generator.is_finished()


@pytest.mark.parametrize("batch", [False, True])
def test_a_limit_holds_back_suggestions(batch):
    inner = Script([{"a": at} for at in range(9)])
    limiter = ConcurrencyLimiter(inner, max_concurrent=2, batch=batch)
    assert limiter.suggest("t0") == {"a": 0}
    assert limiter.suggest("t1") == {"a": 1}
    assert limiter.suggest("t2") is None
    limiter.on_trial_complete("t0", {"loss": 1})
    if batch:
        assert inner.heard == []
        assert limiter.suggest("t2") is None
        limiter.on_trial_complete("t1", {"loss": 2})
    assert limiter.suggest("t2") == {"a": 2}
    limiter.on_trial_complete("never", {"loss": 2})
    assert [trial for trial, *_ in inner.heard] == (["t0", "t1"] if batch else ["t0"])
    with pytest.raises(RuntimeError, match="only works with `Searcher`"):
        ConcurrencyLimiter(BasicVariantGenerator(), 2)


def test_a_repeater_tells_the_mean():
    inner = Script([{"a": 0}, {"a": 1}])
    repeater = Repeater(inner, repeat=3)
    configs = [repeater.suggest(f"t{at}") for at in range(4)]
    assert configs[:3] == [{"a": 0, "__trial_index__": at} for at in range(3)]
    assert configs[3] == {"a": 1, "__trial_index__": 0}
    repeater.on_trial_complete("t0", {"loss": 1.0})
    repeater.on_trial_complete("t2", None, error=True)
    assert inner.heard == []
    repeater.on_trial_complete("t1", {"loss": 3.0})
    assert inner.heard == [("t0", {"loss": 2.0}, False)]


def test_a_repeater_finds_nested_metrics_and_passes_on_what_was_tried_elsewhere():
    class Inner(Searcher):
        def __init__(self):
            super().__init__(metric="eval/loss", mode="min")
            self.heard = []

        def suggest(self, trial_id):
            return {"a": 1}

        def on_trial_complete(self, trial_id, result=None, error=False):
            self.heard.append((trial_id, result, error))

        def add_evaluated_point(self, parameters, value, *_):
            self.heard.append((parameters, value))

    inner = Inner()
    repeater = Repeater(inner, repeat=2)
    for at in range(2):
        repeater.suggest(f"t{at}")
    repeater.on_trial_complete("t0", {"eval": {"loss": 1.0}})
    repeater.on_trial_complete("t1", {"eval/loss": 3.0})
    repeater.add_evaluated_point({"a": 1}, 0.5)
    assert inner.heard == [("t0", {"eval/loss": 2.0}, False), ({"a": 1}, 0.5)]


def test_bohb_models_the_largest_budget_that_enough_have_reached():
    def taught(seed, *, has_large):
        searcher = TuneBOHB({"x": tune.uniform(0, 1)}, metric="loss", mode="min", seed=seed)
        for at in range(12):
            x = searcher.suggest(str(at))["x"]
            # Small budgets point to the wrong end.
            searcher.on_trial_result(str(at), {"loss": x, "hyperband_info": {"budget": 1}})
            if at % 2 == 0 and has_large:
                searcher.on_trial_result(str(at), {"loss": 1 - x, "hyperband_info": {"budget": 9}})
            searcher.on_trial_complete(str(at), None, error=True)
        return searcher

    def mean(searcher):
        return sum(searcher.suggest(f"more{at}")["x"] for at in range(10)) / 10

    # Trials under way keep others away, so one seed shows little.
    assert sum(mean(taught(seed, has_large=True)) for seed in range(40)) / 40 > 0.51
    assert sum(mean(taught(seed, has_large=False)) for seed in range(40)) / 40 < 0.49
    searcher = taught(3, has_large=True)
    mean(searcher)
    again = pickle.loads(pickle.dumps(searcher))
    assert again.suggest("next") == searcher.suggest("next")


def test_basic_variants_go_on_after_a_restart(tmp_path):
    space = {"a": tune.grid_search([1, 2]), "b": tune.uniform(0, 1)}

    def make(seed):
        generator = BasicVariantGenerator(max_concurrent=3, random_state=seed)
        generator.set_space(space, num_samples=3)
        return generator

    first = make(4)
    given = [first.next_config(f"t{at}").config for at in range(3)]
    assert first.next_config("t3") is None
    first.save_to_dir(str(tmp_path), "s")
    second = make(None)
    second.restore_from_dir(str(tmp_path))
    third = pickle.loads(pickle.dumps(first))
    assert second.next_config("t3") is None
    for generator in (first, second, third):
        for at in range(3):
            generator.on_trial_complete(f"t{at}")
    rest = [second.next_config(f"t{at}").config for at in range(3, 6)]
    assert rest == [first.next_config(f"t{at}").config for at in range(3, 6)]
    assert rest == [third.next_config(f"t{at}").config for at in range(3, 6)]
    assert [each["a"] for each in given + rest] == [1, 2] * 3


def test_searchers_by_name():
    assert type(create_searcher("random")) is BasicVariantGenerator
    made = create_searcher("TPE", metric="loss", mode="max", unknown=3)
    assert type(made) is TPESearch
    assert (made.metric, made.mode) == ("loss", "max")
    with pytest.raises(ValueError, match="must be one of .*'optuna'"):
        create_searcher("sigopt")


def test_optuna_is_asked_for_by_name_only_when_it_is_used(monkeypatch):
    from eagleray.tune.search.optuna import OptunaSearch

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match="pip install optuna"):
        OptunaSearch()


def test_optuna_suggests_on_conditional_spaces():
    pytest.importorskip("optuna")
    from eagleray.tune.search.optuna import OptunaSearch

    space = {key: value for key, value in SPACE.items() if key not in ("noise", "coarse", "twice")}

    def run():
        searcher = OptunaSearch(space, metric="loss", mode="min", seed=2, points_to_evaluate=[space_point()])
        configs = []
        for at in range(25):
            config = searcher.suggest(str(at))
            configs.append(config)
            searcher.on_trial_complete(str(at), {"loss": score(config)}, error=at % 5 == 4)
        return configs

    configs = run()
    for config in configs:
        check(config | {"noise": 0.0, "coarse": 0.0, "twice": config["lr"] * 2})
    assert configs[0]["lr"] == 1e-3
    assert run() == configs


def test_optuna_draws_what_is_normally_distributed_by_its_quantiles():
    optuna = pytest.importorskip("optuna")
    from eagleray.tune.search.optuna import OptunaSearch

    space = {"x": tune.randn(10, 2), "q": tune.qrandn(0, 3, 0.5)}
    sampler = optuna.samplers.RandomSampler(seed=1)
    searcher = OptunaSearch(
        space, metric="loss", mode="min", sampler=sampler, points_to_evaluate=[{"x": 13.0, "q": 1.5}]
    )
    searcher.add_evaluated_point({"x": 9.0, "q": -400.0}, 3.0)
    configs = [searcher.suggest(str(at)) for at in range(1_000)]
    assert configs[0]["x"] == pytest.approx(13.0)
    assert configs[0]["q"] == 1.5
    xs = [config["x"] for config in configs[1:]]
    mean = sum(xs) / len(xs)
    assert mean == pytest.approx(10, abs=0.3)
    assert math.sqrt(sum((x - mean) ** 2 for x in xs) / len(xs)) == pytest.approx(2, abs=0.2)
    assert all(config["q"] * 2 == round(config["q"] * 2) for config in configs)
    # Those that learn follow it.
    learns = OptunaSearch({"x": tune.randn(10, 2)}, metric="loss", mode="min", seed=1)
    losses = []
    for at in range(60):
        losses.append(abs(learns.suggest(str(at))["x"] - 12))
        learns.on_trial_complete(str(at), {"loss": losses[-1]})
    assert sum(losses[-20:]) < 0.5 * sum(losses[:20])


def space_point():
    return {
        "lr": 1e-3,
        "batch": 32,
        "layers": 2,
        "width": 64,
        "rate": 0.1,
        "fixed": {"name": "net", "deep": [1, 0.5]},
        "model": "none",
    }


def test_old_places_are_the_same_things():
    import eagleray as ray

    code = (
        "from ray.tune.search.optuna import OptunaSearch; from ray.tune.suggest.optuna import OptunaSearch as Old;"
        "assert OptunaSearch is Old; from ray.tune.suggest import ConcurrencyLimiter;"
        "from ray.tune.search import ConcurrencyLimiter as New; assert New is ConcurrencyLimiter;"
        "from ray.tune.suggest.suggestion import Searcher; from ray.tune.suggest.bohb import TuneBOHB;"
        "from ray.tune.search.basic_variant import BasicVariantGenerator; from ray.tune.search.sample import Domain;"
        "from ray.tune.search.concurrency_limiter import ConcurrencyLimiter; from ray.tune.search.repeater import Repeater;"
        "from ray.tune.sample import uniform; from ray.tune.suggest.variant_generator import generate_variants"
    )
    import subprocess

    assert ray
    subprocess.run(
        [sys.executable, "-c", f"import eagleray; eagleray.install_as_ray(); {code}"], check=True, timeout=50
    )


def test_libraries_read_from_a_domain_what_kind_of_value_it_takes():
    # FLAML looks at the signature, and not at a text in it.
    kinds = {
        tune.uniform(0, 1): float,
        tune.randint(0, 3): int,
        tune.choice("ab"): Any,
        tune.sample_from(lambda _: 1): Any,
    }
    for domain, kind in kinds.items():
        (value,) = inspect.signature(domain.is_valid).parameters.values()
        assert value.annotation is kind


@pytest.mark.parametrize("era", ["seed", "generator", "state", "hidden"])
def test_libraries_draw_by_a_source_that_knows_the_names_of_both_eras(era):
    numpy = pytest.importorskip("numpy")

    def made():
        numpy.random.seed(5)
        of = {"seed": 5, "generator": numpy.random.default_rng(5), "state": numpy.random.RandomState(5), "hidden": None}
        return tune._BackwardsCompatibleNumpyRng(of[era])

    source = made()
    assert source.legacy_rng is (era in ("state", "hidden"))
    assert 0 <= source.integers(0, 3) < 3
    assert 0 <= source.random() < 1
    domain = tune.randint(0, 10**6)
    assert domain.sample(random_state=made()) == domain.sample(random_state=made())
    assert isinstance(pickle.loads(pickle.dumps(source)).normal(), float)
