"""Decode images to batches of arrays, in threads, without a framework.

Only the part that `image_plans` plans is decoded. libjpeg decodes at 1/2, 1/4 or 1/8 of the scale
if the target is smaller than that. Each image goes through all steps in one thread, while it is in
the CPU's cache.

simplejpeg decodes JPEGs, OpenCV PNGs, and Pillow all other formats. The pixels equal the output of
`tf.io.decode_jpeg(dct_method="INTEGER_ACCURATE")` and `decode_png`; CMYK and similar colours differ
by at most one level. EXIF orientation is ignored here: the writer applies it.
"""

import contextlib
import io
import math
import os
import threading
from collections.abc import Iterator, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.format import media_formats as media
from trainer_utils.format.tensors import numpy_dtype
from trainer_utils.options.pixels import MAX_VALUES, NORMALIZATIONS
from trainer_utils.reading.augmenting import change_pixels
from trainer_utils.reading.image_plans import ImagePlan, Keys, plan_images
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.jpeg_regions import region_decoder
from trainer_utils.runtime.buffers import Buffers
from trainer_utils.runtime.threads import run_in_threads

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

Array = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]
Data = bytes | memoryview
Image = Data | Pixels
"""An encoded image, or pixels as `(height, width, channels) uint8`."""

_COLOURS = {1: "GRAY", 3: "RGB"}
_MODES = {1: "L", 3: "RGB"}
_COLOUR_SPACES = ("YCbCr", "Gray")  # simplejpeg's names
SMALLEST_SCALED = 16  # pixels; below this, simplejpeg's choice of a scale is unclear
_MAX_REGION = 0.9  # of the image; a region decoder saves no time for more
_MARGIN = 2  # rows below a part that chroma upsampling reads
_END = b"\xff\xd9"
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF")  # some others run programs


class Normalization:
    """Normalization (value - mean) / deviation to floats.

    Args:
        normalize: a name in `NORMALIZATIONS`, or `(mean, deviation)`.
        channels: the number of channels.
        dtype: the name of the resulting float type.

    Raises:
        ConfigError: the numbers do not fit the channels, or the type needs a missing library.
    """

    def __init__(self, normalize: Any, *, channels: int, dtype: str) -> None:
        pair: Any = NORMALIZATIONS[normalize] if isinstance(normalize, str) else normalize
        mean, deviation = (np.asarray(part, np.float64).reshape(-1) for part in pair)
        if {mean.size, deviation.size} - {1, channels}:
            raise ConfigError.of("normalize", normalize, allowed=f"numbers for {channels} channels")
        try:
            self.dtype = numpy_dtype(dtype)
        except ImportError as error:
            rule = "float32 or float16 where ml_dtypes is not installed"
            cure = "pip install ml_dtypes, which TensorFlow and jax bring"
            raise ConfigError.of("dtype", dtype, allowed=rule, advice=cure) from error
        # The result for each value: `(1, 256, 1 or channels)`. 16-bit floats are viewed as
        # integers, since OpenCV does not support them.
        table = ((np.arange(256)[:, np.newaxis] - mean) / deviation).astype(self.dtype)
        table = table if table.itemsize == 4 else table.view(np.uint16)
        self._table = np.ascontiguousarray(table[np.newaxis])
        # The affine transform of a pixel followed by a 1: `(channels, channels + 1)`.
        scales = np.diag(np.broadcast_to(1 / deviation, channels))
        self._matrix = np.column_stack([scales, np.broadcast_to(-mean / deviation, channels)])

    def write(self, pixels: Array, *, to: Array) -> None:
        """Normalize `(height, width, channels)` integers into an array of that shape and `dtype`.

        uint8 has 256 values, so one pass with a look-up table suffices. If channels differ and the
        dtype is float32, OpenCV's transform takes two thirds of the time (85 and 126 us for 224 x
        224). For uint16, 65,535 corresponds to 255 in uint8.
        """
        import cv2

        if pixels.dtype == np.uint16:
            scales, shifts = np.diag(self._matrix) / 257, self._matrix[:, -1]
            to[...] = (pixels * scales + shifts).astype(self.dtype)
            return
        if self._table.shape[-1] == 1:  # one channel is faster
            pixels, to = pixels.reshape(len(pixels), -1), to.reshape(len(to), -1)
        elif self.dtype == np.float32:
            np.copyto(to, pixels)
            cv2.transform(to, self._matrix, to)
            return
        cv2.LUT(pixels, self._table, to.view(self._table.dtype))


def plain_jpeg_size(data: Data) -> tuple[int, int] | None:
    """Return the size of a JPEG that simplejpeg decodes like all decoders, else None."""
    import simplejpeg

    if data[: len(media.JPEG)] != media.JPEG:
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    except (KeyError, ValueError):  # KeyError: an unknown sampling, such as 4:4:1
        return None
    return (height, width) if colours in _COLOUR_SPACES else None


def decode_jpeg_part(
    data: Data, size: tuple[int, int], plan: ImagePlan, *, channels: int
) -> Pixels | None:
    """Decode the planned part of a plain JPEG at its scale, or return None to decode it fully.

    Args:
        data: the encoded JPEG.
        size: its height and width.
        plan: the part and the scale.
        channels: 1 or 3.
    """
    import simplejpeg

    (height, width), ratio = size, plan.ratio
    if ratio > 1 and max(size) < SMALLEST_SCALED:
        return None
    top, left, rows, columns = plan.scaled_box
    scaled = -(-height // ratio), -(-width // ratio)
    is_region = rows * columns <= _MAX_REGION * math.prod(scaled) and data[-2:] == _END
    if is_region and (decoder := region_decoder()):
        part = decoder.decode(data, plan.scaled_box, scaled, ratio=ratio, channels=channels)
        if part is not None:
            return part
    needed = (top + rows + _MARGIN) * ratio
    jpeg = _cut_to(data, needed) if needed < height else data
    if jpeg is not data:
        height = needed
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(
            jpeg,
            _COLOURS[channels],
            min_height=-(-height // ratio) if ratio > 1 else 0,
            min_width=-(-width // ratio) if ratio > 1 else 0,
            strict=jpeg is data,
        )
    except ValueError:
        return None
    return pixels[top : top + rows, left : left + columns]


def _cut_to(data: Data, rows: int) -> Data | bytearray:
    """Lower a JPEG's height if that avoids decoding its rest; else return it unchanged.

    A scan's blocks run from top to bottom. A decoder stops after the last row and only warns of the
    remaining data. A file that may be incomplete is returned unchanged.
    """
    frame = None
    for start, marker, _ in media.jpeg_segments(data) if data[-2:] == _END else ():
        if marker in media.FRAMES and frame is None:
            frame = media.frame_at(data, start, marker)
        elif marker == media.SOS and frame is not None:
            has_all = data[start + 4 : start + 5] == bytes([frame.components])
            if has_all and frame.process in (media.BASELINE, media.EXTENDED):  # blocks in row order
                cut = bytearray(data)
                cut[frame.height_offset : frame.height_offset + 2] = rows.to_bytes(2, "big")
                return cut
    return data


def image_size(data: Data) -> tuple[int, int]:
    """Return height and width from the header; propagate Pillow's errors."""
    if data[: len(media.PNG)] == media.PNG and len(data) >= 24:
        return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    with _opened(data) as image:
        width, height = image.size
    return height, width


def decode_image(data: Data, *, channels: int, keeps_values: bool = False, bits: int = 8) -> Array:
    """Decode an image of any format to `(height, width, channels)`; the first frame of several.

    Args:
        data: the encoded image.
        channels: 1 or 3.
        keeps_values: whether grey and indexed images keep their stored values, such as class ids.
        bits: 16 to return a 16-bit PNG as uint16; the result is uint8 otherwise.

    Raises:
        Exception: the decoder's error, for an image that is damaged or truncated.
    """
    import cv2

    if data[: len(media.PNG)] == media.PNG and not keeps_values:
        kind = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
        flags = kind | cv2.IMREAD_IGNORE_ORIENTATION
        flags |= cv2.IMREAD_ANYDEPTH if bits == 16 else 0
        opencv_pixels: Any = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if opencv_pixels is None:  # OpenCV also returns None when memory runs out
            with _opened(data) as image:
                image.load()
            raise ValueError("a PNG that is damaged or incomplete")
        if channels == 3:
            cv2.cvtColor(opencv_pixels, cv2.COLOR_BGR2RGB, opencv_pixels)
        decoded: Array = np.asarray(opencv_pixels).reshape(*opencv_pixels.shape[:2], channels)
        return decoded
    with _opened(data) as image:
        if image.format == "JPEG" and channels == 1:
            image.draft("L", image.size)  # the JPEG's luminance
        if image.mode.startswith("I;16"):  # Pillow would clip values above 255
            pixels = (np.asarray(image) >> 8).astype(np.uint8)
        elif keeps_values and image.mode in ("L", "P"):
            pixels = np.asarray(image)
        else:
            pixels = np.asarray(image.convert(_MODES[channels]))
    return pixels.reshape(*pixels.shape[:2], -1)


def _opened(data: Data) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:  # its message is an object's address
        raise ValueError(f"{bytes(data[:8])!r}…, none of {', '.join(_FORMATS)}") from error


class _OpenCVThreads:
    """OpenCV's number of threads, a global of the process.

    It is 1 while this package decodes images in its own threads. Afterwards the program's value is
    restored.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._before = threading.Lock(), 0, 1

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Limit OpenCV to the calling thread until the block ends."""
        import cv2

        with self._lock:
            if self._users == 0:
                self._before = cv2.getNumThreads()
                cv2.setNumThreads(1)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    cv2.setNumThreads(self._before)

    def forget_users(self) -> None:
        """Reset the state in a forked child, which lacks its parent's threads."""
        self._lock, self._users = threading.Lock(), 0


_opencv_threads = _OpenCVThreads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opencv_threads.forget_users)


class ImageDecoder:
    """Decoder of images to 1 or 3 channels, following the options.

    For a `label_map` the nearest value is taken, never a blend. It is cut, mirrored and moved like
    the image with the same key. With 16 `bits` pixels are uint16, and 8-bit values are multiplied
    by 257. `counters` get the seconds of all threads.
    """

    def __init__(
        self,
        options: "InputOptions",
        *,
        channels: int,
        label_map: bool = False,
        bits: int = 8,
        counters: StageCounters | None = None,
    ) -> None:
        self._counters = counters or StageCounters()
        self._options, self._channels, self._label_map = options, channels, label_map
        self._bits = bits
        self._normalization = None
        if options.image.normalize is not None and not label_map:
            self._normalization = Normalization(
                options.image.normalize, channels=channels, dtype=options.image.dtype
            )
        self._buffers = Buffers()

    @property
    def shape(self) -> tuple[int | None, int | None, int]:
        """Shape of one image, with None for unknown dimensions."""
        height, width = self._options.image_size or (None, None)
        return height, width, self._channels

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the arrays."""
        if self._normalization is not None:
            return self._normalization.dtype
        return np.dtype(np.uint16 if self._bits == 16 else np.uint8)

    def decode(self, images: Sequence[Image], keys: Keys | None = None) -> Array:
        """Decode images to a new `(batch, height, width, channels)` array of integers or floats.

        Args:
            images: the encoded images or pixels. They have one size if the options set no
                `image_size`.
            keys: `(batch,) uint64`, one for a record and epoch; required for random options.

        Raises:
            DatasetError: the images differ in size.
            Exception: a decoder's error.
        """
        began = perf_counter_ns()
        headers = [self._size(image) for image in images]
        sizes, are_plain = [size for size, _ in headers], [is_plain for _, is_plain in headers]
        plans = plan_images(self._options, sizes, keys, scales=not self._label_map)
        for (height, width), plan, is_jpeg in zip(sizes, plans, are_plain, strict=True):
            ratio = plan.ratio if is_jpeg else 1  # a JPEG is decoded at the reduced scale
            if height * width * self._channels >= MAX_VALUES * ratio**2:
                raise ValueError(f"one of {height} x {width} pixels")
        targets = {plan.target for plan in plans} or {(0, 0)}
        size = self._options.image_size or min(targets)
        if self._options.image_size is None and len(targets) > 1:
            raise DatasetError(
                f"images: expected one size in a batch, got {sorted(targets)[:3]}. Set image_size, "
                "or read them one by one, with batch_size=None."
            )
        batch = self._buffers.take((len(images), *size, self._channels), self.dtype)
        planned = perf_counter_ns()
        spent = [(0, 0)] * len(images)  # nanoseconds of decoding and of augmenting

        def work(row: int) -> None:
            """Decode one image, change its pixels, and write it to its row of the batch."""
            started, augmenting = perf_counter_ns(), 0
            part = self._part(images[row], sizes[row], plans[row], are_plain[row])
            pixels = self._fitted(part, plans[row], batch[row])
            if keys is not None:
                augmenting = -perf_counter_ns()
                pixels = change_pixels(
                    self._options.augmentation, pixels, keys[row], label_map=self._label_map
                )
                augmenting += perf_counter_ns()
            if self._normalization is not None:
                self._normalization.write(np.ascontiguousarray(pixels), to=batch[row])
            elif not np.may_share_memory(pixels, batch[row]):
                batch[row] = pixels
            spent[row] = perf_counter_ns() - started - augmenting, augmenting

        with _opencv_threads.one():
            run_in_threads(work, len(images))
        decode, augment = (sum(times[n] for times in spent) for n in (0, 1))
        self._counters.add(decode=decode + planned - began, augment=augment)
        return batch

    def _size(self, image: Image) -> tuple[tuple[int, int], bool]:
        """Return height and width, and whether the image is a plain JPEG."""
        if isinstance(image, np.ndarray):
            return (image.shape[0], image.shape[1]), False
        of_jpeg = None if self._label_map else plain_jpeg_size(image)
        size = of_jpeg or image_size(image)
        if not math.prod(size):
            raise ValueError(f"one of {size[0]} x {size[1]} pixels")
        return size, of_jpeg is not None

    def _part(self, image: Image, size: tuple[int, int], plan: ImagePlan, is_plain: bool) -> Array:
        """Return the planned part of an image, with the required channels and bits."""
        part = self._decoded_part(image, size, plan, is_plain)
        if self._bits == 16 and part.dtype == np.uint8:
            part = part.astype(np.uint16) * np.uint16(257)  # 255 becomes 65,535
        return part

    def _decoded_part(
        self, image: Image, size: tuple[int, int], plan: ImagePlan, is_plain: bool
    ) -> Array:
        """Return the planned part of an image with the required number of channels."""
        import cv2

        if isinstance(image, np.ndarray):
            whole: Array = image
        else:
            if is_plain:
                part = decode_jpeg_part(image, size, plan, channels=self._channels)
                if part is not None:
                    return part
            whole = decode_image(
                image, channels=self._channels, keeps_values=self._label_map, bits=self._bits
            )
        top, left, height, width = plan.box
        pixels = whole[top : top + height, left : left + width]
        if pixels.shape[-1] == self._channels:
            return pixels
        if pixels.shape[-1] == 1:
            return np.repeat(pixels, self._channels, axis=-1)
        grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
        return np.asarray(grey, pixels.dtype)[..., np.newaxis]

    def _fitted(self, part: Array, plan: ImagePlan, row: Array) -> Array:
        """Resize, pad and mirror a part; use its row of the batch if that saves a copy."""
        import cv2

        height, width = plan.target
        size = self._options.image_size if self._options.pads else None
        to = row if self._normalization is None else None
        pixels = part
        if part.shape[:2] != plan.target:
            inner = None if size or plan.is_mirrored else to
            method = cv2.INTER_NEAREST_EXACT if self._label_map else cv2.INTER_LINEAR
            resized = cv2.resize(part, (width, height), inner, interpolation=method)
            pixels = np.asarray(resized, part.dtype).reshape(height, width, -1)
        if size is not None:
            whole = np.zeros((*size, self._channels), part.dtype)
            top, left = ((a - n) // 2 for a, n in zip(size, plan.target, strict=True))
            whole[top : top + height, left : left + width] = pixels
            pixels = whole
        if plan.is_mirrored:
            pixels = np.asarray(cv2.flip(pixels, 1, to), part.dtype).reshape(pixels.shape)
        return pixels
