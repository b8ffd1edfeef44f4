"""ImageExampleGen's driver: the fingerprint that decides if TFX runs again or uses its cache."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tfx import types
from tfx.components.example_gen import utils
from tfx.components.example_gen.driver import FileBasedDriver
from tfx.orchestration import data_types
from tfx.orchestration.portable import data_types as portable_data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.proto.orchestration import driver_output_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components import ImageExampleGen
from components.image_example_gen import Executor
from tests.components.image_example_gen.image_runs import photo, write_photos
from tests.components.runs import input_config
from tests.make import refusing, write_files


def properties_of(base: Path, config: str | None, range_config: str | None) -> dict:
    return {
        "input_base": str(base),
        "input_config": config or proto_utils.proto_to_json(utils.make_default_input_config()),
        "output_config": proto_utils.proto_to_json(example_gen_pb2.Output()),
        "range_config": range_config,
    }


def drive(
    base: Path, config: str | None = None, range_config: str | None = None, **settings: str
) -> dict:
    """Return the execution properties that the component's driver gives to TFX's launcher."""
    driver = ImageExampleGen.DRIVER_CLASS(None)  # type: ignore[arg-type]  # needs no metadata here
    return driver.resolve(properties_of(base, config, range_config) | settings)


def fingerprint(base: Path, config: str | None = None, **settings: str) -> str:
    return drive(base, config, **settings)[utils.FINGERPRINT_PROPERTY_NAME]


def edit(path: Path) -> None:
    """Change one byte in place, with the same size, modification and access time."""
    before, probe = path.stat(), path.with_name("probe")
    probe.write_bytes(b"x")
    while probe.stat().st_ctime_ns <= before.st_ctime_ns:  # file times have a coarse resolution
        probe.write_bytes(b"x")
    probe.unlink()
    data = bytearray(path.read_bytes())
    data[-4] ^= 1
    with path.open("r+b") as stream:
        stream.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def write_base(folder: Path) -> Path:
    """Write photos in folders three levels deep, which TFX's driver ignores."""
    names = ["train/cat/1.jpg", "train/cat/2.jpg", "train/dog/deep/3.jpg", "eval/dog/4.jpg"]
    return write_photos(folder / "in", *names)


def swap_two(base: Path) -> None:
    one, two = base / "train/cat/1.jpg", base / "train/cat/2.jpg"
    one.rename(base / "three")
    two.rename(one)
    (base / "three").rename(two)


def replace_by_a_link(base: Path) -> None:
    (base / "train/cat/2.jpg").unlink()
    (base / "train/cat/2.jpg").symlink_to("1.jpg")


def renames(one: str, other: str) -> Callable[[Path], object]:
    return lambda base: (base / one).rename(base / other)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a photo more": lambda base: (base / "eval/dog/5.jpg").write_bytes(photo(9)),
    "one less": lambda base: (base / "train/cat/2.jpg").unlink(),
    "another name": renames("train/cat/2.jpg", "train/cat/22.jpg"),
    "another class": renames("train/cat/2.jpg", "train/dog/2.jpg"),
    "a class's name": renames("train/cat", "train/cow"),
    "a split's name": renames("eval", "test"),
    "two swapped": swap_two,
    "edited in place": lambda base: edit(base / "train/cat/2.jpg"),
    "edited deep down": lambda base: edit(base / "train/dog/deep/3.jpg"),
    "longer": lambda base: (base / "train/cat/2.jpg").write_bytes(photo(1) + b"x"),
    "a link": replace_by_a_link,
}


OTHERS: dict[str, Callable[[Path], object]] = {
    "a photo read": lambda base: (base / "train/cat/1.jpg").read_bytes(),
    "a file outside": lambda base: (base.parent / "outside.jpg").write_bytes(photo(9)),
    "a folder alike": lambda base: write_photos(base.with_name("in-2"), "train/cat/1.jpg"),
    "folders touched": lambda base: [os.utime(base / n, (0, 0)) for n in ("", "train", "eval")],
    "an empty folder": lambda base: (base / "train/emu").mkdir(),
}


def test_fingerprint_changes_only_with_the_photos(tmp_path, subtests):
    for name, change in CHANGES.items():
        with subtests.test(name=name):
            base = write_base(tmp_path / name)
            before = fingerprint(base)
            change(base)
            assert fingerprint(base) != before, name
    base = write_base(tmp_path / "others")
    before = fingerprint(base)
    for name, change in OTHERS.items():
        with subtests.test(name=name):
            change(base)
            assert fingerprint(base) == before, name


def test_fingerprint_covers_selected_files_and_pattern_names(tmp_path):
    base = write_base(tmp_path)
    one, two, other = {"train": "train/*"}, {"eval": "eval/*"}, {"eval": "train/*"}
    configs = [one | two, one | {"test": "eval/*"}, {"train": "eval/*"} | other]
    configs.append({"train": "train/cat/*"})
    before = [fingerprint(base, input_config(**patterns)) for patterns in configs]
    assert len({*before}) == 4
    CHANGES["a photo more"](base)
    edit(base / "train/dog/deep/3.jpg")
    after = [fingerprint(base, input_config(**patterns)) for patterns in configs]
    assert after[3] == before[3]
    assert not {*after[:3]} & {*before}
    edit(base / "train/cat/1.jpg")
    assert fingerprint(base, input_config(**configs[3])) != before[3]


def test_fingerprint_changes_with_a_csv_or_its_listed_files(tmp_path):
    base = write_photos(tmp_path / "x" / "in", "photos/cat/1.jpg", "photos/dog/2.jpg")
    text = "TRAIN,../../photos/cat/1.jpg,cat\nTEST,../../photos/dog/2.jpg,dog\n"
    path = write_files(base, {"lists/mine/list.csv": text}) / "lists/mine/list.csv"
    seen = []
    for change in (
        lambda: None,
        lambda: None,
        lambda: edit(base / "photos/dog/2.jpg"),
        lambda: edit(path),
        lambda: path.write_text(text.replace("TEST", "TRAIN")),
        lambda: path.write_text(text + "TEST,../../photos/new.jpg,dog\n"),
        lambda: (base / "photos/cat/1.jpg").unlink(),
    ):
        change()
        seen.append(fingerprint(base, input_config(all="lists/mine/list.csv")))
    assert seen[0] == seen[1]
    assert len({*seen}) == 6


PATTERNS = {"train": "span-{SPAN:2}/v{VERSION}/x/*", "eval": "span-{SPAN:2}/v{VERSION}/y/*"}


@pytest.fixture
def spans(tmp_path) -> Path:
    folders = ["span-01/v1", "span-02/v1", "span-02/v2"]
    names = [f"{folder}/{part}/cat/1.jpg" for folder in folders for part in ("x", "y")]
    return write_photos(tmp_path / "x" / "in", *names)


def test_fingerprint_changes_only_with_a_later_span(spans):
    config = input_config(**PATTERNS)
    before = fingerprint(spans, config)
    edit(spans / "span-01/v1/x/cat/1.jpg")
    write_photos(spans, "span-02/v1/x/dog/2.jpg")
    assert fingerprint(spans, config) == before
    write_photos(spans, "span-03/v1/x/cat/1.jpg", "span-03/v1/y/cat/1.jpg")
    assert fingerprint(spans, config) != before


def convert(properties: dict, uri: Path) -> bytes:
    """Run the executor with the driver's result, and return the shard of the train split."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    Executor().Do({}, {"examples": [artifact]}, properties)
    return (uri / "Split-train/data_tfrecord-00000-of-00001").read_bytes()


def test_executor_reads_the_resolved_span_despite_a_later_one(spans, tmp_path):
    resolved = drive(spans, input_config(**PATTERNS))
    write_photos(spans, "span-03/v1/x/cat/1.jpg", "span-03/v1/y/cat/1.jpg")
    resolved_later = drive(spans, input_config(**PATTERNS))
    assert b"span-02/v2/x/cat/1.jpg" in convert(resolved, tmp_path / "out")
    assert b"span-03/v1/x/cat/1.jpg" in convert(resolved_later, tmp_path / "later")


def run_as_pipeline(driver_class: type, properties: dict) -> driver_output_pb2.DriverOutput:
    """Return the driver's output for TFX's launcher, without the fingerprint, which differs."""
    examples = standard_artifacts.Examples()
    examples.uri = "somewhere"
    info = portable_data_types.ExecutionInfo(
        exec_properties=dict(properties), output_dict={"examples": [examples]}
    )
    output = driver_class(None).run(info)
    (described,) = output.output_artifacts["examples"].artifacts
    for values in (output.exec_properties, described.custom_properties):
        assert values.pop(utils.FINGERPRINT_PROPERTY_NAME).string_value
    return output


def run_in_notebook(driver_class: type, properties: dict, root: Path) -> tuple:
    """Return the uri and properties for TFX's interactive context, without the fingerprint."""
    pipeline_info = data_types.PipelineInfo("name", str(root))
    component_info = data_types.ComponentInfo("type", "id", pipeline_info)
    driver = driver_class(None)
    resolved = driver.resolve_exec_properties(dict(properties), pipeline_info, component_info)
    channels = {"examples": types.Channel(type=standard_artifacts.Examples)}
    made = driver._prepare_output_artifacts(
        {}, channels, resolved, 7, pipeline_info, component_info
    )
    (examples,) = made.pop("examples")
    assert not made
    assert examples.mlmd_artifact.custom_properties.pop(utils.FINGERPRINT_PROPERTY_NAME)
    assert Path(examples.uri).is_dir()
    properties = examples.mlmd_artifact.custom_properties
    # TFX also sets a name and a producer, except for its own ExampleGens.
    return examples.uri, {n: properties[n] for n in ("span", "version") if n in properties}


@pytest.mark.parametrize("has_list", [False, True])
def test_pipeline_root_among_the_inputs_is_refused(tmp_path, has_list):
    base = write_photos(tmp_path / "in", *(f"{c}/{n}.jpg" for c in "ab" for n in range(2)))
    given = base
    if has_list:
        given = base / "list.csv"
        given.write_text("image,label\na/0.jpg,x\nb/1.jpg,y\n")
    properties = properties_of(given, None, None)
    driver = ImageExampleGen.DRIVER_CLASS(None)  # type: ignore[arg-type]
    examples = standard_artifacts.Examples()
    info = portable_data_types.ExecutionInfo(
        exec_properties=properties, output_dict={"examples": [examples]}
    )
    pipeline_info = data_types.PipelineInfo("name", str(base / "runs"))
    examples.uri = str(base / "runs/ImageExampleGen/examples/1")
    with refusing("pipeline_root"):
        driver.run(info)
    with refusing("pipeline_root"):
        driver.resolve_exec_properties(dict(properties), pipeline_info, None)
    examples.uri = str(tmp_path / "runs/examples/1")
    assert driver.run(info).exec_properties


def test_output_that_no_pattern_matches_is_allowed(tmp_path):
    base = write_photos(tmp_path / "in", *(f"a/{n}.jpg" for n in range(2)))
    properties = properties_of(base, input_config(train="a/*"), None)
    driver = ImageExampleGen.DRIVER_CLASS(None)  # type: ignore[arg-type]
    assert driver.resolve(properties, str(base / "runs/examples/1"))
    with refusing("pipeline_root"):
        driver.resolve(properties, str(base / "a/runs"))


@pytest.mark.parametrize(
    ("patterns", "range_config"),
    [
        ({}, None),
        ({"train": "span-02/v2/x/*", "eval": "span-02/v2/y/*"}, None),
        (PATTERNS, None),
        (PATTERNS, range_config_pb2.StaticRange(start_span_number=1, end_span_number=1)),
    ],
    ids=["all files", "no spans", "latest span", "given span"],
)
def test_driver_sets_the_same_properties_as_tfx(spans, tmp_path, patterns, range_config):
    given = range_config and range_config_pb2.RangeConfig(static_range=range_config)
    config = input_config(**patterns) if patterns else None
    properties = properties_of(spans, config, given and proto_utils.proto_to_json(given))
    theirs, ours = FileBasedDriver, ImageExampleGen.DRIVER_CLASS
    assert run_as_pipeline(ours, properties) == run_as_pipeline(theirs, properties)
    one, other = (run_in_notebook(d, properties, tmp_path / "root") for d in (ours, theirs))
    assert one == other


def test_only_named_files_of_a_file_root_count(tmp_path):
    there = write_photos(tmp_path / "there", "1.jpg", "2.jpg", "unnamed.jpg")
    base = tmp_path / "in"
    base.mkdir()
    (base / "list.csv").write_text(f"image,label\n{there}/1.jpg,a\n{there}/2.jpg,b\n")
    before = fingerprint(base, file_roots=json.dumps([str(there)]))
    (there / "unnamed.jpg").write_bytes(b"another")
    assert fingerprint(base, file_roots=json.dumps([str(there)])) == before
    (there / "2.jpg").write_bytes(photo(7))
    assert fingerprint(base, file_roots=json.dumps([str(there)])) != before
