"""Archives as Python's own tarfile writes them, for the tests of WebDataset."""

import io
import tarfile
from pathlib import Path


def write_tar(path: Path, files: dict[str, bytes | str], **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, options.pop("mode", "w"), **options) as archive:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


# From here on: names, accounting, columns, and archives that lie.


def in_archive(tmp_path: Path, entry) -> bytes:
    (blob,) = entry.blobs
    return (tmp_path / blob.path).read_bytes()[blob.offset : blob.offset + blob.size]
