"""Kubeflow's API asked over HTTP: pages, rights, and each way in which it may refuse."""

import json
import socket

import pytest

from pipelines.lineage import describe_artifact, list_runs
from pipelines.lineage.kubeflow_access import KubeflowAccess
from pipelines.lineage.kubeflow_api import KubeflowApi
from trainer_utils.format import InputError


def api(server) -> KubeflowApi:
    return KubeflowApi(KubeflowAccess.of(server.address))


@pytest.mark.parametrize("most_entries", [1, 2, 5, 200])
def test_all_pages_are_read(kubeflow, most_entries):
    kubeflow.most_entries = most_entries
    made = [kubeflow.artifact(f"{number}", f"s3://b/{number % 2}") for number in range(5)]
    for artifact in made:
        kubeflow.task("r", f"of-{artifact['name']}", {}, {"out": [artifact]})
    kubeflow.run("r")
    assert api(kubeflow).artifacts() == made
    assert api(kubeflow).artifacts("s3://b/1") == made[1::2]
    assert api(kubeflow).tasks("r") == kubeflow.tasks
    assert [run["run_id"] for run in api(kubeflow).runs()] == ["r"]
    links = api(kubeflow).links([artifact["artifact_id"] for artifact in made])
    assert [link["task_id"] for link in links] == [task["task_id"] for task in kubeflow.tasks]


def test_more_artifacts_than_fit_in_a_url_are_asked_for_in_parts(kubeflow):
    kubeflow.most_entries = 200
    made = [kubeflow.artifact(f"{number}", f"s3://b/{number}") for number in range(120)]
    kubeflow.task("r", "gen", {}, {"out": made})
    links = api(kubeflow).links([artifact["artifact_id"] for artifact in made])
    assert [link["artifact_id"] for link in links] == [one["artifact_id"] for one in made]
    assert len(kubeflow.asked) == 3


def test_the_namespace_and_the_token_go_with_the_questions(kubeflow, monkeypatch):
    kubeflow.namespace, kubeflow.token = "team", "sesame"
    kubeflow.run("r", display_name="nightly")
    kubeflow.task("r", "gen")
    monkeypatch.setenv("KFP_EXISTING_TOKEN", "sesame")
    with pytest.raises(
        InputError, match=r"400 .*namespace is empty\. .*\?namespace=NAME"
    ) as caught:
        list_runs(kubeflow.address)
    assert "\n" not in str(caught.value)
    runs = list_runs(f"{kubeflow.address}?namespace=team")
    assert [run.name for run in runs.runs] == ["nightly (r)"]
    monkeypatch.setenv("KFP_EXISTING_TOKEN", "wrong-one")
    with pytest.raises(InputError, match=r"401 .*User identity is empty\. Set KFP_EXIST") as caught:
        list_runs(f"{kubeflow.address}?namespace=team")
    assert "wrong-one" not in str(caught.value)


ERRORS = {
    "forbidden": (403, {}, '{"message": "not yours"}', r"403 .*not yours\. Is the namespace"),
    "before the API": (404, {}, "404 page not found", r"404 .*page not found\. .*grpc://host:8080"),
    "its own": (500, {}, '{"message": "database\\n is gone"}', r"500 .*: database is gone\.$"),
    "no reason": (503, {}, "", "503"),
    "long": (500, {}, "x" * 5000, r"x…\.$"),
    "login": (302, {"Location": "http://127.0.0.1:9/login"}, "", r"elsewhere \(302\).*KFP_EXIST"),
    "page": (200, {}, "<html>Welcome</html>", r"expected JSON, got <html>Welcome.*kfp\+https"),
    "list": (200, {}, "[]", r"expected JSON, got \[\]"),
    "other": (200, {}, '{"artifacts": {"a": 1}}', "expected a list of artifacts"),
    "entries": (200, {}, '{"artifacts": [{"id": 1}]}', r"others \(KeyError: 'artifact_id'\)"),
    "texts": (200, {}, '{"artifacts": ["a"]}', "expected the runs, tasks and artifacts"),
    "round": (200, {}, '{"next_page_token": "1"}', "same page again and again"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_every_refusal_is_one_line_with_place_and_cure(kubeflow, case):
    status, headers, text, message = ERRORS[case]
    kubeflow.answers["artifacts"] = status, headers, text
    with pytest.raises(InputError, match=message) as caught:
        describe_artifact("s3://b/1", metadata=kubeflow.address)
    assert kubeflow.address in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_login_elsewhere_does_not_get_the_token(kubeflow, monkeypatch):
    monkeypatch.setenv("KFP_EXISTING_TOKEN", "sesame")
    elsewhere = f"{kubeflow.address.removeprefix('kfp+').removesuffix('/pipeline')}/login"
    kubeflow.answers["runs"] = 302, {"Location": elsewhere}, ""
    with pytest.raises(InputError, match="elsewhere"):
        list_runs(kubeflow.address)
    assert kubeflow.asked == ["/pipeline/apis/v2beta1/runs"]


def test_nobody_there_is_said(kubeflow):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"kfp+http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(InputError, match=r"no answer: .*refused.* Is Kubeflow running"):
        list_runs(place)


def test_a_wrong_path_is_said(kubeflow):
    with pytest.raises(InputError, match=r"404 .*Is the path right, as in kfp\+https"):
        list_runs(kubeflow.address.removesuffix("/pipeline"))


def test_a_uri_goes_to_the_server_as_it_is(kubeflow):
    odd = 's3://b/ä "quoted"\\/?x=1&y={z}#%20'
    made = kubeflow.artifact("odd", odd)
    kubeflow.artifact("other", "s3://b/other")
    assert api(kubeflow).artifacts(odd) == [made]
    assert json.loads(json.dumps(made)) == made
