"""Test how endpoints and credentials are found."""

import pytest

from trainer_utils import ConfigError
from trainer_utils.storage import store_settings

pytest.importorskip("obstore")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    """Remove all settings of this machine."""
    import os

    for name in list(os.environ):
        if name.startswith(("AWS_", "MINIO_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(store_settings, "_MACHINE", tmp_path / "sys_vendor")


def config(scheme: str = "s3") -> dict:
    return dict(store_settings.open_store(scheme, "bucket").config)


def test_only_amazon_machines_sign_without_credentials(tmp_path):
    found = config()
    assert str(found["skip_signature"]).lower() == "true"
    assert found["region"] == "us-east-1"
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    assert "skip_signature" not in config()


def test_environment_takes_precedence_over_profiles(monkeypatch, tmp_path):
    pytest.importorskip("boto3")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text(
        "[default]\nregion = eu-west-1\nendpoint_url = http://p:1\n"
    )
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = file\naws_secret_access_key = f\n"
        "[other]\naws_access_key_id = other\naws_secret_access_key = o\naws_session_token = t\n"
    )

    def keys() -> dict:
        return dict(store_settings._s3("s3")["credential_provider"]())

    assert (config()["region"], config()["endpoint"]) == ("eu-west-1", "http://p:1")
    assert keys()["access_key_id"] == "file"
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert (keys()["access_key_id"], keys()["token"]) == ("other", "t")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://env:1")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert (config()["endpoint"], config()["region"]) == ("http://env:1", "eu-north-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3:1")
    assert config()["endpoint"] == "http://s3:1"
    monkeypatch.setenv("AWS_PROFILE", "gone")
    with pytest.raises(ConfigError, match="'gone'"):
        config()


def test_minio_endpoint_follows_kubeflow(monkeypatch):
    assert config("minio")["endpoint"] == "http://minio-service.kubeflow:9000"
    monkeypatch.setenv("MINIO_SERVICE_SERVICE_HOST", "10.0.0.7")
    assert config("minio")["endpoint"] == "http://10.0.0.7:9000"
    monkeypatch.setenv("MINIO_ENDPOINT", "minio.mine:9001")
    monkeypatch.setenv("MINIO_ACCESS_KEY", "k")
    monkeypatch.setenv("MINIO_SECRET_KEY", "s")
    found = config("minio")
    assert (found["endpoint"], found["access_key_id"]) == ("http://minio.mine:9001", "k")


@pytest.mark.parametrize(
    ("endpoint", "variable", "is_signed"),
    [
        ("", None, False),
        ("https://minio.mine", None, False),
        ("http://minio.mine", None, True),
        ("http://minio.mine", "true", False),
        ("", "false", True),
    ],
)
def test_bodies_are_signed_without_tls(monkeypatch, endpoint, variable, is_signed):
    if endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    if variable is not None:
        monkeypatch.setenv("AWS_UNSIGNED_PAYLOAD", variable)
    assert (str(config().get("unsigned_payload", False)).lower() == "true") != is_signed


def test_azure_account_is_parsed_from_the_url():
    store = store_settings.open_store("abfss", "box@mine.dfs.core.windows.net")
    assert (store.config["container_name"], store.config["account_name"]) == ("box", "mine")
    assert store_settings.open_store("s3", "key@bucket").config["bucket"] == "key@bucket"
