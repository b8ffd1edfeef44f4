"""The conclusions of `measure_input`, and its reading of real datasets."""

import json

import pytest

from trainer_utils.core.errors import TfxShardsError
from trainer_utils.monitoring import measure_input
from trainer_utils.monitoring.bench import report_of


def stages(read, decode, batch, busy=0.4):
    rates = {"read": read, "decode": decode, "batch": batch}
    return {name: (rate, busy) for name, rate in rates.items()}


@pytest.mark.parametrize(
    ("measured", "bound", "slowest"),
    [
        (stages(10_000, 1_000, 950, busy=0.9), "processor", "decode"),
        (stages(10_000, 1_000, 950), "copying", "decode"),
        (stages(1_000, 950, 940), "storage", "read"),
        (stages(9_000, 7_000, 1_000), "copying", "batch"),
    ],
)
def test_the_stage_that_adds_most_time_is_the_bound(measured, bound, slowest):
    report = report_of(measured, batch_size=64, mean_bytes=100_000, cores=2)
    assert (report.bound, report.slowest) == (bound, slowest)
    assert f"Bound by: {bound}, mostly in {slowest}" in str(report)


def test_the_numbers_follow_from_records_per_second():
    report = report_of(stages(2_000, 500, 400), batch_size=40, mean_bytes=5_000, cores=2)
    assert [stage.megabytes_per_second for stage in report.stages] == [10, 2.5, 2]
    assert [stage.added_milliseconds for stage in report.stages] == pytest.approx([0.5, 1.5, 0.5])
    assert report.step_seconds == pytest.approx(0.1)
    assert "at least 100.0 ms" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["stages"][1]["name"] == "decode"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": "image", "label": "label", "image_size": (8, 8)},
        {"features": ["id", "label"], "shuffle": True},
    ],
)
def test_every_stage_of_a_dataset_is_measured(datum_photos, options):
    report = measure_input(datum_photos, "train[:50%]+val", batch_size=4, seconds=0.05, **options)
    assert [stage.name for stage in report.stages] == ["read", "decode", "batch"]
    assert all(stage.records_per_second > 0 for stage in report.stages)
    assert all(0 <= stage.busy <= 1 for stage in report.stages)


def test_inputs_that_cannot_be_measured_are_refused(datum_photos, subtests):
    for wrong in ({"seconds": 0}, {"split": "train[:0]"}, {"image": {"resize": "fit"}}):
        with subtests.test(wrong=wrong), pytest.raises(TfxShardsError):
            measure_input(datum_photos, **wrong)
