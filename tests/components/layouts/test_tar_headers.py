"""Headers of tar files that lie, are damaged, sparse or cut short."""

import io
import random
import tarfile
from pathlib import Path

import pytest

from components.layouts.tar_headers import read_headers
from tests.components.layouts.archives import in_archive, write_tar
from trainer_utils.format import InputError


def sparse_tar(path: Path, pieces: list[tuple[int, bytes]], size: int) -> None:
    """An archive with a sparse member as `tar -S --format=posix` writes it (pax sparse 1.0)."""
    numbers = [len(pieces), *(n for offset, data in pieces for n in (offset, len(data)))]
    table = "".join(f"{number}\n" for number in numbers).encode()
    content = table.ljust(-(-len(table) // 512) * 512, b"\0") + b"".join(d for _, d in pieces)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, data, headers in (
            ("1.jpg", b"before", {}),
            (
                "GNUSparseFile.0/2.bmp",
                content,
                {
                    "GNU.sparse.major": "1",
                    "GNU.sparse.minor": "0",
                    "GNU.sparse.name": "2.bmp",
                    "GNU.sparse.realsize": str(size),
                },
            ),
            ("3.jpg", b"after", {}),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(data), headers
            archive.addfile(member, io.BytesIO(data))


def test_a_sparse_image_is_left_out_and_those_beside_it_are_read(tmp_path, read):
    sparse_tar(tmp_path / "x.tar", [(0, b"BM"), (1 << 30, b"end")], (1 << 30) + 3)
    with tarfile.open(tmp_path / "x.tar") as archive:  # tarfile itself agrees that it is one
        assert archive.getmember("2.bmp").issparse()
    listing = read(tmp_path)
    assert [in_archive(tmp_path, entry) for entry in listing.entries] == [b"before", b"after"]
    ((name, code, detail),) = [(o.name, o.code, o.detail) for o in listing.excluded]
    assert (name, code) == ("x.tar/2.bmp", "SPARSE_MEMBER")
    assert "without -S" in detail


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A member's header that claims a size, with the right checksum."""
    block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    block[156:157] = kind
    block[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


END = bytes(1024)
BY_TARFILE = "invalid offset|a damaged header"  # newer ones refuse negative sizes
LIES = {
    "a negative size": (header("a.jpg", -512), f"('a.jpg' of -512 bytes|{BY_TARFILE})"),
    "a size back to the start": (
        header("a.jpg", -1024) * 2,
        f"('a.jpg' of -1024 bytes|{BY_TARFILE})",
    ),
    "a size past the end": (header("a.jpg", 1 << 40), "'a.jpg', which ends at byte 1099511628288"),
    "a name of a terabyte": (
        header("././@LongLink", 1 << 40, tarfile.GNUTYPE_LONGNAME),
        "claims 1099511627776 bytes, of at most 65536",
    ),
    "a name of less than nothing": (
        header("././@LongLink", -1024, tarfile.GNUTYPE_LONGNAME),
        f"(claims -1024 bytes|{BY_TARFILE})",
    ),
    "names of names": (
        (header("././@LongLink", 1, tarfile.GNUTYPE_LONGNAME) + bytes(512)) * 5000,
        "recursion",
    ),
    "a negative size by pax": (
        header("p", 11, tarfile.XHDTYPE) + b"11 size=-9\n".ljust(512, b"\0") + header("a.jpg", 0),
        f"('a.jpg' of -9 bytes|{BY_TARFILE})",
    ),
}


def test_a_header_that_lies_is_refused_with_its_byte(tmp_path, read):
    for data, match in LIES.values():
        (tmp_path / "x.tar").write_bytes(data + END)
        with pytest.raises(InputError, match=rf"(?s)'x.tar'.*{match}.*\(byte \d+\)"):
            read(tmp_path)


def test_a_cut_is_found_at_every_byte_and_named(tmp_path, read):
    path = write_tar(tmp_path / "x.tar", {"1.jpg": b"a" * 700, "2.jpg": bytes(512)})
    data = path.read_bytes()
    end = 512 + 1024 + 512 + 512  # of the last member
    for size in [*range(1, end + 512, 37), 512, 1536, 2048, end, end + 511]:
        path.write_bytes(data[:size])
        with pytest.raises(InputError, match=r"'x.tar': expected a whole tar.*\(byte \d+\)"):
            read(tmp_path)
    path.write_bytes(data[: end + 512])  # one block of zeros is an end
    assert len(read(tmp_path).entries) == 2


def test_hostile_headers_by_the_thousand_give_a_listing_or_an_error():
    """Random changes to real archives: no other error, no hang, no blob outside of the archive."""
    rng = random.Random(0)
    originals = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
            for name in ("a.jpg", "b.json", "c" * 99 if form == 0 else "c" * 120):
                member = tarfile.TarInfo(name)
                member.size = 2
                archive.addfile(member, io.BytesIO(b"{}"))
        originals.append(stream.getvalue())
    outcomes = set()
    for _ in range(3000):
        data = bytearray(rng.choice(originals))
        start = rng.randrange(8) * 512
        change = rng.randrange(3)
        if change == 0:
            data[start + 156] = rng.choice(b"0125LKxgSDV")
        elif change == 1:
            size = rng.choice([-(2**62), -513, -1, 511, 2**20, 2**40, 2**62])
            data[start + 124 : start + 136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if data[start + 257 : start + 262] == b"ustar":
            data[start + 148 : start + 156] = b" " * 8
            data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])
        try:
            members = list(read_headers(io.BytesIO(data), path="x.tar", size=len(data)))
        except InputError:
            outcomes.add("refused")
            continue
        outcomes.add("read")
        assert all(
            member.offset_data >= 0 and member.offset_data + member.size <= len(data)
            for member in members
            if member.isreg() and not member.issparse()
        )
    assert outcomes == {"read", "refused"}
