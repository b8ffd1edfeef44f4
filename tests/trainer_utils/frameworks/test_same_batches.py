"""The same batch in every framework that is installed, for many settings and numbers of workers."""

import importlib.util
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainer_utils
from tests.make import write_rows
from trainer_utils import ImageOptions

# Keras uses the installed backend; JAX starts quickly.
if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "jax")

NUMBERS = ["id", "label", "weight", "image"]
OPTIONS = st.fixed_dictionaries(
    {
        "shuffle": st.sampled_from([True, False, "global", 20]),
        "seed": st.integers(0, 5),
        "remainder": st.sampled_from([None, "drop", "pad", "balance"]),
        "echoing": st.sampled_from([1, 1, 2]),
        "repeat": st.sampled_from([1, 2]),
        "augment": st.sampled_from([None, "random_resized_crop", ["flip", ("mixup", 0.2)]]),
        "image_size": st.just((6, 6)),
        "image": st.sampled_from([ImageOptions(), ImageOptions(normalize="unit")]),
        "label": st.sampled_from([None, "label"]),
        "labels": st.just({"num_classes": 5}),
        "features": st.sampled_from([None, "image", NUMBERS]),
    }
)


def batches_of(
    uri: str, framework: str, options: dict[str, Any], worker: int, workers: int, replicas: int = 1
):
    """Return the batches as nests of arrays, with the rows of all replicas of a worker together."""
    if framework == "tensorflow":
        import tensorflow as tf

        context = tf.distribute.InputContext(workers, worker, workers * replicas)
        dataset = trainer_utils.input_fn(uri, "train", input_context=context, **options)
        parts = list(dataset.as_numpy_iterator())
        assert int(dataset.cardinality()) == len(parts)
        steps = [parts[n : n + replicas] for n in range(0, len(parts), replicas)]
        for step in steps:
            sizes = [len(tf.nest.flatten(part)[0]) for part in step]
            assert max(sizes) - min(sizes) <= (options.get("remainder") not in ("drop", "pad"))
        join = lambda *parts: np.concatenate(parts)  # noqa: E731
        return [tf.nest.map_structure(join, *step) for step in steps]
    own = {"worker": worker, "num_workers": workers}
    if framework == "torch":
        dataset = trainer_utils.torch_dataset(uri, "train", **own, **options)
        return [dataset[step] for step in range(len(dataset))]
    if framework == "keras":
        repeat = options.pop("repeat")
        dataset = trainer_utils.keras_dataset(uri, "train", **own, **options)
        found = []
        for _ in range(repeat):
            found += [dataset[step] for step in range(len(dataset))]
            dataset.on_epoch_end()
        return found
    return list(trainer_utils.iterate(uri, "train", **own, **options))


def assert_same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs) or not isinstance(ours, (dict, tuple))
    if isinstance(ours, dict):
        assert [*ours] == [*theirs]
        ours, theirs = tuple(ours.values()), tuple(theirs.values())
    if isinstance(ours, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
        return
    other = np.asarray(theirs)
    assert (ours.shape, ours.dtype) == (other.shape, other.dtype)
    if ours.dtype == object:
        assert ours.tolist() == other.tolist()
    else:
        assert ours.tobytes() == other.tobytes()


@pytest.mark.parametrize("framework", ["tensorflow", "torch", "keras"])
@settings(max_examples=40)
@given(OPTIONS, st.sampled_from([1, 1, 2, 3, 4, 8, 16, 64]), st.integers(0, 63), st.data())
def test_frameworks_have_the_batches_of_numpy(numbered, framework, options, workers, worker, data):
    """Start at any step; `input_fn` has one replica per worker, or two."""
    pytest.importorskip(framework)
    rows = data.draw(st.sampled_from([2, 4] if workers < 16 else [2]))
    options["batch_size"] = rows * workers
    if options["features"] is None and options["label"] is None and workers % 2:
        options["augment"] = None  # nothing to mix
    if isinstance(options["augment"], list) and options["label"] is None:
        options["augment"] = "flip"
    if options["remainder"] == "balance" and workers > 1:
        options["remainder"] = None  # may not be possible
    worker %= workers
    replicas = data.draw(st.sampled_from([1, rows // 2])) if framework == "tensorflow" else 1
    if framework != "keras":  # a pass of Keras starts there
        options["state"] = data.draw(st.integers(0, options["repeat"] * (150 // rows // workers)))
    if options["remainder"] == "balance" and replicas > 1:
        options["remainder"] = None
    ours = batches_of(numbered, "numpy", dict(options), worker, workers)
    theirs = batches_of(numbered, framework, dict(options), worker, workers, replicas)
    assert len(ours) == len(theirs)
    assert ours or options.get("state")
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("framework", ["tensorflow", "torch", "keras"])
@pytest.mark.parametrize(("strategy", "remainder"), [("concat", "pad"), ("best_fit", None)])
def test_packs_are_the_same_in_every_framework(tmp_path, framework, strategy, remainder, subtests):
    pytest.importorskip(framework)
    rows = ({"tokens": [number] * (number * number % 37)} for number in range(90))
    uri = write_rows(tmp_path / "d", rows, num_shards=2)
    pack = trainer_utils.PackOptions(length=24, strategy=strategy, eos=91)
    triple = {
        "features": ["tokens", "positions"],
        "label": "targets",
        "labels": {"sample_weight": "loss_mask"},
    }
    for workers, more in ((1, {}), (2, triple)):
        with subtests.test(workers=workers):
            options = {"batch_size": 4, "pack": pack, "remainder": remainder, "repeat": 1, **more}
            for worker in range(workers):
                ours = batches_of(uri, "numpy", dict(options), worker, workers)
                theirs = batches_of(uri, framework, dict(options), worker, workers)
                assert len(ours) == len(theirs) > 0
                for one, other in zip(ours, theirs, strict=True):
                    assert_same(one, other)


def test_a_token_of_one_framework_resumes_in_another(numbered, subtests):
    options = {"batch_size": 8, "features": "id", "repeat": 2, "seed": 4}
    whole = list(trainer_utils.iterate(numbered, "train", **options))
    source = trainer_utils.iterate(numbered, "train", **options)
    for framework in ("tensorflow", "torch", "numpy"):
        with subtests.test(framework=framework):
            if importlib.util.find_spec(framework) is None:
                continue
            for step in (5, 19, 25):
                resumed = {**options, "state": source.state(step).to_json()}
                found = batches_of(numbered, framework, resumed, 0, 1)
                assert len(found) == len(whole) - step
                for one, other in zip(whole[step:], found, strict=True):
                    assert_same(one, other)
