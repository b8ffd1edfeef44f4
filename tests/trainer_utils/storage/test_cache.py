"""The cache on disk is this user's own."""

import shutil

import pytest

import trainer_utils
from trainer_utils import ConfigError, input_fn

# --- The cache of this user ---


def test_the_cache_on_disk_is_this_users_own(layouts, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    uri = str(layouts["ours"])
    assert len(list(input_fn(uri, batch_size=2, cache="disk"))) == 3
    (own,) = temporary.iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    assert len(list(input_fn(uri, batch_size=2, cache="disk"))) == 3
    own.chmod(0o777)
    with pytest.raises(ConfigError, match=rf"cache: expected '{own}' .* \(mode 777\)"):
        input_fn(uri, cache="disk")
    shutil.move(own, tmp_path / "theirs")
    own.symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match=r"cache: .* got no folder"):
        input_fn(uri, cache="disk")
    own.unlink()
    own.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"cache: .* got no folder"):
        input_fn(uri, cache="disk")


def test_the_cache_on_disk_of_somebody_else_is_refused(layouts, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    (tmp_path / "tfx-shards-4000000").mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=r"cache: .* got one of user"):
        trainer_utils.input_fn(str(layouts["ours"]), cache="disk")
