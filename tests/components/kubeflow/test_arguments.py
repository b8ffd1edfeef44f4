"""Test that constants are checked where a pipeline is compiled, and that other values are not."""

import traceback

import pytest
from kfp import compiler, dsl

from components import kubeflow
from components.kubeflow.arguments import SETTINGS, check_constants, is_constant
from tests.make import run_python
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import NumberRule, one_of, settings_of


def compiled(function, folder):
    compiler.Compiler().compile(dsl.pipeline(function, name="p"), str(folder / "p.yaml"))
    return (folder / "p.yaml").read_text()


@pytest.mark.parametrize(
    ("component", "given", "message"),
    [
        ("image_example_gen", {"layout": "foldr"}, "got 'foldr'. Did you mean 'folder'?"),
        ("image_example_gen", {"layout": "zip"}, "a parameter of the pipeline"),
        ("image_example_gen", {"num_shards": -3}, "num_shards: expected int at least 1, got -3"),
        ("image_example_gen", {"seed": 2**60}, "seed: expected a number below 2^53"),
        ("image_example_gen", {"quality": 101}, "quality: expected int from 1 to 100, got 101"),
        ("image_example_gen", {"encoding": "raw"}, "resize_shorter_side: expected pixels"),
        ("image_example_gen", {"columns": {"a": "imgae"}}, "columns['a']: expected one of"),
        ("image_example_gen", {"splits": {"train": 0.5}}, "splits: expected whole numbers, or"),
        ("image_example_gen", {"splits": {"a b": 1}}, "split 'a b': expected a name of"),
        ("image_example_gen", {"split_by": "user"}, "Pass the shares as well"),
        ("image_example_gen", {"input_patterns": {"train": 3}}, "input_patterns['train']"),
        ("image_example_gen", {"dataset_root": "data"}, "dataset_root: expected an absolute path"),
        ("image_example_gen", {"input_base": ""}, "got neither. Pass exactly one of"),
        ("text_example_gen", {"header": True, "min_chars": -1}, "min_chars: expected"),
        ("audio_example_gen", {"channels": 3}, "channels: expected one of"),
        ("shard_balancer", {"shards_by_split": {"train": -8}}, "num_shards['train']: expected int"),
        ("shard_balancer", {"where": "label ="}, "where"),
        ("shard_balancer", {"balance": "byte"}, "Did you mean 'bytes'?"),
        ("shard_balancer", {"balance": "bytes", "stratify_by": "label"}, "stratify_by: expected"),
        ("dataset_audit", {"fail_on": ["leakge"]}, "Did you mean 'leakage'?"),
        ("dataset_report", {"sample_records": -1}, "sample_records: expected int at least 1"),
        ("input_fingerprint", {"input_base": ""}, "input_base: expected a string"),
    ],
)
def test_wrong_constant_is_refused_when_compiled(component, given, message, tmp_path):
    def pipeline():
        examples = kubeflow.image_example_gen(input_base="/photos").outputs["examples"]
        needs_base = component.endswith(("_gen", "_fingerprint"))
        needed = {"input_base": "/photos"} if needs_base else {"examples": examples}
        getattr(kubeflow, component)(**{**needed, **given})

    with pytest.raises(ConfigError) as caught:
        compiled(pipeline, tmp_path)
    assert str(caught.value).startswith(f"{component}: ")
    assert message in str(caught.value)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames[-2:]] == ["pipeline", "__call__"]


def broken_value(setting):
    """Return a value that the rule of a setting does not allow; None if none is known."""
    if setting.is_collection and str in setting.kinds:
        return None
    if isinstance(setting.rule, NumberRule) and setting.rule.least > -(2**63):
        return setting.rule.least - 1
    if isinstance(setting.rule, one_of):
        return "no such choice" if str in setting.kinds else 17
    return "\0" if str in setting.kinds else None


def test_each_constant_is_checked_next_to_values_of_the_run():
    checked = 0
    for component, kind in SETTINGS.items():
        for name, setting in settings_of(kind).items():
            if not (value := broken_value(setting)):
                continue
            other = next((other for other in settings_of(kind) if other != name), None)
            for more in ({}, {other: "{{channel:task=;name=x;type=String;}}"} if other else {}):
                given = {"source": object(), **more, name: value}
                with pytest.raises(ConfigError, match=name):
                    check_constants(component, given)
                checked += 1
    assert checked > 100


def test_values_of_the_run_are_left_alone(tmp_path):
    def pipeline(
        base: str, layout: str = "foldr", shards: int = -3, fraction: float = 7.0, root: str = "x"
    ):
        version = kubeflow.input_fingerprint(input_base=base).output
        examples = kubeflow.image_example_gen(
            input_base=f"{base}/photos",
            input_version=version,
            layout=layout,
            num_shards=shards,
            splits={"train": f"{shards}", "eval": 1},
            split_by=layout,
            columns={"file": f"{layout}"},
            group_by=f"{layout}_id",
            max_reject_fraction=fraction,
            dataset_root=root,
            header=False,  # alone, it would be refused
        ).outputs["examples"]
        kubeflow.text_example_gen(source=examples, input_patterns={"train": f"{base}/*"})
        kubeflow.shard_balancer(
            examples=examples, exclude=dsl.PIPELINE_JOB_NAME_PLACEHOLDER, num_shards=8
        )

    assert "{{$.inputs.parameters" in compiled(pipeline, tmp_path)


def test_constants_of_older_packages_stay_allowed(tmp_path):
    def pipeline():
        kubeflow.image_example_gen(
            input_base="/photos",
            layout="",
            num_shards=0,
            splits={},
            vocabulary=["cat", "dog"],
            max_reject_fraction=1.0,
            seed=2**53 - 1,
            delimiter="",
            header=False,
            dataset_root="s3://bucket/data",
            input_patterns={"train": "train/*", "eval": "val/*"},
        )

    compiled(pipeline, tmp_path)


def test_misspelt_parameter_has_a_hint(tmp_path):
    def pipeline():
        kubeflow.image_example_gen(input_base="/photos", layuot="folder")

    with pytest.raises(TypeError, match=r"argument 'layuot'. Did you mean 'layout'\?"):
        compiled(pipeline, tmp_path)


def test_renamed_setting_works_with_a_warning(tmp_path):
    def pipeline(more: list):
        kubeflow.image_example_gen(input_base="/photos", image_roots=more)

    with pytest.warns(FutureWarning, match="file_roots") as caught:
        text = compiled(pipeline, tmp_path)
    assert "componentInputParameter: more" in text
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "value",
    [object(), "{{x}}", {"a": object()}, [["{{x}}"]], {"{{x}}": 1}],
)
def test_value_of_a_run_is_no_constant(value):
    assert not is_constant(value)


def test_constants_are_checked_without_tfx_or_tensorflow():
    code = (
        "import sys\n"
        "for name in ('tensorflow', 'tfx', 'apache_beam', 'ml_metadata', 'scipy'):\n"
        "    sys.modules[name] = None\n"
        "from components import kubeflow\n"
        "kubeflow.image_example_gen(input_base='/photos', layout='foldr')\n"
    )
    finished = run_python(code)
    assert "ConfigError: image_example_gen: layout: expected one of auto" in finished.stderr
    assert finished.stderr.rstrip().endswith("Did you mean 'folder'?")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "input_base: expected a path here or an artifact as source, got neither"),
        ({"input_base": "/x", "split_by": "user"}, "split_by: expected '' without splits"),
        ({"input_base": "/x", "input_patterns": {"a": 1}}, r"input_patterns\['a'\]: expected"),
    ],
)
def test_step_checks_its_arguments_in_the_pod(given, message):
    from components.kubeflow.run import run_step

    inputs = kubeflow.image_example_gen.component_spec.inputs
    defaults = {name: one.default for name, one in inputs.items()}
    with pytest.raises(ConfigError, match=f"^{message}"):
        run_step("image_example_gen", {**defaults, "examples": None, **given})
