"""Decode images to batches of arrays, in threads, without a framework.

A plan decides which part of each image is kept, at what scale, and its new size. Points and extents
are `(images, 2)` integers, rows before columns, in pixels. All randomness follows from a record's
key. Only the planned part is decoded. libjpeg decodes at 1/2, 1/4 or 1/8 of the scale if the target
is smaller than that. Each image goes through all steps in one thread, while it is in the CPU's
cache.

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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.format import media_formats as media
from trainer_utils.format.hashing import splitmix64
from trainer_utils.format.tensors import numpy_dtype
from trainer_utils.options.pixels import MAX_VALUES, NORMALIZATIONS
from trainer_utils.reading.augmenting import change_pixels
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.jpeg_regions import region_decoder
from trainer_utils.runtime.buffers import Buffers
from trainer_utils.runtime.threads import run_in_threads

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

Array = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]
Pairs = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Sizes = npt.NDArray[np.int64]  # `(images, 2)`: heights and widths
Box = tuple[int, int, int, int]
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
_ATTEMPTS = 10  # tries to place a crop of the drawn area and aspect
_MAX_SCALING = 3  # powers of two: libjpeg decodes at 1/2, 1/4 and 1/8


class ImagePlan(NamedTuple):
    """The planned changes to one image.

    Attributes:
        box: the part to keep: top, left, height, width.
        ratio: a JPEG is decoded at 1 / `ratio` of its scale.
        scaled_box: the box at that scale.
        target: the height and width after resizing.
        is_mirrored: whether the result is mirrored.
    """

    box: Box
    ratio: int
    scaled_box: Box
    target: tuple[int, int]
    is_mirrored: bool


def plan_images(
    options: "InputOptions",
    sizes: Sequence[tuple[int, int]],
    keys: Keys | None = None,
    *,
    scales: bool = True,
) -> list[ImagePlan]:
    """Plan the changes to each image.

    Args:
        options: the settings of the input.
        sizes: the height and width of each image.
        keys: `(images,) uint64`, required for random options.
        scales: whether JPEGs may be decoded at a smaller scale, if the options allow it.
    """
    whole = np.array(sizes, np.int64).reshape(-1, 2)
    begin, extent = _crops(options, whole, keys)
    targets = _target_sizes(options, extent)
    ratios = np.ones((len(whole), 1), np.int64)
    if scales and options.image.dct_scaling and options.image_size is not None:
        ratios = _scalings(extent, targets)
    mirrored = np.zeros(len(whole), bool)
    if options.augmentation.flips:
        assert keys is not None
        mirrored = are_mirrored(keys)
    # The box in the scaled image: its corners are rounded, those at the image's end are kept there.
    first, last = ((corner + ratios // 2) // ratios for corner in (begin, begin + extent))
    last = np.where(begin + extent == whole, -(-whole // ratios), last)
    boxes = np.concatenate([begin, extent], axis=1)
    scaled_boxes = np.concatenate([first, last - first], axis=1)
    columns: list[Any] = [boxes, ratios[:, 0], scaled_boxes, targets, mirrored]
    return [
        ImagePlan(tuple(box), ratio, tuple(scaled), tuple(target), flips)
        for box, ratio, scaled, target, flips in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _crops(options: "InputOptions", whole: Sizes, keys: Keys | None) -> tuple[Sizes, Sizes]:
    """Return the begin and the size of the part of each image to use.

    Args:
        options: the settings of the input.
        whole: `(images, 2) int64`, the height and width of each image.
        keys: `(images,) uint64`, required for random crops.
    """
    if options.augmentation.crops:
        assert keys is not None
        return _random_boxes(whole, keys, options.image.crop_area, options.image.crop_aspect)
    if options.image.resize != "crop" or options.image_size is None:
        return np.zeros_like(whole), whole
    # The largest centred box of that aspect. An odd remainder puts the smaller half first.
    size = np.array(options.image_size)
    of_aspect = (whole[:, ::-1] * size + size[::-1] // 2) // size[::-1]
    extent = np.clip(of_aspect, 1, whole)
    return (whole - extent) // 2, extent


def _target_sizes(options: "InputOptions", extent: Sizes) -> Sizes:
    """Return the size that each part of an image is resized to, without black borders."""
    if options.image_size is None:
        return extent
    size = np.array(options.image_size)
    if not options.pads:
        return np.broadcast_to(size, extent.shape)
    # Round down like `tf.image.resize_with_pad`.
    targets: Sizes = np.clip(extent * size[::-1] // extent[:, ::-1], 1, size)
    return targets


def _scalings(extent: Sizes, targets: Sizes) -> Sizes:
    """Return the largest ratio of a scaled JPEG that still exceeds each target, `(images, 1)`."""
    fits = ((extent - 1) // targets).min(axis=1, keepdims=True)
    powers = np.log2(np.maximum(fits, 1)).astype(np.int64)
    scalings: Sizes = 1 << np.minimum(powers, _MAX_SCALING)
    return scalings


def are_mirrored(keys: Keys) -> npt.NDArray[np.bool_]:
    """Return for each key whether its image is mirrored; half of them are."""
    return draw_uniforms(keys, count=1, purpose=1)[:, 0] < 0.5


def draw_uniforms(keys: Keys, *, count: int, purpose: int = 0) -> npt.NDArray[np.float64]:
    """Draw numbers in [0, 1), multiples of 2**-53, equal on every machine.

    Args:
        keys: `(images,) uint64`, the seeds.
        count: the number of draws for each key.
        purpose: a number from 0 that separates independent draws. It is part of the state, since an
            offset into one sequence would overlap.

    Returns:
        `(images, count) float64`.
    """
    state = splitmix64(
        keys ^ splitmix64(np.zeros(1, np.uint64), np.array([purpose + 1], np.uint64))
    )
    bits = splitmix64(state[:, np.newaxis], np.arange(1, count + 1, dtype=np.uint64))
    return (bits >> np.uint64(11)) * 2.0**-53


def _random_boxes(
    whole: Pairs, keys: Keys, area: tuple[float, float], aspect: tuple[float, float]
) -> tuple[Pairs, Pairs]:
    """Draw boxes of random area, aspect and position; return begins and extents.

    The first of ten attempts that is within the image is used. If all fail, as for a very long
    image, the box is in the middle with the nearest aspect.

    Source: "Going deeper with convolutions" (Szegedy et al., 2014), the augmentation of Inception.
    """
    uniforms = draw_uniforms(keys, count=4 * _ATTEMPTS).reshape(len(keys), _ATTEMPTS, 4)
    low, high = (math.log(limit) for limit in aspect)
    pixels = (area[0] + (area[1] - area[0]) * uniforms[..., 0]) * whole.prod(axis=1)[:, np.newaxis]
    aspects = np.exp(low + (high - low) * uniforms[..., 1])
    drawn = np.rint(np.sqrt(np.stack([pixels / aspects, pixels * aspects], axis=-1)))
    fits = ((drawn >= 1) & (drawn <= whole[:, np.newaxis])).all(axis=-1)
    chosen = np.arange(len(keys)), fits.argmax(axis=1)
    extent = drawn[chosen].astype(np.int64)
    begin = (uniforms[..., 2:][chosen] * (whole - extent + 1)).astype(np.int64)
    limits = np.rint(whole[:, ::-1] * (1 / aspect[0], aspect[1])).astype(np.int64)
    middle = np.clip(limits, 1, whole)
    has_fit = fits.any(axis=1)[:, np.newaxis]
    return np.where(has_fit, begin, (whole - middle) // 2), np.where(has_fit, extent, middle)


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
