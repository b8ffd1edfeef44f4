"""Versions of packages that work together, or do not."""

import pytest

from pipelines.tools.doctor.packages import package_checks
from tests.pipelines.tools.doctor.checks import by_name


@pytest.mark.parametrize(
    ("python", "tfx", "level", "said"),
    [
        ((3, 10, 13), "1.16.0", "ok", "with TFX 1.16.0"),
        ((3, 12, 1), "1.16.0", "bad", "exists for Python 3.10 at the latest"),
        ((3, 13, 5), "1.21.0", "ok", "with TFX 1.21.0"),
        ((3, 14, 0), "1.21.0", "bad", "exists for Python 3.13 at the latest"),
        ((3, 12, 1), None, "ok", "'tfx-shards[tfx]' adds the rest"),
        ((3, 14, 0), None, "ok", "TFX exists for Python 3.13 at the latest"),
        ((3, 10, 1), None, "ok", "'tfx-shards[tfx]' adds the rest"),
    ],
)
def test_python_and_tfx_must_fit(installed, monkeypatch, python, tfx, level, said):
    import sys

    installed(tfx=tfx)
    monkeypatch.setattr(sys, "version_info", python)
    check = by_name(package_checks())["python"]
    assert check.level == level
    assert said in check.message


def test_versions_that_do_not_work_together_are_named(installed):
    needs = {"tfx-shards": ["protobuf==3.20.3", "nothing-such>=1; extra == 'dev'"]}
    installed(needs, protobuf="4.25.0", tfx=None, tfx_shards="0.1.0")
    check = next(check for check in package_checks() if check.name == "packages")
    assert check.level == "bad"
    assert check.message == "tfx-shards needs protobuf==3.20.3, got protobuf 4.25.0"
    assert "pip install 'tfx-shards'" in check.cure


@pytest.mark.parametrize(
    ("versions", "legacy", "level", "said"),
    [
        (dict(tensorflow="2.16.2", tf_keras="2.16.0"), "1", "ok", "with tf-keras 2.16.0"),
        (dict(tensorflow="2.16.2", tf_keras="2.18.0"), "1", "bad", "must be the same"),
        (dict(tensorflow="2.16.2", tf_keras=None), "1", "bad", "tf-keras is not installed"),
        (dict(tensorflow="2.16.2", tf_keras=None, keras="3.4.1"), "0", "ok", "with Keras 3.4.1"),
        (dict(tensorflow=None, tensorflow_cpu=None), "0", "bad", "not installed"),
    ],
)
def test_keras_and_tensorflow_must_fit(installed, monkeypatch, versions, legacy, level, said):
    installed(**versions)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", legacy)
    checks = by_name(package_checks())
    check = checks.get("keras") or checks["tensorflow"]
    assert check.level == level
    assert said in check.message
