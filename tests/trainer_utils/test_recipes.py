"""Recipes over real datasets: reading, changes, YAML, the ledger, and errors."""

import collections
import contextlib
import itertools
import json
import shutil

import pytest

import trainer_utils
from pipelines.tools.ledger import RunLedger
from trainer_utils import ConfigError, Part, Recipe
from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Feature

FEATURES = {"x": Feature(type="int"), "id": Feature(type="string")}
SIZES = {"web": 90, "books": 30, "code": 50}


@pytest.fixture
def uris(tmp_path, write_dataset) -> dict[str, str]:
    return {
        name: write_dataset(
            tmp_path / name,
            {"train": [[{"x": [n], "id": [f"{name} {n}".encode()]} for n in range(size)]]},
            FEATURES,
        )
        for name, size in SIZES.items()
    }


def recipe_of(uris, **weights) -> Recipe:
    return Recipe([Part(uris[name], name=name, weight=w) for name, w in weights.items()])


def names_of(batches) -> list[list[str]]:
    return [[name.decode() for name in batch] for batch in batches]


def take(recipe, count, **settings):
    dataset = trainer_utils.iterate(recipe, features="id", batch_size=8, repeat=True, **settings)
    return names_of(itertools.islice(dataset, count)), dataset


def test_a_run_resumes_kept_parts_and_drops_removed_ones(uris, subtests):
    recipe = recipe_of(uris, web=3, books=1)
    before, dataset = take(recipe, 10)
    token = dataset.state(10)
    recipe = recipe.change(
        token, add=[Part(uris["code"], name="code", weight=2)], drop=["web"], reweight={"books": 2}
    )
    shutil.rmtree(uris["web"])
    after, dataset = take(recipe, 40, state=token.to_json())
    counts = collections.Counter(itertools.chain(*before, *after))
    assert sum(name.startswith("web") for batch in before for name in batch) == 60
    assert not any(name.startswith("web") for batch in after for name in batch)
    assert all(sum(name.startswith("code") for name in batch) == 4 for batch in after)
    for name, each in (("books", 180 / 30), ("code", 160 / 50)):
        with subtests.test(name=name):
            seen = [counts[f"{name} {n}"] for n in range(SIZES[name])]
            assert {*seen} <= {int(each), int(each) + 1}  # every epoch of a part is whole
    # Change it again; the token still covers everything.
    last = dataset.state(50)
    again, _ = take(recipe.change(last, reweight={"code": 6}), 4, state=last)
    assert all(sum(name.startswith("code") for name in batch) == 6 for batch in again)


def test_yaml_round_trip(uris, tmp_path):
    recipe = Recipe(
        [Part(uris["web"], name="web", split="train[:50%]"), Part(uris["books"], weight=0.5)],
        schedule=[(0, {"web": 1}), (20, {"web": 4})],
        interpolation="linear",
    )
    assert Recipe.from_yaml(recipe.to_yaml()) == recipe
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe.to_yaml())
    settings = {"features": "id", "batch_size": 8, "repeat": True}
    dataset = trainer_utils.input_fn(recipe, **settings)
    assert names_of(dataset.take(30).as_numpy_iterator()) == take(str(path), 30)[0]
    assert trainer_utils.plan(path, workers=2, batch_size=8).steps == dataset.input_steps
    shares = [sum("web" in name for name in batch) for batch in take(recipe, 24)[0]]
    assert shares[0] < 6 < shares[-1]
    assert sorted(shares) == pytest.approx(shares, abs=1)


def test_the_ledger_covers_a_changed_run(uris, tmp_path):
    run = str(tmp_path / "run")
    progress, logged = trainer_utils.InputProgress(run), []
    recipe = recipe_of(uris, web=3, books=1)
    for change in ({}, {"drop": ["books"], "add": [Part(uris["code"], name="code")]}):
        if change:
            recipe = recipe.change(progress.state, **change)
        dataset = trainer_utils.input_fn(
            recipe, features="id", batch_size=8, repeat=True, state=progress.state
        )
        batches = itertools.islice(progress.follow(dataset), 9)
        logged += names_of(batch.numpy() for batch in batches)
    progress.serialize()
    told = RunLedger(run)
    for step, rows in enumerate(logged):
        assert [row.record.name for row in told.at_step(step).rows] == rows
    (sighting,) = told.of_record("code 3").sightings
    assert [at.step for at in sighting.steps] == [
        step for step, rows in enumerate(logged) if "code 3" in rows
    ]


@pytest.mark.parametrize(
    ("shuffle", "steps"),
    [(True, 0), (True, 1), (True, 13), ("global", 7), ("global", 40), (False, 13)],
)
def test_a_grown_dataset_yields_its_unseen_records(tmp_path, write_dataset, uris, shuffle, steps):
    def version(name, numbers):
        examples = [{"id": [f"photo {n}".encode()]} for n in numbers]  # one feature: one encoding
        shards = {"train": [examples[:50], examples[50:]]}
        return write_dataset(tmp_path / name, shards, {"id": FEATURES["id"]})

    def photos(batches):
        names = [name.split() for batch in batches for name in batch]
        return [int(number) for name, number in names if name == "photo"]

    first = [*range(95), *range(5)]  # five are duplicates
    kept, new = [*range(3, 95), 3, 4], [*range(100, 130)]
    second = [*new[:9], *reversed(kept), *new[9:]]
    recipe = Recipe([Part(version("1", first), name="photos"), Part(uris["books"], name="books")])
    before, dataset = take(recipe, steps, shuffle=shuffle)
    token = dataset.state(steps)
    recipe = recipe.change(token, update={"photos": version("2", second)})
    after, dataset = take(Recipe.from_yaml(recipe.to_yaml()), 90, shuffle=shuffle, state=token)
    read = photos(before)
    seen = collections.Counter(read[len(read) // 100 * 100 :])  # of its current epoch
    left, found = collections.Counter(second) - seen, photos(after)
    stop = sum(left.values())
    assert collections.Counter(found[:stop]) == left
    assert collections.Counter(found[stop : stop + len(second)]) == collections.Counter(second)
    # Change it again within that epoch: records of the first version are remembered.
    token, third = dataset.state(steps + 5), [*second, 130]
    recipe = recipe.change(token, update={"photos@2": version("3", third)})
    last = photos(take(recipe, 60, shuffle=shuffle, state=token)[0])
    begun = photos(after[:5])
    seen = (
        seen + collections.Counter(begun)
        if len(begun) < stop
        else collections.Counter(begun[stop:])
    )
    left = collections.Counter(third) - seen
    assert collections.Counter(last[: sum(left.values())]) == left


def test_a_recipe_with_another_history_is_refused(uris, subtests):
    recipe = recipe_of(uris, web=3, books=1)
    _, dataset = take(recipe, 1)
    token = dataset.state(5)
    others = [
        recipe_of(uris, web=2, books=1),
        recipe_of(uris, web=3, code=1),
        recipe_of({**uris, "web": uris["code"]}, web=3, books=1),
        recipe.change(token, add=[Part(uris["code"])]).change(dataset.state(2), drop=["web"]),
    ]
    for other in others:
        with subtests.test(other=other):
            with pytest.raises(ConfigError, match=r"^state: expected"):
                take(other, 1, state=token)
    with pytest.raises(ConfigError, match=r"^state: expected"):
        trainer_utils.iterate(uris["web"], state=token)
    damaged = json.loads(token.to_json())
    mix = damaged["mix"]
    changes = [{"stages": "ab"}, {"parts": {"web": 1}}, {"parts": {}}, {"steps": "9"}]
    for mix in (3, {}, *({**mix, **change} for change in changes)):
        with subtests.test(mix=mix), pytest.raises(ConfigError, match=r"^state: expected"):
            take(recipe, 1, state=json.dumps({**damaged, "mix": mix}))


NO_RECIPES = {
    "no parts": lambda web, books: Recipe([]),
    "no Part": lambda web, books: Recipe(["data"]),
    "the same name": lambda web, books: Recipe([Part(web), Part(web)]),
    "a misspelt name": lambda web, books: Recipe(
        [Part(web, name="web")], schedule=[(1, {"wbe": 1})]
    ),
    "a step before": lambda web, books: Recipe([Part(web)], schedule=[(2, {}), (1, {})]),
    "no step": lambda web, books: Recipe([Part(web)], schedule=[("1", {})]),
    "no weights": lambda web, books: Recipe([Part(web)], schedule=[(1, [2])]),
    "a negative weight": lambda web, books: Recipe([Part(web, weight=-1)]),
    "text for a weight": lambda web, books: Recipe([Part(web, weight="3")]),
    "nothing": lambda web, books: Recipe([Part(web, weight=0)]),
    "too small": lambda web, books: Recipe([Part(web), Part(books, weight=1e-6)]),
    "an epoch of none": lambda web, books: Recipe([Part(web)], epoch_records=0),
    "no YAML": lambda web, books: Recipe.from_yaml("{"),
    "another YAML": lambda web, books: Recipe.from_yaml("[1]"),
    "a field": lambda web, books: Recipe.from_dict({"parts": [{"uri": web, "wieght": 1}]}),
    "a split beside": lambda web, books: trainer_utils.iterate(Recipe([Part(web)]), "train"),
    "weights beside": lambda web, books: trainer_utils.iterate(Recipe([Part(web)]), weights=[1]),
    "one epoch for all": lambda web, books: trainer_utils.iterate(
        Recipe([Part(web), Part(books)], schedule=[(1, {web: 5})]), reshuffle_each_iteration=False
    ),
}


def test_invalid_recipes_are_refused(uris):
    taken = []
    for case, make in NO_RECIPES.items():
        with contextlib.suppress(ConfigError):
            make(uris["web"], uris["books"])
            taken.append(case)
    assert taken == []


def test_an_invalid_file_is_refused_and_names_may_be_numbers(uris, tmp_path, subtests):
    path = tmp_path / "recipe.yaml"
    with pytest.raises(DatasetError):
        trainer_utils.iterate(str(path))
    for text in (b"", b"\xff\xfe", b"parts: [", b"parts: 3", b"- 1", b"parts:\n- uri: " + b"\xe9"):
        with subtests.test(text=text):
            path.write_bytes(text)
            with pytest.raises((ConfigError, DatasetError)):
                trainer_utils.iterate(path)
    text = "parts:\n- {uri: %s, name: 2024}\n- {uri: %s, name: 2025}\n"
    text += "schedule:\n- {step: 2, weights: {2025: 0}}"
    recipe = Recipe.from_yaml(text % (uris["web"], uris["books"]))
    token = take(recipe, 1)[1].state(5)
    batches, _ = take(recipe.change(token, drop=["2025"], reweight={"2024": 2}), 3, state=token)
    assert all(name.startswith("web") for batch in batches for name in batch)


def test_a_change_of_an_unknown_part_is_refused(uris, subtests):
    recipe = recipe_of(uris, web=3, books=1)
    token = take(recipe, 1)[1].state(5)
    for change in (
        {"drop": ["wbe"]},
        {"reweight": {"code": 1}},
        {"add": [Part(uris["code"], name="web")]},
        {"drop": ["web", "books"]},
    ):
        with subtests.test(change=change), pytest.raises(ConfigError):
            recipe.change(token, **change)
    for state in (None, 3, trainer_utils.iterate(uris["web"]).state(1)):
        with subtests.test(state=state), pytest.raises(ConfigError, match=r"^state"):
            recipe.change(state, drop=["web"])
    with pytest.raises(DatasetError):
        trainer_utils.iterate(Recipe([Part(uris["web"] + "-gone")]))
