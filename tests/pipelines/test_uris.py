"""Public functions take a uri as a string, an `os.PathLike` or a result of `convert`."""

import ast
import dataclasses
import pathlib

import pytest

import pipelines
import trainer_utils
from components import steps
from components.auditing.audit import audit_dataset
from components.balancing.planning import plan
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import ImageSettings
from components.report.doctor import dataset_checks
from components.report.inspection import inspect_dataset
from components.report.page import render_report
from components.report.records import read_examples
from components.settings import AuditSettings
from pipelines.lineage.datasets import load_datasets
from pipelines.lineage.lookup import describe_artifact
from pipelines.tools.browse import BrowseServer
from pipelines.tools.conversion import convert
from pipelines.tools.diff import compare_datasets
from pipelines.tools.forget import Forgetting
from pipelines.tools.layouts import describe_layouts
from pipelines.tools.verification import verify_dataset
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.location import list_dataset, newest_dataset, read_manifest

ROOT = pathlib.Path(__file__).parents[2]
FORMS = {"path": lambda result: pathlib.Path(result.uri), "result": lambda result: result}


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uris")
    (folder / "rows.csv").write_text("text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(20)))
    return pipelines.convert(folder / "rows.csv", folder / "out", num_shards=1)


def browse(uri):
    with BrowseServer(uri) as server:
        return server.uri, server.reader.splits


CALLS = {
    "iterate": lambda uri: [one["id"].tolist() for one in trainer_utils.iterate(uri)],
    "plan": lambda uri: trainer_utils.plan(uri, batch_size=4),
    "recipe": lambda uri: trainer_utils.Recipe([trainer_utils.Part(uri)]).parts[0].place,
    "open_dataset": lambda uri: open_dataset(uri).uri,
    "list_dataset": lambda uri: list_dataset(uri).sizes,
    "newest_dataset": newest_dataset,
    "read_manifest": read_manifest,
    "inspect_dataset": inspect_dataset,
    "read_examples": lambda uri: [*read_examples(uri, count=2)],
    "dataset_checks": lambda uri: [*dataset_checks(uri)],
    "render_report": render_report,
    "audit_dataset": lambda uri: audit_dataset(uri, against=uri),
    "steps.audit": lambda uri: steps.audit(uri, None, AuditSettings(), against=uri),
    "balancing plan": plan,
    "verify_dataset": verify_dataset,
    "compare_datasets": lambda uri: compare_datasets(uri, uri),
    "BrowseServer": browse,
    "describe_artifact": lambda uri: describe_artifact(uri, metadata=uri),
    "load_datasets": lambda uri: load_datasets(uri, root=uri),
    "Forgetting.find": lambda uri: Forgetting.find(["rows.csv:1"], [uri]).names,
    "add": lambda uri: BalancerSettings(add=[uri], exclude=uri, relabel=uri),
    "base_dataset": lambda uri: ImageSettings(base_dataset=uri, file_roots=[uri]),
    "cache": lambda uri: trainer_utils.InputOptions(cache=uri).cache,
    "to_properties": lambda uri: BalancerSettings.to_properties({"add": [uri], "exclude": uri}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", CALLS)
def test_uris_may_be_paths_and_results(result, call, form):
    expected = CALLS[call](result.uri)
    assert CALLS[call](FORMS[form](result)) == expected


def test_sources_of_layouts_may_be_paths(result):
    table = pathlib.Path(result.uri).parents[4] / "rows.csv"
    assert describe_layouts(table) == describe_layouts(str(table))


@pytest.mark.parametrize("form", FORMS)
def test_steps_write_from_and_to_paths(result, form, tmp_path):
    given = FORMS[form](result)
    balanced = steps.balance([given], tmp_path / "balanced", BalancerSettings(num_shards=2))
    assert balanced.manifest.total.written == 20
    exported = steps.export_schema(
        given, tmp_path / "datum", schema=pathlib.Path(result.schema), schema_uri=tmp_path / "tfx"
    )
    assert exported.num_features == 3
    assert convert.balance(given, tmp_path / "again").startswith(str(tmp_path / "again"))


def test_result_is_a_frozen_dataclass_with_the_uri(result):
    assert not isinstance(result, str)
    assert (str(result), f"{result}", pathlib.Path(result)) == (
        result.uri,
        result.uri,
        pathlib.Path(result.uri),
    )
    assert (result.found, result.written, result.rejected, result.skipped) == (20, 20, 0, 0)
    assert result == dataclasses.replace(result)
    assert hash(result) == hash(dataclasses.replace(result))
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.uri = "elsewhere"
    assert repr(result).startswith(f"ConversionResult(uri='{result.uri}', examples='")


PUBLIC = (
    *("components/steps.py", "components/auditing/audit.py", "components/balancing/planning.py"),
    *("components/report/doctor.py", "components/report/inspection.py"),
    *("components/report/page.py", "components/report/records.py"),
    *("pipelines/lineage/datasets.py", "pipelines/tools/conversion/convert.py"),
    *("trainer_utils/ledger/recorder.py", "trainer_utils/training/input_backup.py"),
    *("trainer_utils/training/loop.py", "trainer_utils/writing/dataset_writer.py"),
    *("trainer_utils/monitoring/bench.py", "trainer_utils/monitoring/image_grid.py"),
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "pipelines/tools").glob("*.py"))),
    *(f"trainer_utils/frameworks/{name}.py" for name in ("numpy", "torch", "jax", "keras")),
)
URIS = {"uri", "artifact_uri", "examples", "place", "out", "metadata", "before", "after", "run"}
URIS |= {"root", "roots", "datasets", "backup_dir", "folder", "against", "statistics", "schema"}
ONLY_STRINGS = {"str", "str | None", "Sequence[str]"}
INTERNAL = {  # called with strings by the functions above
    *("plan_split.uri", "point_to.out", "point_to.uri", "check_balancing.out", "find_artifact.uri"),
    *("check_findings.uri",),
}


@pytest.mark.parametrize("path", PUBLIC)
def test_public_functions_declare_that_uris_may_be_paths(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        is_public = isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        for one in [*node.args.args, *node.args.kwonlyargs] if is_public else ():
            kind = one.annotation and ast.unparse(one.annotation)
            if one.arg in URIS and kind in ONLY_STRINGS:
                found.add(f"{node.name}.{one.arg}")
    assert not found - INTERNAL
