"""Decode a rectangle of a JPEG with the TurboJPEG library, if version 3 of it is installed.

A JPEG's entropy-coded data can only be read from its beginning. But libjpeg-turbo can leave out the
inverse transform, the upsampling and the colour conversion outside a rectangle. The Python packages
for it offer no such call, so this module calls the C library through ctypes.

The library is looked for in the package `turbojpeg`, whose wheels bring one, and then where the
system's loader finds it. Before its first use, it must decode the same pixels as simplejpeg. A
library with other pixels is not used.

Source: the documentation of the TurboJPEG 3 API, `tj3SetCroppingRegion` and `tj3Decompress8`.
"""

import ctypes
import functools
import logging
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Box = tuple[int, int, int, int]

_LOG = logging.getLogger(__name__)
_PACKAGE = "turbojpeg"
_SYSTEM_NAMES = {"darwin": "libturbojpeg.dylib", "win32": "turbojpeg.dll"}
_DECOMPRESS = 1  # TJINIT_DECOMPRESS
_STOP_ON_WARNING, _SAMPLING = 0, 4  # TJPARAM_STOPONWARNING, TJPARAM_SUBSAMP
_PIXEL_FORMATS = {1: 6, 3: 0}  # TJPF_GRAY, TJPF_RGB
_BLOCK_WIDTHS = (8, 16, 16, 8, 8, 32, 8)  # pixels, by TJSAMP_444, 422, 420, GRAY, 440, 411, 441
_MARGIN = 2  # columns next to the box that chroma upsampling reads
_SAMPLINGS = ("444", "422", "420", "440", "411", "Gray")  # compared by the self-test


class _Region(ctypes.Structure):
    """`tjregion`: a rectangle in pixels of the decoded image."""

    _fields_ = [(name, ctypes.c_int) for name in ("x", "y", "w", "h")]


class _ScalingFactor(ctypes.Structure):
    """`tjscalingfactor`: a fraction of the full size."""

    _fields_ = [("num", ctypes.c_int), ("denom", ctypes.c_int)]


class _Handle:
    """A decompressor, which one thread at a time may use; it is destroyed with this object."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._destroy = library.tj3Destroy
        self.pointer = library.tj3Init(_DECOMPRESS)
        if self.pointer:
            library.tj3Set(self.pointer, _STOP_ON_WARNING, 1)

    def __del__(self) -> None:
        if self.pointer:
            self._destroy(self.pointer)


class RegionDecoder:
    """Decoder of rectangles of JPEGs.

    Args:
        library: TurboJPEG 3 or newer.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._of_thread = threading.local()
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        for name, result, arguments in (
            ("tj3Init", pointer, [integer]),
            ("tj3Destroy", None, [pointer]),
            ("tj3Set", integer, [pointer, integer, integer]),
            ("tj3Get", integer, [pointer, integer]),
            ("tj3DecompressHeader", integer, [pointer, pointer, ctypes.c_size_t]),
            ("tj3SetScalingFactor", integer, [pointer, _ScalingFactor]),
            ("tj3SetCroppingRegion", integer, [pointer, _Region]),
            (
                "tj3Decompress8",
                integer,
                [pointer, pointer, ctypes.c_size_t, pointer, integer, integer],
            ),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments

    def decode(
        self,
        data: bytes | memoryview,
        box: Box,
        size: tuple[int, int],
        *,
        ratio: int,
        channels: int,
    ) -> Pixels | None:
        """Decode a rectangle, or return None if the library refuses the data or warns of damage.

        Args:
            data: the encoded JPEG.
            box: top, left, height and width of the rectangle at the scale of `ratio`.
            size: height and width of the whole image at that scale.
            ratio: decode at 1 / `ratio` of the full scale: 1, 2, 4 or 8.
            channels: 1 or 3.

        Returns:
            `(height, width, channels) uint8`, equal to that part of the whole decoded image.
        """
        library, handle = self._library, self._handle()
        encoded = np.frombuffer(data, np.uint8)
        source = encoded.ctypes.data, encoded.size
        if not handle or library.tj3DecompressHeader(handle, *source):
            return None
        sampling = library.tj3Get(handle, _SAMPLING)
        if not 0 <= sampling < len(_BLOCK_WIDTHS):
            return None
        top, left, height, width = box
        block = max(_BLOCK_WIDTHS[sampling] // ratio, 1)
        first = max(left - _MARGIN, 0) // block * block  # the library requires whole blocks
        last = min(left + width + _MARGIN, size[1])
        region = _Region(first, top, last - first, height)
        if library.tj3SetScalingFactor(handle, _ScalingFactor(1, ratio)):
            return None
        if library.tj3SetCroppingRegion(handle, region):
            return None
        pixels = np.empty((height, last - first, channels), np.uint8)
        target = pixels.ctypes.data, pixels.strides[0], _PIXEL_FORMATS[channels]
        if library.tj3Decompress8(handle, *source, *target):
            return None
        return pixels[:, left - first : left - first + width]

    def _handle(self) -> Any:
        """Return the pointer to this thread's decompressor."""
        if not hasattr(self._of_thread, "handle"):
            self._of_thread.handle = _Handle(self._library)
        return self._of_thread.handle.pointer


@functools.cache
def region_decoder() -> RegionDecoder | None:
    """Return the decoder of this process, or None if no suitable library is installed."""
    for path in _paths():
        try:
            library = ctypes.CDLL(path)
            library.tj3SetCroppingRegion  # noqa: B018  # an older library lacks it
        except (OSError, AttributeError):
            continue
        decoder = RegionDecoder(library)
        if difference := _first_difference(decoder):
            _LOG.warning(
                "%s is not used for crops of JPEGs: its pixels differ from simplejpeg's for %s. "
                "Crops are decoded by simplejpeg, which takes longer.",
                path,
                difference,
            )
            continue
        _LOG.info("crops of JPEGs are decoded by %s", path)
        return decoder
    return None


def _paths() -> list[str]:
    """Return where the library may be: in a package, then by the name that the loader looks up."""
    from importlib import metadata  # takes 13 ms, which only random crops need

    paths = []
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name.startswith(("libturbojpeg", "turbojpeg")) and "libs" in str(file.parent):
            paths.append(str(file.locate()))
    return [*paths, _SYSTEM_NAMES.get(sys.platform, "libturbojpeg.so.0")]


def _first_difference(decoder: RegionDecoder) -> str | None:
    """Return the first sampling and scale where the pixels are not simplejpeg's, else None."""
    import simplejpeg

    height, width, box = 67, 83, (9, 21, 23, 37)  # of the scaled image; no multiples of a block
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    for sampling in _SAMPLINGS:
        colours = "GRAY" if sampling == "Gray" else "RGB"
        source = np.ascontiguousarray(noise[..., :1]) if sampling == "Gray" else noise
        data = simplejpeg.encode_jpeg(source, 90, colours, sampling)
        for ratio in (1, 2):
            size = -(-height // ratio), -(-width // ratio)
            whole = simplejpeg.decode_jpeg(data, "RGB", min_height=size[0], min_width=size[1])
            top, left = (corner // ratio for corner in box[:2])
            rows, columns = (extent // ratio for extent in box[2:])
            part = decoder.decode(data, (top, left, rows, columns), size, ratio=ratio, channels=3)
            expected = whole[top : top + rows, left : left + columns]
            if part is None or not np.array_equal(part, expected):
                return f"sampling {sampling} at 1/{ratio} of the scale"
    return None
