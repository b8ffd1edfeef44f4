"""Metrics through OpenTelemetry, scraped from the page of its Prometheus exporter."""

import gc
import json
import re
import sys
import urllib.request
from pathlib import Path

import pytest

import trainer_utils
from components import steps
from components.example_gen.settings import ImageSettings
from tests.make import run_python
from trainer_utils.core.errors import InputError
from trainer_utils.monitoring import export_metrics
from trainer_utils.reading.input_stats import STAGES, WAITS
from trainer_utils.runtime import telemetry

exporter = pytest.importorskip("opentelemetry.exporter.prometheus")
sdk = pytest.importorskip("opentelemetry.sdk.metrics")
prometheus = pytest.importorskip("prometheus_client")

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana-dashboard.json"
SETTINGS = {"batch_size": 2, "shuffle": False}


@pytest.fixture
def scrape(monkeypatch):
    """Return a function that returns the samples of the exporter's page by name and labels.

    The page has a separate registry: the examples of docs/metrics.md export to the global one.
    """
    monkeypatch.setattr(telemetry, "_exporters", {})
    monkeypatch.setattr(telemetry, "inputs", telemetry.InputRegistry())
    registry = prometheus.CollectorRegistry()
    reader = exporter.PrometheusMetricReader(registry=registry)
    provider = sdk.MeterProvider([reader])
    export_metrics(provider)
    server, thread = prometheus.start_http_server(0, "127.0.0.1", registry)

    def samples() -> dict[tuple[str, ...], float]:
        address = f"http://127.0.0.1:{server.server_port}/metrics"
        page = urllib.request.urlopen(address).read().decode()
        found = {}
        for line in page.splitlines():
            if line.startswith("tfx_shards"):
                name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()
                pairs = re.findall(r'(\w+)="([^"]*)"', labels)
                told = [f"{key}={value}" for key, value in pairs if not key.startswith("otel_")]
                found[(name, *sorted(told))] = float(value)
        return found

    yield samples
    server.shutdown()
    server.server_close()
    thread.join()
    provider.shutdown()


@pytest.fixture(scope="module")
def raw_photos(tmp_path_factory, photos) -> Path:
    from PIL import Image

    folder = tmp_path_factory.mktemp("raw") / "photos"
    for number in range(6):
        (folder / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(photos[number]).save(folder / "ab"[number % 2] / f"{number}.png")
    return folder


def test_an_inputs_stats_are_on_the_page(scrape, of_all_kinds):
    source = trainer_utils.iterate(of_all_kinds, "train", features="label", **SETTINGS)
    for _ in source:
        pass
    found, stats = scrape(), source.stats()
    attributes = f"dataset={of_all_kinds}", "rank=0", "split=train"
    assert found[("tfx_shards_input_records_total", *attributes)] == stats.records == 11
    assert found[("tfx_shards_input_io_bytes_total", *attributes)] == stats.record_bytes
    assert found[("tfx_shards_input_batches_total", *attributes)] == stats.batches
    stages = {key[-1] for key in found if key[0] == "tfx_shards_input_stage_time_seconds_total"}
    assert stages == {f"stage={stage}" for stage in (*STAGES, *WAITS)}
    reading = "tfx_shards_input_stage_time_seconds_total", *attributes, "stage=read"
    assert found[reading] == pytest.approx(stats.read_seconds)


def test_counters_stay_when_an_input_is_collected(scrape, of_all_kinds):
    for count in (1, 2, 3):
        source = trainer_utils.iterate(of_all_kinds, "train", features="label", **SETTINGS)
        for _ in source:
            pass
        del source
        gc.collect()
        (records,) = [
            value for key, value in scrape().items() if key[0] == "tfx_shards_input_records_total"
        ]
        assert records == count * 11


def test_tensorflows_waits_are_on_the_page(scrape, of_all_kinds):
    dataset = trainer_utils.input_fn(of_all_kinds, "train", features="label", **SETTINGS)
    count = sum(1 for _ in dataset)
    found = {key[0]: value for key, value in scrape().items() if "stage=" not in key[-1]}
    assert found["tfx_shards_input_batches_total"] == count


def test_a_conversion_and_its_rejects_are_counted(scrape, raw_photos, tmp_path):
    copy = tmp_path / "photos"
    for path in raw_photos.rglob("*.png"):
        target = copy / path.relative_to(raw_photos)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (copy / "a" / "bad.png").write_bytes(b"no image")
    settings = ImageSettings(max_reject_fraction=0.5)
    manifest = steps.convert(copy, tmp_path / "out", settings).manifest
    found = scrape()
    for split, accounting in manifest.accounting.items():
        attributes = "operation=convert", f"split={split}"
        assert found[("tfx_shards_run_records_total", *attributes)] == accounting.written
        size = sum(path.stat().st_size for path in (tmp_path / "out" / f"Split-{split}").iterdir())
        assert found[("tfx_shards_run_io_bytes_total", *attributes)] == size
    rejects = {key: value for key, value in found.items() if key[0].endswith("rejects_total")}
    assert sum(rejects.values()) == manifest.total.rejected == 1
    assert found["tfx_shards_run_duration_seconds_count", "operation=convert"] == 1
    with pytest.raises(InputError):
        steps.convert(tmp_path / "missing", tmp_path / "other", settings)
    failed = "tfx_shards_run_duration_seconds_count", "error_type=InputError", "operation=convert"
    assert scrape()[failed] == 1


def test_the_dashboard_asks_for_exported_metrics(scrape, of_all_kinds, raw_photos, tmp_path):
    source = trainer_utils.iterate(of_all_kinds, "train", features="label", **SETTINGS)
    next(iter(source))
    telemetry.count_run("tfx_shards.run.rejects", 1, {"operation": "convert", "code": "EMPTY_FILE"})
    steps.convert(raw_photos, tmp_path / "out", ImageSettings())
    exported = {key[0] for key in scrape()}
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    names = {name for expression in asked for name in re.findall(r"\btfx_shards_\w+", expression)}
    assert names <= exported
    families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in exported}
    assert len(families) == len(telemetry.METRICS)


def test_no_import_of_opentelemetry_without_its_use(of_all_kinds):
    code = (
        "import sys, trainer_utils\n"
        "list(trainer_utils.iterate(sys.argv[1], 'train', batch_size=2, features='label'))\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert run_python(code, of_all_kinds).stdout.strip() == "False"


def test_a_missing_package_is_an_error_with_its_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(trainer_utils.ConfigError, match=r"pip install 'tfx-shards\[metrics\]'"):
        export_metrics()
