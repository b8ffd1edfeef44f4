"""How files of images and sounds begin and what their names end in: the one table of both.

The package `filetype` takes 2 to 20 times as long, and knows neither RF64 nor several extensions.
Source: the registrations of IANA and the formats' own standards; MP3 without ID3 begins with a
frame of MPEG 1 or 2, layer III, without a CRC.
"""

import dataclasses

BMP = b"BM"
GIF = b"GIF8"  # and then 7a or 9a: as TensorFlow tells them
ID3 = b"ID3"
JPEG = b"\xff\xd8\xff"
OGG = b"OggS"
PNG = b"\x89PNG\r\n\x1a\n"
RIFF = (b"RIFF", b"RF64")  # a size of 4 bytes follows, and then the form
WAVE = b"WAVE"
COMPRESSIONS = {
    b"\x1f\x8b": "a file packed by gzip",
    b"BZh": "a file packed by bzip2",
    b"\xfd7zXZ\x00": "a file packed by xz",
    b"(\xb5/\xfd": "a file packed by zstd",
}
"""How a compressed file begins, and what it is."""

_PACKINGS = {
    **COMPRESSIONS,
    b"PK\x03\x04": "a ZIP archive (office documents are such)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"%PDF-": "a PDF document",
}


@dataclasses.dataclass(frozen=True)
class MediaFormat:
    """A format that is taken: `image` or `audio`, by how its files are called and begin.

    `name` is Pillow's or libsndfile's, `form` what it is in a RIFF.
    """

    name: str
    kind: str
    extensions: tuple[str, ...]
    signatures: tuple[bytes, ...] = ()
    form: bytes | None = None


FORMATS = (
    MediaFormat("JPEG", "image", (".jpg", ".jpeg", ".jpe", ".jfif"), (JPEG,)),
    MediaFormat("PNG", "image", (".png", ".apng"), (PNG,)),
    MediaFormat("GIF", "image", (".gif",), (GIF,)),
    MediaFormat("BMP", "image", (".bmp", ".dib"), (BMP,)),
    MediaFormat("TIFF", "image", (".tif", ".tiff"), (b"II*\0", b"MM\0*")),
    MediaFormat("WEBP", "image", (".webp",), form=b"WEBP"),
    MediaFormat("WAV", "audio", (".wav", ".wave"), form=WAVE),
    MediaFormat("FLAC", "audio", (".flac",), (b"fLaC",)),
    MediaFormat("OGG", "audio", (".ogg", ".oga", ".opus"), (OGG,)),
    MediaFormat("MP3", "audio", (".mp3",), (ID3, b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")),
)

EXTENSIONS = {
    kind: frozenset(ending for f in FORMATS if f.kind == kind for ending in f.extensions)
    for kind in ("image", "audio")
}
"""What names end in, by kind."""

# Images that are not taken, to say so: PNM, Photoshop, PostScript, PDF, SVG, JPEG 2000, icons, QOI,
# and at byte 4 HEIF and AVIF.
_OTHERS = (
    *(b"P%d" % number for number in range(1, 8)),
    *(b"8BPS", b"%!PS", b"%PDF", b"<svg", b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51", b"\0\0\1\0"),
    b"qoif",
)
_OTHERS_AT_4 = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif", b"ftypmsf1")


def format_of(head: bytes) -> MediaFormat | None:
    """What a file is that begins so: 12 bytes are enough. None for none of ours."""
    form = head[8:12] if head.startswith(RIFF) else b""
    return next((f for f in FORMATS if head.startswith(f.signatures) or f.form == form), None)


def is_other_image(head: bytes) -> bool:
    """Whether a file is an image of a kind that is not taken; blanks before its text may be."""
    return head[:16].lstrip().startswith(_OTHERS) or head[4:].startswith(_OTHERS_AT_4)


def packing_of(head: bytes) -> str | None:
    """What a file is packed as, by the magic numbers of file(1), for a message; or None."""
    return next((name for sign, name in _PACKINGS.items() if head.startswith(sign)), None)
