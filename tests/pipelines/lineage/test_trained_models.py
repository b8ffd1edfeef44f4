"""Which models and datasets a store tells of, against the store that was filled."""

import pytest

pytest.importorskip("ml_metadata")

from pipelines.lineage.trained_models import trace_models


def test_models_and_relatives_are_those_of_the_store(like_tfx, tmp_path):
    uri = str(tmp_path / "ImageExampleGen/examples/1")
    found = trace_models(uri, metadata=None)
    assert [model["id"] for model in found.models] == [like_tfx["model"], like_tfx["second_model"]]
    assert [path.removeprefix(f"{tmp_path}/") for path in found.relatives] == [
        "ShardBalancer/balanced_examples/2"
    ]


def test_where_nothing_tells_nothing_is_told(tmp_path):
    found = trace_models(str(tmp_path), metadata=None)
    assert (found.models, found.relatives) == ((), ())
