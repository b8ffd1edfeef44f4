"""Who finds what lies at a path."""

import fsspec.config
import pytest

from trainer_utils import storage


@pytest.mark.parametrize(
    ("path", "is_seen"),
    [
        ("/data/photos", True),
        ("s3://bucket/photos", True),
        ("az://box/photos", True),
        ("memory://photos", False),
        ("gs://bucket/photos", False),  # gcsfs may have been given credentials here
        ("own://photos", False),
    ],
)
def test_other_processes_see_what_the_environment_leads_to(path, is_seen):
    assert storage.is_seen_by_others(path) == is_seen


def test_what_this_process_alone_was_told_others_do_not_see(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(fsspec.config.conf, "s3", {"key": "k", "secret": "s"})
        assert not storage.is_seen_by_others("s3://bucket/photos")
        assert storage.is_seen_by_others("/data/photos")
    monkeypatch.setitem(storage.registry._registered, "s3", object())
    assert not storage.is_seen_by_others("s3://bucket/photos")
