"""The modules that imports load, in separate processes, and the public names."""

import re
from pathlib import Path

import pytest

import trainer_utils
from tests.make import run_python

components = pytest.importorskip("components", exc_type=ImportError)

REPOSITORY = Path(__file__).parents[2]
HEAVY = ["tensorflow", "tfx", "apache_beam", "pyarrow"]
TFDS = str(REPOSITORY / "tests/golden/tfds")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import trainer_utils; trainer_utils.input_fn", ["tfx", "apache_beam"]),
        (
            "import trainer_utils as t; t.iterate, t.torch_dataset, t.jax_batches, t.keras_dataset",
            ["tensorflow", "tfx", "torch", "jax", "keras"],
        ),
        (
            f"import trainer_utils as t; list(t.iterate({TFDS!r}, image_size=(8, 8)))",
            [*HEAVY, "torch", "pandas"],
        ),
        ("import components, pipelines", ["tensorflow", "tfx", "apache_beam"]),
        (f"import trainer_utils.storage as s; s.list_files({TFDS!r})", ["fsspec"]),
        ("import trainer_utils.storage.remote, trainer_utils.dataset.selection", HEAVY),
        *(
            (f"from pipelines.cli import app; app([{c!r}, {TFDS!r}], standalone_mode=False)", HEAVY)
            for c in ("inspect", "verify", "show")
        ),
    ],
)
def test_imports_load_no_unneeded_modules(code, absent):
    finished = run_python(f"{code}; import sys; print([n for n in {absent!r} if n in sys.modules])")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "[]"


def test_components_without_tfx_say_so_in_one_line():
    finished = run_python(
        "import importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'tfx' else real(name, *rest)\n"
        "import components; components.ShardBalancer"
    )
    assert finished.returncode == 1
    last = finished.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: components needs TFX: run pip install 'tfx-shards[tfx]'")


def test_the_version_equals_the_distributions():
    (version,) = re.findall(
        r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert trainer_utils.__version__ == version


def test_the_public_names(subtests):
    assert " ".join(trainer_utils.__all__) == (
        "CacheOptions ConfigError CorruptShardError DatasetError DatasetWriter ImageOptions "
        "InputBackup InputOptions InputProgress InputState LabelOptions PackOptions Part Recipe "
        "cu_seqlens distribute evaluate fit image_decoder input_fn iterate jax_batches "
        "keras_dataset load load_state plan torch_dataset torch_loader"
    )
    assert " ".join(components.__all__) == (
        "AudioExampleGen DatasetAudit DatasetReport ImageExampleGen SchemaExport ShardBalancer "
        "TextExampleGen"
    )
    for package in (trainer_utils, components):
        with subtests.test(package=package):
            assert [name for name in package.__all__ if not hasattr(package, name)] == []
