"""Recipes that change during a run, compared with a naive simulation of each part."""

import os
from fractions import Fraction

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from trainer_utils.core.errors import ConfigError
from trainer_utils.order import FileRange, InputOrder, InputState, MixPart, OrderOptions
from trainer_utils.order.recipe import Part, Recipe

_HISTORIES = int(os.environ.get("TFX_SHARDS_HISTORIES", "150"))


class Simulation:
    """The records read so far, by part: each record occurs once in every epoch of its part."""

    def __init__(self, weights, sizes):
        self.sizes, self.seen = sizes, {name: set() for name in sizes}
        self.begin(weights)

    def begin(self, weights):
        self.rows, self.counts = 0, dict.fromkeys(self.sizes, 0)
        total = sum(weights.values())
        self.shares = {name: Fraction(weight, total) for name, weight in weights.items()}

    def change(self, weights):
        total = sum(weights.values())
        if self.shares != {n: Fraction(w, total) for n, w in weights.items()}:
            self.begin(weights)

    def take(self, batch):
        for name, number in batch:
            assert number not in self.seen[name], "read twice in an epoch of its part"
            self.seen[name].add(number)
            if len(self.seen[name]) == self.sizes[name]:
                self.seen[name] = set()
            self.counts[name] += 1
            self.rows += 1
        for name, count in self.counts.items():  # within one record of the exact share
            assert abs(count - self.shares.get(name, 0) * self.rows) < 1

    def copy(self):
        made = object.__new__(Simulation)
        vars(made).update(vars(self))
        made.seen = {name: set(seen) for name, seen in self.seen.items()}
        made.counts = dict(self.counts)
        return made


def order_of(recipe, sizes, token, workers, **options):
    names = [part.name for part in recipe.parts]
    return InputOrder(
        [FileRange(name, 0, sizes[name]) for name in names],
        OrderOptions(weights=recipe.weights, state=token, **options),
        num_workers=workers,
        mean_record_bytes=1e6,
        parts=[MixPart(sizes[name], name) for name in names],
    )


def now(recipe, step):
    """Return the weights at a step, by reading the recipe line by line."""
    weights = {part.name: part.weight for part in recipe.parts}
    for at, changed in recipe.schedule:
        if at <= step:
            weights |= changed
    return {name: int(weight) for name, weight in weights.items() if weight}


@settings(max_examples=_HISTORIES, deadline=None)
@given(st.data())
def test_any_recipe_history_reads_each_record_once(data):
    draw = data.draw
    sizes = {f"part {n}": draw(st.integers(1, 60)) for n in range(draw(st.integers(1, 3)))}
    weight = st.integers(1, 9)
    steps = sorted(draw(st.sets(st.integers(1, 60), max_size=3)))
    schedule = [
        (at, {name: draw(st.integers(0, 9)) for name in sizes if draw(st.booleans())})
        for at in steps
    ]
    recipe = Recipe([Part(name, weight=draw(weight)) for name in sizes])
    try:
        recipe = Recipe(recipe.parts, schedule=schedule)
    except ConfigError:  # all weights are 0
        reject()
    recipe = Recipe.from_yaml(recipe.to_yaml())
    options = {
        "batch_size": 12,
        "shuffle": draw(st.sampled_from([False, True, "global", 5])),
        "remainder": draw(st.sampled_from([None, "pad"])),
        "seed": draw(st.integers(0, 3)),
        "echoing": 1,
    }
    model, token, step = Simulation(now(recipe, 0), dict(sizes)), None, 0
    saved = [(model.copy(), None, 0, recipe)]
    for _ in range(draw(st.integers(1, 8))):
        action = draw(st.sampled_from(["read", "read", "change", "kill"]))
        if action == "kill":
            model, token, step, recipe = draw(st.sampled_from(saved))
            model = model.copy()
        elif action == "change" and token is not None:
            names = [part.name for part in recipe.parts]
            drop = draw(st.sets(st.sampled_from(names), max_size=len(names) - 1))
            kept = [name for name in names if name not in drop]
            new = [f"part {len(sizes) + n}" for n in range(draw(st.integers(0, 2)))]
            for name in new:
                sizes[name] = draw(st.integers(1, 60))
            model.sizes.update({name: sizes[name] for name in sizes})
            model.seen.update({n: set() for n in sizes if n not in model.seen})
            model.counts.update({n: 0 for n in sizes if n not in model.counts})
            reweight = {n: draw(st.integers(0, 9)) for n in kept if draw(st.booleans())}
            add = [Part(name, weight=draw(weight)) for name in new]
            try:
                recipe = recipe.change(token, add=add, drop=drop, reweight=reweight)
            except ConfigError:
                continue  # all weights would be 0
        else:
            order = order_of(recipe, sizes, token, draw(st.sampled_from([1, 2, 3])), **options)
            each = order.steps_per_epoch
            assert order.start.epoch * each + order.start.step == step
            for _ in range(draw(st.integers(1, 30))):
                rows = [
                    row
                    for worker in range(order.layout.num_workers)
                    for row in order.records(epoch=step // each, step=step % each, worker=worker)
                ]
                model.change(now(recipe, step))
                model.take([(row.path, row.number) for row in rows])
                step += 1
            token = InputState.from_json(order.state(step).to_json())
        saved.append((model.copy(), token, step, recipe))
