"""What a step writes down of itself and of what it read."""

from pathlib import Path
from typing import Any

import pytest
from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import pipeline_pb2

from components.common.lineage import make_origin
from trainer_utils.dataset import open_dataset
from trainer_utils.format.naming import LINEAGE_FILE


class Executor(base_executor.BaseExecutor):
    def Do(self, *_: Any) -> None:
        raise NotImplementedError


def in_a_pipeline() -> Executor:
    node = pipeline_pb2.PipelineNode()
    node.node_info.id, node.node_info.type.name = "Balancer.second", "components.Balancer"
    return Executor(
        base_executor.BaseExecutor.Context(
            pipeline_node=node,
            pipeline_info=pipeline_pb2.PipelineInfo(id="photos"),
            pipeline_run_id="2026-01-01",
        )
    )


def test_a_step_of_a_pipeline_knows_its_place_there():
    step = make_origin(in_a_pipeline(), "Balancer", {}, output="out").made_by
    assert (step.component, step.type) == ("Balancer.second", "components.Balancer")
    assert (step.pipeline, step.run, step.output) == ("photos", "2026-01-01", "out")


@pytest.mark.parametrize("context", [None, base_executor.BaseExecutor.Context()])
def test_a_step_of_no_pipeline_is_called_what_it_is(context):
    step = make_origin(Executor(context), "Balancer", {}, output="out").made_by
    assert (step.component, step.type, step.pipeline, step.run) == (
        "Balancer",
        "Balancer",
        *[None] * 2,
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (5, 5),
        (0.5, 0.5),
        ("8", "8"),
        ('{"train": 8}', {"train": 8}),
        ("[1, 2", "[1, 2"),
        ("b\udcff.csv", "b\\xff.csv"),
        ('["a\\udcffb"]', ["a\\xffb"]),
        ("s3://key:secret@host/b", "s3://key@host/b"),
        (["x://u:secret@h"], ["x://u@h"]),
        (Path("a"), "a"),
    ],
)
def test_settings_are_plain_and_without_passwords(value, written):
    given = {"setting": value, "unset": None, "__own__": 1}
    origin = make_origin(Executor(), "Gen", given, output="examples")
    assert origin.made_by.settings == {"setting": written}
    assert b"secret" not in origin.to_json().encode()


def test_all_datasets_on_the_way_are_told_each_once(tmp_path, write_dataset):
    rows = [[{"label": [1]}]]
    raw, others = (
        open_dataset(write_dataset(tmp_path / name, {"train": rows * count}, {}))
        for name, count in (("raw", 1), ("others", 2))
    )
    executor = Executor()
    first = make_origin(executor, "Gen", {"input_base": "photos/"}, output="examples")
    (tmp_path / "raw" / LINEAGE_FILE).write_text(first.to_json())
    write_dataset(tmp_path / "second", {"train": rows * 3}, {})
    second = make_origin(executor, "One", {}, output="out", inputs={"examples": [raw, others]})
    (tmp_path / "second" / LINEAGE_FILE).write_text(second.to_json())
    given = [open_dataset(str(tmp_path / "second")), raw]
    third = make_origin(executor, "Two", {"seed": 1}, output="out", inputs={"examples": given})
    assert [Path(each.uri).name for each in third.ancestors] == ["raw", "others", "second"]
    assert [each.made_by and each.made_by.component for each in third.ancestors] == [
        "Gen",
        None,
        "One",
    ]
    assert third.ancestors[0].made_by.settings == {"input_base": "photos/"}
    assert [each.key for each in third.made_by.inputs] == [third.ancestors[i].key for i in (2, 0)]
    assert third.ancestors[1].summary.num_shards == {"train": 2}


def test_a_damaged_lineage_of_an_input_does_not_stop_the_work(tmp_path, write_dataset):
    raw = open_dataset(write_dataset(tmp_path / "raw", {"train": [[{"label": [1]}]]}, {}))
    (tmp_path / "raw" / LINEAGE_FILE).write_text("{")
    origin = make_origin(Executor(), "Two", {}, output="out", inputs={"examples": [raw]})
    assert [(each.uri, each.made_by) for each in origin.ancestors] == [(raw.uri, None)]
