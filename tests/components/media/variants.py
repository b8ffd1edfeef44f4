"""Image files of every known kind with one photo, including kinds that Pillow cannot write.

Sources: PNG (ISO 15948); ITU-T T.81.
"""

import base64
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageFilter
from sklearn.datasets import load_sample_images

from tests.make import encode

WIDTH, HEIGHT = 45, 30  # so that rows of BMP and of bits are padded
RGB = (
    Image.fromarray(load_sample_images().images[0][100:160, 200:290])
    .filter(ImageFilter.GaussianBlur(3))
    .resize((WIDTH, HEIGHT))
)
GREY = RGB.convert("L")
PIXELS = np.asarray(RGB)
INDEXED = RGB.convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
INDICES = np.asarray(INDEXED)
# 16 x 12 pixels, which no Python encoder writes: `cjpeg -arithmetic -quality 50`.
ARITHMETIC = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERX"
    "RTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj"
    "Y2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/yQARCAAMABADASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIR"
    "AxEAPwD/AAkiNadk82yNBeb1qapy/VoUNwUAb2EqVa6w/9k="
)
COLOURS = bytes(INDEXED.getpalette() or ())[:48].ljust(48, b"\0")


def exif(orientation: int) -> bytes:
    made = Image.Exif()
    made[0x0112] = orientation
    return made.tobytes()


def xmp(orientation: int) -> bytes:
    return (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description '
        b'tiff:Orientation="%d"/></rdf:RDF></x:xmpmeta>' % orientation
    )


def bitmaps_and_gifs() -> Iterator[tuple[str, bytes]]:
    """Yield some files of each kind; all of them are re-encoded, so a few suffice."""
    for name, image in {"24": RGB, "grey": GREY, "8": INDEXED, "1": GREY.convert("1")}.items():
        yield f"BMP {name}", encode(image, "BMP")
    bitmap = encode(RGB, "BMP")
    yield "BMP, more after its pixels", bitmap + b"\0\0"
    yield "BMP, cut", bitmap[: len(bitmap) // 2]
    gif = encode(INDEXED, "GIF")
    yield "GIF", gif
    yield "GIF, interlaced", encode(INDEXED, "GIF", interlace=1)
    yield "GIF, transparent", encode(INDEXED, "GIF", transparency=3)
    more = {"save_all": True, "append_images": [INDEXED.rotate(9)]}
    yield "GIF, two frames", encode(INDEXED, "GIF", **more)
    yield "GIF, no trailer", gif[:-1]
    yield "GIF, text after its trailer", gif + b"made by hand!,;,"
    yield "GIF, cut", gif[: len(gif) // 2]
    yield "GIF, cut, with a trailer", gif[: len(gif) // 2] + b";"


# --- PNG ---


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


# The first row and column of each pass of Adam7, and the steps to the next.
_PASSES = ["0088", "0488", "4084", "0244", "2042", "0122", "1021"]
_ADAM7 = [tuple(map(int, each)) for each in _PASSES]


def png(
    pixels: np.ndarray,
    depth: int = 8,
    colour: int = 2,
    before: bytes = b"",
    *,
    between: bytes = b"",
    after: bytes = b"",
    end: bytes = chunk(b"IEND", b""),
    interlaced: bool = False,
    interlace: int | None = None,
    pieces: int = 1,
) -> bytes:
    """Return a PNG of a `(height, width[, channels])` array of any bit depth."""

    def rows(part: np.ndarray) -> bytes:
        flat = part.reshape(len(part), -1) if part.size else np.zeros((0, 1), int)
        if depth == 16:
            flat = flat.astype(">u2").view(np.uint8)
        elif depth < 8:
            bits = (flat[:, :, np.newaxis] >> np.arange(depth - 1, -1, -1)) & 1
            flat = np.packbits(bits.reshape(len(flat), -1).astype(np.uint8), axis=1)
        return b"".join(b"\0" + row.tobytes() for row in flat.astype(np.uint8))

    parts = [pixels[y::dy, x::dx] for y, x, dy, dx in _ADAM7] if interlaced else [pixels]
    stream = zlib.compress(b"".join(map(rows, parts)))
    size = -(-len(stream) // pieces)
    way = int(interlaced) if interlace is None else interlace
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], depth, colour, 0, 0, way)
    data = [chunk(b"IDAT", stream[n * size : (n + 1) * size]) for n in range(pieces)]
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before
    return start + between.join(data) + after + end


def itxt(keyword: bytes, text: bytes, *, compressed: bool = False) -> bytes:
    text = zlib.compress(text) if compressed else text
    return chunk(b"iTXt", keyword + b"\0" + bytes([compressed, 0]) + b"\0\0" + text)


_PROFILE = b"Raw profile type exif\0"


def raw_profile(orientation: int) -> bytes:
    """Return EXIF in the form that ImageMagick writes to a text chunk of a PNG."""
    data = exif(orientation)
    return b"\nexif\n%8d\n" % len(data) + data.hex().encode() + b"\n"


def pngs() -> Iterator[tuple[str, bytes]]:
    grey = np.asarray(GREY)
    deep = PIXELS.astype(np.uint16) * 257 - (PIXELS > 9) * 100
    alpha = np.dstack([PIXELS, grey])
    grey_alpha = np.dstack([grey, grey.T.reshape(grey.shape)])
    palette = chunk(b"PLTE", COLOURS)
    kinds = {
        **{f"grey {depth}": (grey >> (8 - depth), depth, 0, b"") for depth in (1, 2, 4, 8)},
        "grey 16": (deep[:, :, 1], 16, 0, b""),
        "RGB": (PIXELS, 8, 2, b""),
        "RGB 16": (deep, 16, 2, b""),
        "grey and alpha": (grey_alpha, 8, 4, b""),
        "grey and alpha 16": (grey_alpha.astype(np.uint16) * 257, 16, 4, b""),
        "RGBA": (alpha, 8, 6, b""),
        "RGBA 16": (alpha.astype(np.uint16) * 257, 16, 6, b""),
        "palette 8": (INDICES, 8, 3, palette),
        "palette 4": (INDICES, 4, 3, palette),
        "palette 2": (INDICES >> 2, 2, 3, palette),
        "palette 1": (INDICES >> 3, 1, 3, palette),
    }
    for name, kind in kinds.items():
        yield f"PNG {name}", png(*kind)
        yield f"PNG {name}, interlaced", png(*kind, interlaced=True)
    clear = {"grey 8": b"\0\x40", "grey 4": b"\0\x04", "RGB": bytes([0, 9, 0, 9, 0, 9])}
    clear |= {"palette 8": b"\xff\0\x80", "grey 16": b"\x40\x40", "grey 1": b"\0\1"}
    for name, transparent in clear.items():
        pixels, depth, colour, before = kinds[name]
        yield f"PNG {name}, tRNS", png(pixels, depth, colour, before + chunk(b"tRNS", transparent))
    ancillary = {
        "gAMA": struct.pack(">I", 100_000),
        "sRGB": b"\0",
        "cHRM": struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000),
        "sBIT": b"\5\6\5",
        "bKGD": bytes(6),
        "iCCP": b"x\0\0" + zlib.compress(b"no profile"),
        "pHYs": struct.pack(">IIB", 1, 2, 1),
        "tIME": struct.pack(">HBBBBB", 2020, 1, 1, 0, 0, 0),
        "hIST": bytes(2),
        "zzZz": b"private",
        "PLTE": COLOURS,
    }
    for name, data in ancillary.items():
        yield f"PNG with {name}", png(PIXELS, before=chunk(name.encode(), data))
    metadata = {
        "eXIf": chunk(b"eXIf", exif(6)[6:]),
        "XMP": itxt(b"XML:com.adobe.xmp", xmp(6)),
        "zipped XMP": itxt(b"XML:com.adobe.xmp", xmp(8), compressed=True),
        "EXIF in zTXt": chunk(b"zTXt", _PROFILE + b"\0" + zlib.compress(raw_profile(6))),
        "EXIF in tEXt": chunk(b"tEXt", _PROFILE + raw_profile(3)),
        "a title": chunk(b"tEXt", b"Title\0tiff:Orientation=6"),
        "bad eXIf": chunk(b"eXIf", b"no TIFF at all"),
        "bad EXIF in tEXt": chunk(b"tEXt", _PROFILE + b"\nexif\n   8\nxyz\n"),
    }
    for name, data in metadata.items():
        yield f"PNG, {name} first", png(PIXELS, before=data)
        yield f"PNG, {name} last", png(PIXELS, after=data)
    yield "PNG in many pieces", png(PIXELS, pieces=40)
    yield "PNG, a chunk between its pixels", png(PIXELS, pieces=2, between=chunk(b"tEXt", b"a\0b"))
    yield "PNG, an unknown critical chunk", png(PIXELS, before=chunk(b"CgBI", bytes(4)))
    yield "PNG, more after its end", png(PIXELS) + b"more"
    yield "PNG, a file after its end", png(PIXELS) + png(PIXELS[::-1])
    yield "PNG without its end", png(PIXELS, end=b"")
    yield "PNG, interlaced in a way unknown", png(PIXELS, interlace=2)
    yield "PNG, two palettes", png(INDICES, colour=3, before=palette * 2)
    yield "PNG, no palette", png(INDICES, colour=3)
    yield "PNG, its palette late", png(INDICES, colour=3, after=palette)
    yield "PNG, too many rows", png(np.tile(PIXELS, (2, 1, 1)))[:20] + png(PIXELS)[20:]
    frames = [RGB, RGB.transpose(Image.Transpose.ROTATE_180)]
    animation = {"save_all": True, "append_images": frames[1:]}
    yield "APNG", encode(frames[0], "PNG", **animation)
    yield "APNG with another first", encode(RGB, "PNG", default_image=True, **animation)
    yield "APNG of one frame", png(PIXELS, before=chunk(b"acTL", struct.pack(">II", 1, 0)))


# --- JPEG ---


def segment(marker: int, data: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def after_start(data: bytes, *segments: bytes) -> bytes:
    return data[:2] + b"".join(segments) + data[2:]


def without_jfif(data: bytes) -> bytes:
    assert data[2:4] == b"\xff\xe0"
    return data[:2] + data[4 + int.from_bytes(data[4:6], "big") :]


def patched(data: bytes, marker: int, offset: int, values: bytes) -> bytes:
    """Replace bytes of the first segment of a kind, at an offset from its marker."""
    place = data.index(bytes([0xFF, marker])) + offset
    return data[:place] + values + data[place + len(values) :]


def lossless_jpeg(
    pixels: np.ndarray, *, sampling: bytes = b"\x11\x11\x11", precision: int = 8
) -> bytes:
    """Encode a `(height, width, 1 or 3) uint8` array by T.81 process 14, annex H, predictor 1."""
    height, width, components = pixels.shape
    values = pixels.astype(int)
    predicted = np.empty_like(values)
    predicted[:, 1:] = values[:, :-1]
    predicted[1:, 0] = values[:-1, 0]
    predicted[0, 0] = 1 << precision - 1
    number, bits = 0, 0
    for difference in (values - predicted).reshape(-1).tolist():
        category = abs(difference).bit_length()
        low = difference if difference > 0 else difference + (1 << category) - 1
        number = (number << 4 | category) << category | low
        bits += 4 + category
    pad = -bits % 8
    stream = (number << pad | (1 << pad) - 1).to_bytes((bits + pad) // 8, "big")
    parts = b"".join(bytes([n + 1, sampling[n], 0]) for n in range(components))
    frame = struct.pack(">BHHB", precision, height, width, components) + parts
    scan = bytes([components]) + b"".join(bytes([n + 1, 0]) for n in range(components))
    tables = bytes([0, 0, 0, 0, 12, *[0] * 12, *range(12)])
    return (
        b"\xff\xd8"
        + segment(0xEE, b"Adobe\0\x64\0\0\0\0\0")  # RGB without conversion
        + segment(0xC3, frame)
        + segment(0xC4, tables)
        + segment(0xDA, scan + b"\1\0\0")
        + stream.replace(b"\xff", b"\xff\0")
        + b"\xff\xd9"
    )


def jpegs() -> Iterator[tuple[str, bytes]]:
    plain = encode(RGB, "JPEG", quality=95)
    grey = encode(GREY, "JPEG", quality=95)
    for subsampling in (0, 1, 2):
        yield f"JPEG {subsampling}", encode(RGB, "JPEG", quality=95, subsampling=subsampling)
    progressive = encode(RGB, "JPEG", quality=95, progressive=True)
    yield "JPEG, progressive", progressive
    yield "JPEG, grey, progressive", encode(GREY, "JPEG", quality=95, progressive=True)
    yield "JPEG, own tables", encode(RGB, "JPEG", quality=95, optimize=True)
    yield "JPEG, restarts", encode(RGB, "JPEG", quality=95, restart_marker_blocks=1)
    yield "JPEG, grey", grey
    yield "JPEG, grey, sampled oddly", patched(grey, 0xC0, 11, b"\x22")
    yield "JPEG, extended", patched(plain, 0xC0, 1, b"\xc1")
    yield "JPEG, arithmetic", ARITHMETIC
    yield "JPEG, said to be arithmetic", plain.replace(b"\xff\xc0", b"\xff\xc9", 1)
    name = "JPEG, progressive, said to be arithmetic"
    yield name, progressive.replace(b"\xff\xc2", b"\xff\xca", 1)
    yield "JPEG, arithmetic, said to be baseline", ARITHMETIC.replace(b"\xff\xc9", b"\xff\xc0", 1)
    yield "JPEG, lossless", lossless_jpeg(PIXELS)
    yield "JPEG, lossless grey", lossless_jpeg(np.asarray(GREY)[:, :, np.newaxis])
    yield "JPEG, 12 bits", patched(plain, 0xC0, 4, b"\x0c")
    rgb = encode(RGB, "JPEG", quality=95, keep_rgb=True)
    yield "JPEG in RGB", rgb
    bare = without_jfif(plain)
    cmyk = encode(RGB.convert("CMYK"), "JPEG", quality=95)
    yield "JPEG without JFIF", bare
    for transform in (0, 1, 2):
        adobe = segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([transform]))
        yield f"JPEG, Adobe {transform}", after_start(bare, adobe)
        yield f"JPEG, JFIF and Adobe {transform}", after_start(plain, adobe)
        yield f"JPEG in CMYK, Adobe {transform}", patched(cmyk, 0xEE, 15, bytes([transform]))
    ids = bare
    for number, name in enumerate((b"R", b"G", b"B")):
        ids = patched(patched(ids, 0xC0, 10 + 3 * number, name), 0xDA, 5 + 2 * number, name)
    yield "JPEG, components called RGB", ids
    for orientation in range(1, 9):
        yield f"JPEG, turned {orientation}", encode(RGB, "JPEG", quality=95, exif=exif(orientation))
    head = b"http://ns.adobe.com/xap/1.0/\0"
    yield "JPEG, turned by XMP", after_start(plain, segment(0xE1, head + xmp(6)))
    for name, parts in {
        "EXIF against XMP": (exif(3), head + xmp(6)),
        "two EXIF": (exif(6), exif(3)),
        "EXIF in two": (exif(6)[:20], b"Exif\0\0" + exif(6)[20:]),
    }.items():
        yield f"JPEG, {name}", after_start(plain, *(segment(0xE1, part) for part in parts))
    for name, bad in {
        "no TIFF": b"Exif\0\0nothing of the kind",
        "empty": b"Exif\0\0",
        "cut": exif(6)[:16],
        "endless": exif(6)[:10] + struct.pack(">I", 0xFFFFFFF0),
        "of zeros": b"Exif\0\0" + bytes(40),
    }.items():
        yield f"JPEG, bad EXIF: {name}", after_start(plain, segment(0xE1, bad))
    yield "JPEG without its end", plain[:-2]
    yield "JPEG, zeros for its end", plain[:-2] + bytes(200)
    yield "JPEG, progressive, without its end", encode(RGB, "JPEG", progressive=True)[:-2]
    yield "JPEG, more after its end", plain + b"more" * 9
    yield "JPEG, a file after its end", plain + grey
    yield "JPEG, fill before markers", plain.replace(b"\xff\xc0", b"\xff\xff\xff\xc0", 1)
    yield "JPEG, junk before markers", plain.replace(b"\xff\xc0", b"junk\xff\xc0", 1)
    yield "JPEG, cut", plain[: len(plain) // 2]
    yield "JPEG, cut, with an end", plain[: len(plain) * 2 // 3] + b"\xff\xd9"
    frame = plain[plain.index(b"\xff\xc0") : plain.index(b"\xff\xc4")]
    yield "JPEG, two frames", plain.replace(frame, frame * 2)
    larger = patched(frame, 0xC0, 5, struct.pack(">HH", 500, 500))
    yield "JPEG, another frame first", plain.replace(frame, larger + frame)
    yield "JPEG, no scan", plain[: plain.index(b"\xff\xda")] + b"\xff\xd9"
    yield "JPEG, no tables", _without(plain, 0xC4)
    yield "JPEG, no quantizers", _without(plain, 0xDB)
    for name, factors in {
        "luma below chroma": (0x11, 0x22, 0x22),
        "fractions": (0x31, 0x21, 0x11),
        "four": (0x44, 0x11, 0x11),
        "unequal": (0x22, 0x21, 0x12),
        "zero": (0x00, 0x11, 0x11),
    }.items():
        data = plain
        for number, factor in enumerate(factors):
            data = patched(data, 0xC0, 11 + 3 * number, bytes([factor]))
        yield f"JPEG, sampling: {name}", data
    yield "JPEG without height", patched(plain, 0xC0, 5, b"\0\0")
    yield "JPEG without width", patched(plain, 0xC0, 7, b"\0\0")
    yield "MPO", encode(RGB, "MPO", save_all=True, append_images=[RGB.rotate(180)])


def _without(data: bytes, marker: int) -> bytes:
    while (place := data.find(bytes([0xFF, marker]))) >= 0:
        data = data[:place] + data[place + 2 + int.from_bytes(data[place + 2 : place + 4], "big") :]
    return data


def others() -> Iterator[tuple[str, bytes]]:
    alpha = RGB.copy()
    alpha.putalpha(GREY)
    for orientation in (1, 3, 6):
        more = {"quality": 95, "exif": exif(orientation)}
        for lossless in (True, False):
            name = f"WebP, lossless {lossless}, {orientation}"
            yield name, encode(RGB, "WEBP", lossless=lossless, **more)
        made = Image.Exif()
        made[0x0112] = orientation
        for compression in (None, "tiff_lzw", "jpeg"):
            name = f"TIFF {compression}, {orientation}"
            yield name, encode(RGB, "TIFF", exif=made, compression=compression)
    yield "WebP, alpha", encode(alpha, "WEBP", lossless=True)
    yield "WebP, turned by XMP", encode(RGB, "WEBP", lossless=True, xmp=xmp(6))
    yield "WebP, bad EXIF", encode(RGB, "WEBP", lossless=True, exif=b"Exif\0\0nothing")
    yield "TIFF, alpha", encode(alpha, "TIFF")
    yield "TIFF in CMYK", encode(RGB.convert("CMYK"), "TIFF")
    yield "TIFF, two pages", encode(RGB, "TIFF", save_all=True, append_images=[GREY])
    yield "TIFF, palette", encode(INDEXED, "TIFF")


def variants() -> dict[str, bytes]:
    """Return all variants by name."""
    made = [*bitmaps_and_gifs(), *pngs(), *jpegs(), *others()]
    assert len({name for name, _ in made}) == len(made)
    return dict(made)
