"""Addresses of Kubeflow's API, and the credentials of its own client."""

import json
from pathlib import Path

import pytest

from pipelines.lineage.kubeflow_access import KubeflowAccess
from trainer_utils.format import ConfigError, InputError

ADDRESS = "kfp+https://kubeflow.example/pipeline"
SECRET = "sesame"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path) -> Path:
    for variable in ("KFP_EXISTING_TOKEN", "KFP_NAMESPACE", "KF_PIPELINES_SA_TOKEN_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write_context(home: Path, text: str) -> None:
    path = home / ".config/kfp/context.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("address", "url", "namespace"),
    [
        (ADDRESS, "https://kubeflow.example/pipeline", ""),
        (f"{ADDRESS}/?namespace=team", "https://kubeflow.example/pipeline", "team"),
        ("kfp+http://localhost:8080", "http://localhost:8080", ""),
        ("kfp+http://[::1]:8080/", "http://[::1]:8080", ""),
    ],
)
def test_an_address_is_the_url_of_kubeflows_client_and_a_namespace(address, url, namespace):
    access = KubeflowAccess.of(address)
    assert (access.url, access.namespace, access.shown) == (url, namespace, address)


@pytest.mark.parametrize(
    "address",
    [
        "kfp+ftp://host",
        "kfp+https://",
        "kfp+https://host?experiment=1",
        "kfp+https://host?namespace=a&namespace=b",
        "kfp+https://host#part",
        f"kfp+https://user:{SECRET}@host",
    ],
)
def test_another_address_is_refused_and_no_password_shown(address):
    with pytest.raises(ConfigError, match=r"metadata: expected kfp\+https://host") as caught:
        KubeflowAccess.of(address)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "context", "namespace"),
    [
        ("team", {}, "team"),
        ("kubeflow", {}, ""),  # kfp's default: where Kubeflow itself is
        ("kubeflow", {"namespace": "kept"}, "kept"),
        ("team", {"namespace": "kept"}, "team"),
    ],
)
def test_the_usual_namespace_is_that_of_kubeflows_client(
    monkeypatch, home, variable, context, namespace
):
    monkeypatch.setenv("KFP_NAMESPACE", variable)
    write_context(home, json.dumps(context))
    assert KubeflowAccess.of(ADDRESS).namespace == namespace
    assert KubeflowAccess.of(f"{ADDRESS}?namespace=named").namespace == "named"


def test_a_token_is_the_variables_else_that_of_the_file_as_it_is_now(monkeypatch, tmp_path):
    access = KubeflowAccess.of(ADDRESS)
    assert access.headers() == {}
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    assert access.headers() == {"Authorization": "Bearer first"}
    (tmp_path / "token").write_text("renewed\n")
    assert access.headers() == {"Authorization": "Bearer renewed"}
    monkeypatch.setenv("KFP_EXISTING_TOKEN", SECRET)
    assert access.headers() == {"Authorization": f"Bearer {SECRET}"}


def test_cookie_and_header_are_those_that_kubeflows_client_keeps(home):
    kept = {
        "client_authentication_cookie": "session=1",
        "client_authentication_header_name": "X-User",
        "client_authentication_header_value": "me",
    }
    write_context(home, json.dumps(kept))
    assert KubeflowAccess.of(ADDRESS).headers() == {"Cookie": "session=1", "X-User": "me"}


def test_what_is_no_token_and_no_file_is_an_error_that_shows_no_secret(monkeypatch, home):
    access = KubeflowAccess.of(ADDRESS)
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(home / "nowhere"))
    with pytest.raises(InputError, match=r"KF_PIPELINES_SA_TOKEN_PATH '.*nowhere': expected"):
        access.headers()
    monkeypatch.setenv("KFP_EXISTING_TOKEN", f"{SECRET}\nX-Evil: 1")
    with pytest.raises(InputError, match=r"Authorization for .*expected one line") as caught:
        access.headers()
    assert SECRET not in str(caught.value)
    write_context(home, "{")
    with pytest.raises(InputError, match=r"context\.json': expected the JSON"):
        access.headers()
