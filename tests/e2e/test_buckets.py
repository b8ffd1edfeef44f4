"""A conversion from bucket to bucket writes the same bytes as a local one."""

from pathlib import Path

import pytest

from tests.make import jpeg, write_files
from tests.object_stores import faulty
from trainer_utils import input_fn, storage

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    files = {f"{('dog', 'cat')[n % 2]}/{n} [ü].jpg": jpeg(n) for n in range(30)}
    return write_files(tmp_path_factory.mktemp("buckets") / "photos", files)


@pytest.fixture(scope="module")
def local(folder) -> Path:
    from pipelines import convert

    return Path(convert(str(folder), str(folder.parent / "out")))


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_dataset_in_a_bucket_equals_the_local_one(
    kind, folder, local, request, monkeypatch, tmp_path, capsys, subtests
):
    from pipelines import convert
    from pipelines.cli import main

    store = request.getfixturevalue(f"{kind}_store")
    # gcsfs repeats an upload whose response was lost, and then gets an error: no such upload.
    faults = {"drop": 0.01, "busy": 0.01} if kind == "s3" else {}
    with faulty(store, **faults) as proxy:
        for name, value in proxy.environment.items():
            monkeypatch.setenv(name, value)
        source, out = f"{store.base}/e2e/photos", f"{store.base}/e2e/out"
        for path in folder.rglob("*.jpg"):
            target = f"{source}/{path.relative_to(folder)}"
            with storage.write_atomically(target, temporary_folder=source) as stream:
                stream.write(path.read_bytes())
        uri = str(convert(source, out))
        assert uri.startswith(f"{out}/artifacts/ShardBalancer/")
        made = {file.path for file in storage.list_files(uri)}
        assert made == {str(p.relative_to(local)) for p in local.rglob("*") if p.is_file()}
        # These two have the addresses of the inputs, and the times of files.
        for path in made - {"lineage.json", "listing.json"}:
            assert storage.read_bytes(f"{uri}/{path}") == (local / path).read_bytes(), path
        assert str(convert(source, out)) == uri  # cached, by the metadata in the bucket
        batches = input_fn(uri, features="label", batch_size=4, cache=str(tmp_path))
        assert sum(len(batch) for batch in batches) == 20
        metadata = tmp_path / "metadata.sqlite"
        metadata.write_bytes(storage.read_bytes(f"{out}/metadata.sqlite"))
        for command in (["inspect"], ["verify"], ["lineage", "--metadata", str(metadata)]):
            with subtests.test(command=command):
                with pytest.raises(SystemExit) as ended:
                    main([command[0], uri, *command[1:]])
                assert not ended.value.code
        assert source in capsys.readouterr().out
