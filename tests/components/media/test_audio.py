"""What becomes of every kind of sound, heard by TensorFlow's own decoder and by soundfile."""

import contextlib
import functools
import io
import itertools
import random
import resource
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from components.common.rejects import RejectedInputError
from components.media.audio import StoredAudio, store_audio
from components.media.options import AudioOptions
from trainer_utils.format import ConfigError

CODES = {
    "DAMAGED_AUDIO",
    "EMPTY_FILE",
    "NOT_AUDIO",
    "NO_SAMPLES",
    "TOO_LARGE",
    "TRUNCATED_AUDIO",
    "UNSUPPORTED_FORMAT",
}


def tone(frames: int, channels: int = 1, rate: int = 8000, hertz: float = 440) -> np.ndarray:
    """A sine in each channel, of another pitch in each."""
    seconds = np.arange(frames) / rate
    return np.stack(
        [0.5 * np.sin(2 * np.pi * hertz * (1 + c / 4) * seconds) for c in range(channels)], 1
    )


def noise(frames: int, channels: int = 1) -> np.ndarray:
    """What does not compress, so that files of it have many frames and pages."""
    return np.random.default_rng(0).normal(0, 0.1, (frames, channels))


def encode(samples: np.ndarray, kind: str, subtype: str, rate: int = 8000, **options) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format=kind, subtype=subtype, **options)
    return stream.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    """Of RIFF: chunks of odd sizes have a byte of padding that their size does not count."""
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def form(
    channels: int = 1, rate: int = 8000, bits: int = 16, *, encoding: int = 1, more: bytes = b""
) -> bytes:
    frame = channels * bits // 8
    fields = (encoding, channels, rate, rate * frame % 2**32, frame % 2**16, bits)
    return chunk(b"fmt ", struct.pack("<HHIIHH", *fields) + more)


PCM = np.rint(tone(500) * 32767).astype("<i2").tobytes()
DATA = chunk(b"data", PCM)
PLAIN = riff(form(), DATA)


def store(data: bytes, filename: str = "sound", **options) -> StoredAudio:
    return store_audio(data, AudioOptions(**options), filename=filename)


def stored_or_none(data: bytes, **options) -> StoredAudio | None:
    try:
        return store(data, **options)
    except RejectedInputError as error:
        if error.code not in CODES:
            raise
        return None


def rejected(data: bytes, **options) -> RejectedInputError:
    with pytest.raises(RejectedInputError) as caught:
        store(data, **options)
    return caught.value


def heard(stored: StoredAudio) -> np.ndarray:
    """What `tf.audio.decode_wav` reads, in steps of 16 bits; the facts beside it must agree."""
    samples, rate = tf.audio.decode_wav(stored.data)
    assert samples.shape == (stored.num_frames, stored.channels)
    assert int(rate) == stored.sample_rate
    return samples.numpy() * 32768


def by_soundfile(data: bytes, frames: int = -1) -> np.ndarray:
    """What soundfile reads, in steps of 16 bits."""
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        samples = file.read(frames, dtype="float64", always_2d=True)
    return np.clip(samples * 32768, -32768, 32767)


@contextlib.contextmanager
def at_most(more_bytes: int) -> Iterator[None]:
    """Lets the process take so much more memory; beyond it, MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# MPEG audio, layer III, as ISO 11172-3 and 13818-3 frame it -------------------------------------

_KBITS = {
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG 1
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG 2
}


def mp3_frames(data: bytes) -> list[int]:
    """Where each frame begins, and the end."""
    starts, position = [], 0
    while data[position : position + 1] == b"\xff":
        starts.append(position)
        version = data[position + 1] >> 3 & 3
        rate = (44100, 48000, 32000)[data[position + 2] >> 2 & 3] // (2 if version == 2 else 1)
        kbits = _KBITS[version][data[position + 2] >> 4]
        padding = data[position + 2] >> 1 & 1
        position += (144 if version == 3 else 72) * kbits * 1000 // rate + padding
    assert position == len(data)
    return [*starts, position]


def without_tag(mp3: bytes) -> bytes:
    """As streams and older encoders have it: without the frame that counts the others."""
    start = mp3_frames(mp3)[1]
    assert b"Xing" in mp3[:start] or b"Info" in mp3[:start]
    return mp3[start:]


@functools.cache
def mp3(mode: str = "CONSTANT") -> bytes:
    """Silence after noise: of a variable rate, no frame tells how many there are."""
    samples = np.concatenate([noise(20_000), np.zeros((20_000, 1))])
    return encode(
        samples, "MP3", "MPEG_LAYER_III", 44_100, bitrate_mode=mode, compression_level=0.5
    )


COVER = b"ID3\4\0\0" + bytes([0, 0, 100, 0]) + bytes(100 * 128)  # ID3v2, with a picture's size


def with_flac_frames(flac: bytes, frames: int) -> bytes:
    """With another total in STREAMINFO, whose low 36 bits of bytes 18 to 25 it is."""
    fields = int.from_bytes(flac[18:26], "big") >> 36 << 36
    return flac[:18] + (fields | frames).to_bytes(8, "big") + flac[26:]


# What comes out -----------------------------------------------------------------------------------

CHANNELS = (1, 2, 6)
EXACT = [
    ("WAV", "PCM_U8", "WAV_VARIANT"),
    ("WAV", "ULAW", "WAV_VARIANT"),
    ("WAV", "ALAW", "WAV_VARIANT"),
    ("WAVEX", "PCM_16", "WAV_VARIANT"),
    ("RF64", "PCM_16", "WAV_VARIANT"),
    ("FLAC", "PCM_S8", "FLAC"),
    ("FLAC", "PCM_16", "FLAC"),
]
ROUNDED = [
    ("WAV", "PCM_24", "BIT_DEPTH"),
    ("WAV", "PCM_32", "BIT_DEPTH"),
    ("WAV", "FLOAT", "BIT_DEPTH"),
    ("WAV", "DOUBLE", "BIT_DEPTH"),
    ("WAVEX", "PCM_24", "BIT_DEPTH"),
    ("WAVEX", "FLOAT", "BIT_DEPTH"),
    ("RF64", "PCM_24", "BIT_DEPTH"),
    ("FLAC", "PCM_24", "FLAC"),
    ("OGG", "VORBIS", "OGG"),
    ("OGG", "OPUS", "OGG"),
]


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize(("kind", "subtype", "conversion"), EXACT)
def test_up_to_16_bits_come_out_exactly(kind, subtype, conversion, channels):
    data = encode(tone(3000, channels), kind, subtype)
    stored = store(data)
    assert (stored.sample_rate, stored.channels, stored.num_frames) == (8000, channels, 3000)
    assert stored.conversions == (conversion,)
    np.testing.assert_array_equal(heard(stored), by_soundfile(data))


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize(("kind", "subtype", "conversion"), ROUNDED)
def test_more_bits_come_out_within_half_a_step(kind, subtype, conversion, channels):
    data = encode(tone(3000, channels), kind, subtype)
    stored = store(data)
    assert (stored.sample_rate, stored.channels, stored.num_frames) == (8000, channels, 3000)
    assert stored.conversions == (conversion,)
    # Half a step, and what float32 rounds off.
    assert np.abs(heard(stored) - by_soundfile(data)).max() <= 0.51


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_mp3_comes_out_as_soundfile_decodes_it(rate, channels):
    data = encode(tone(3000, channels, rate), "MP3", "MPEG_LAYER_III", rate)
    stored = store(data)
    assert (stored.sample_rate, stored.channels, stored.num_frames) == (rate, channels, 3000)
    assert stored.conversions == ("MP3",)
    assert np.abs(heard(stored) - by_soundfile(data)).max() <= 0.51


@pytest.mark.parametrize("subtype", ["IMA_ADPCM", "MS_ADPCM", "GSM610", "G721_32"])
def test_the_codecs_of_wav_are_decoded(subtype):
    # libsndfile cannot seek in some of these, so soundfile must be told how much to read.
    data = encode(tone(3200), "WAV", subtype)
    frames = soundfile.info(io.BytesIO(data)).frames
    stored = store(data)
    assert stored.num_frames == frames >= 3200
    assert np.abs(heard(stored) - by_soundfile(data, frames)).max() <= 0.51


def test_samples_beyond_full_scale_are_clipped():
    loud = np.array([2.0, -2.0, 1.0, -1.0, 0.0, np.inf, -np.inf])
    stored = store(encode(loud, "WAV", "FLOAT"))
    assert heard(stored)[:, 0].tolist() == [32767, -32768, 32767, -32768, 0, 32767, -32768]


def test_samples_that_are_no_numbers_are_a_reject():
    data = encode(np.array([0.25, np.nan, 0.5]), "WAV", "FLOAT")
    assert rejected(data).code == "DAMAGED_AUDIO"


# What is kept -------------------------------------------------------------------------------------

TEXT = b"INFOISFT" + struct.pack("<I", 4) + b"abc\0"
KEPT = {
    "mono": PLAIN,
    "stereo": encode(tone(500, 2), "WAV", "PCM_16"),
    "six channels": encode(tone(500, 6), "WAV", "PCM_16"),
    "one frame": riff(form(), chunk(b"data", PCM[:2])),
    "fmt of 18 bytes": riff(form(more=b"\0\0"), DATA),
    "LIST before the samples": riff(form(), chunk(b"LIST", TEXT), DATA),
    "LIST after the samples": riff(form(), DATA, chunk(b"LIST", TEXT)),
    "JUNK before fmt": riff(chunk(b"JUNK", bytes(28)), form(), DATA),
    "RIFF size of a stream": b"RIFF\xff\xff\xff\xff" + PLAIN[8:],
}


@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT)
def test_a_wav_of_16_bits_is_kept_byte_for_byte(data):
    stored = store(data)
    assert stored.data == data
    assert stored.conversions == ()
    np.testing.assert_array_equal(heard(stored), by_soundfile(data))


@pytest.mark.parametrize("rate", [1, 8000, 44_100, 192_000, 768_000])
def test_a_wav_of_any_rate_is_kept(rate):
    data = riff(form(rate=rate), DATA)
    assert store(data).data == store(data, sample_rate=rate).data == data
    assert store(data).sample_rate == rate


REWRITTEN = {  # of 16 bits, yet TensorFlow refuses them, mostly since it knows no padding
    "odd note before the samples": riff(form(), chunk(b"note", TEXT + b"x"), DATA),
    "odd JUNK before fmt": riff(chunk(b"JUNK", bytes(27)), form(), DATA),
    "odd note after the samples": riff(form(), DATA, chunk(b"note", TEXT + b"x")),
    "a byte after the end": PLAIN + b"\0",
    "seven bytes after the end": PLAIN + bytes(7),
    "100 bytes after the end": PLAIN + bytes(100),
    "last LIST cut short": riff(form(), DATA, chunk(b"LIST", TEXT))[:-21],
    "bytes a second of 0": riff(form().replace(struct.pack("<I", 16_000), bytes(4)), DATA),
    "bytes a second of others": riff(form().replace(struct.pack("<I", 16_000), b"abcd"), DATA),
    "fmt of 40 bytes": riff(form(more=bytes(24)), DATA),
    "size of the samples unknown": riff(form(), b"data\xff\xff\xff\xff" + PCM),
    "half a sample at the end": riff(form(), chunk(b"data", PCM + b"\1")),
}


@pytest.mark.parametrize("data", REWRITTEN.values(), ids=REWRITTEN)
def test_a_wav_that_tensorflow_refuses_is_rewritten_with_the_same_samples(data):
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.audio.decode_wav(data)
    stored = store(data)
    assert stored.conversions == ("WAV_VARIANT",)
    np.testing.assert_array_equal(heard(stored)[:, 0], np.frombuffer(PCM, "<i2"))


def test_a_tag_after_a_wav_does_no_harm():
    stored = store(PLAIN + b"TAG" + b" " * 125)
    np.testing.assert_array_equal(heard(stored)[:, 0], np.frombuffer(PCM, "<i2"))


def test_two_data_chunks_are_rejected_or_heard_both():
    stored = stored_or_none(riff(form(), DATA, DATA))
    assert stored is None or len(heard(stored)) == 1000


@pytest.mark.parametrize(
    "data",
    [
        riff(form(2, rate=2**31, bits=16), DATA),
        riff(form(rate=4_000_000_000), DATA),
        riff(form(rate=2**31 - 1), DATA),
        riff(form(rate=0), DATA),
        riff(form(channels=0), DATA),
        riff(form(channels=40_000), DATA),
        riff(form(bits=0), DATA),
        riff(form(bits=17), DATA),
        riff(form(encoding=0x4242), DATA),
        riff(DATA),
        riff(DATA, form()),
        riff(form()),
        riff(),
        b"RIFF",
        b"RIFX" + PLAIN[4:],
    ],
)
def test_a_wav_with_a_mad_header_is_rejected_or_heard(data):
    stored = stored_or_none(data)
    assert stored is None or heard(stored).size


# Names --------------------------------------------------------------------------------------------

OF_KIND = {
    "WAV": PLAIN,
    "FLAC": encode(tone(500), "FLAC", "PCM_16"),
    "OGG": encode(tone(500), "OGG", "VORBIS"),
    "MP3": encode(tone(500), "MP3", "MPEG_LAYER_III"),
}
ENDINGS = {
    "WAV": [".wav", ".wave", ".WAV"],
    "FLAC": [".flac", ".Flac"],
    "OGG": [".ogg", ".oga", ".OGG"],
    "MP3": [".mp3", ".MP3"],
}


@pytest.mark.parametrize("kind", OF_KIND)
def test_a_wrong_extension_is_counted_and_the_bytes_decide(kind):
    right = store(OF_KIND[kind], f"a.b/x{ENDINGS[kind][0]}")
    for other in ENDINGS:
        for ending in ENDINGS[other]:
            stored = store(OF_KIND[kind], f"a.b/x{ending}")
            assert stored.data == right.data
            assert ("WRONG_EXTENSION" in stored.conversions) == (other != kind)
    for unknown in ("x", "x.bin", "wav", "x.wav.bak"):
        assert store(OF_KIND[kind], unknown).conversions == right.conversions


# Resampling ---------------------------------------------------------------------------------------


def inner(samples: np.ndarray) -> np.ndarray:
    """Without the ends, where the filter meets silence."""
    return samples[len(samples) // 8 : -len(samples) // 8]


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
@pytest.mark.parametrize(
    ("rate", "wished"),
    [(44_100, 16_000), (48_000, 16_000), (8000, 16_000), (16_000, 22_050), (11_025, 8000)],
)
def test_a_sine_is_the_same_sine_at_another_rate(kind, rate, wished):
    stored = store(encode(tone(rate // 2, 2, rate), kind, "PCM_16", rate), sample_rate=wished)
    assert stored.conversions[-1] == "RESAMPLED"
    assert stored.sample_rate == wished
    assert stored.num_frames == -(-(rate // 2) * wished // rate)
    expected = tone(stored.num_frames, 2, wished) * 32768
    assert np.abs(inner(heard(stored)) - inner(expected)).max() < 0.002 * 32768


def test_resampled_sound_is_what_scipy_makes_of_exact_samples():
    samples = np.rint(noise(4410, 2) * 32768) / 32768
    stored = store(encode(samples, "WAV", "PCM_16", 44_100), sample_rate=16_000)
    expected = signal.resample_poly(samples, 160, 441, axis=0) * 32768
    assert np.abs(heard(stored) - expected).max() <= 1


def test_what_the_new_rate_cannot_hold_is_filtered_out():
    high = encode(tone(44_100, 1, 44_100, hertz=12_000), "WAV", "PCM_16", 44_100)
    assert np.abs(inner(heard(store(high, sample_rate=16_000)))).max() < 0.005 * 32768


def test_full_scale_does_not_wrap_round_when_resampled():
    square = np.repeat([32767, -32768] * 20, 441).astype("<i2")
    stored = store(riff(form(rate=44_100), chunk(b"data", square.tobytes())), sample_rate=16_000)
    middles = heard(stored)[80::160, 0]  # of each half period, far from the edges
    assert (middles[0::2] > 30_000).all()
    assert (middles[1::2] < -30_000).all()


def test_the_rate_it_has_already_changes_nothing():
    for data in OF_KIND.values():
        assert store(data, sample_rate=8000) == store(data)


@pytest.mark.parametrize("rate", [0, -1, 768_001, 16_000.0, "16000", True])
def test_a_rate_that_is_none_is_refused_by_name(rate):
    with pytest.raises(ConfigError, match="sample_rate"):
        AudioOptions(sample_rate=rate)


# Broken files -------------------------------------------------------------------------------------


def ogg(subtype: str, rate: int, frames: int) -> bytes:
    data = encode(noise(frames), "OGG", subtype, rate)
    assert data.count(b"OggS") > 3  # pages of headers, and two of sound
    return data


WHOLE = {
    "WAV": riff(form(), chunk(b"data", PCM[:400])),
    "WAV with LIST after": riff(form(), chunk(b"data", PCM[:400]), chunk(b"LIST", TEXT)),
    "WAV of 8 bits, odd": encode(tone(301), "WAV", "PCM_U8"),
    "WAV of 24 bits": encode(tone(200), "WAV", "PCM_24"),
    "WAV of floats": encode(tone(200), "WAV", "FLOAT"),
    "WAV ULAW": encode(tone(200), "WAV", "ULAW"),
    "WAV ADPCM": encode(tone(1500), "WAV", "IMA_ADPCM"),
    "WAVEX": encode(tone(200), "WAVEX", "PCM_16"),
    "RF64": encode(tone(200), "RF64", "PCM_16"),
    "FLAC": encode(noise(12_000), "FLAC", "PCM_16"),
    "FLAC of 24 bits": encode(noise(6000, 2), "FLAC", "PCM_24"),
    "Vorbis": ogg("VORBIS", 22_050, 30_000),
    "Opus": ogg("OPUS", 48_000, 72_000),
    "MP3": mp3(),
    "MP3 of variable rate": mp3("VARIABLE"),
    "MP3 after a cover": COVER + mp3(),
}


def cuts(data: bytes) -> list[int]:
    """Every byte of a small file; of a large one many, and all about the seams of its pages."""
    seams = [0, len(data)]
    while (found := data.find(b"OggS", seams[-2] + 1)) > 0:
        seams.insert(-1, found)
    near = {seam + step for seam in seams for step in range(-40, 40)}
    spread = range(0, len(data), 1 + len(data) // 1500)
    return sorted(cut for cut in near.union(spread) if 0 <= cut < len(data))


@pytest.mark.parametrize("data", WHOLE.values(), ids=WHOLE)
def test_a_file_cut_anywhere_is_rejected_or_loses_no_sample(data):
    whole = heard(store(data))
    lost = {
        cut: stored.num_frames
        for cut in cuts(data)
        if (stored := stored_or_none(data[:cut])) and len(heard(stored)) < len(whole)
    }
    assert not lost, f"of {len(whole)} frames and {len(data)} bytes, frames left by bytes left"


@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE", "AVERAGE"])
def test_an_mp3_without_a_count_is_heard_to_its_end(mode):
    data = without_tag(mp3(mode))
    stored = store(data)
    assert len(heard(stored)) == 1152 * (len(mp3_frames(data)) - 1)
    assert np.abs(heard(stored)[:19_000]).max() > 1000


def test_an_mp3_without_a_count_is_cut_at_a_frame_or_rejected():
    data = without_tag(mp3())
    starts = mp3_frames(data)
    for frame, (start, end) in enumerate(itertools.pairwise(starts)):
        if frame < 2:  # too little for anybody to know it for MP3
            continue
        assert (at_seam := stored_or_none(data[:start])) is not None
        assert at_seam.num_frames == 1152 * frame
        for cut in (start + 2, start + 5, (start + end) // 2, end - 1):
            assert (left := stored_or_none(data[:cut])) is None or left.num_frames > 1152 * frame


@pytest.mark.parametrize("data", [COVER + mp3(), mp3() + b"TAG" + b" " * 125])
def test_tags_about_an_mp3_change_nothing(data):
    assert store(data) == store(mp3())


def test_a_flac_of_unknown_length_is_heard_to_its_end():
    whole = encode(tone(12_000), "FLAC", "PCM_16")
    streamed = with_flac_frames(whole, 0)  # "unknown", says the format; encoders to pipes write it
    np.testing.assert_array_equal(heard(store(streamed)), by_soundfile(whole))
    assert rejected(streamed[: len(streamed) // 2]).code in ("DAMAGED_AUDIO", "TRUNCATED_AUDIO")


def test_two_oggs_one_after_the_other_are_rejected_or_heard_both():
    data = OF_KIND["OGG"] + encode(tone(700), "OGG", "VORBIS")  # a chained stream, as radio is
    stored = stored_or_none(data)
    assert stored is None or len(heard(stored)) == 1200


@pytest.mark.parametrize("kind", ["FLAC", "Vorbis", "Opus"])
def test_a_flipped_byte_is_rejected_or_loses_no_sample(kind):
    """These have checksums; a decoder that leaves out a bad page must not pass for a whole file."""
    data = WHOLE[kind]
    frames = store(data).num_frames
    lost = {}
    for place in range(0, len(data), len(data) // 60):
        flipped = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        stored = stored_or_none(flipped)
        if stored and len(heard(stored)) < frames:
            lost[place] = stored.num_frames
    assert not lost, f"of {frames} frames, frames left by place"


NOT_SOUNDS = {
    "text": b"no sound at all\n" * 50,
    "PNG": b"\x89PNG\r\n\x1a\n" + bytes(500),
    "JPEG": b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + bytes(500),
    "PDF": b"%PDF-1.4\n" + bytes(500),
    "zeros": bytes(5000),
    "ones": b"\xff" * 5000,
    "AVI": b"RIFF\0\1\0\0AVI LIST" + bytes(500),
    "WebP": b"RIFF\0\1\0\0WEBPVP8 " + bytes(500),
    "MP4": b"\0\0\0\x20ftypM4A " + bytes(500),
    "one byte": b"R",
    "ID3 alone": COVER,
    "fLaC alone": b"fLaC",
    "OggS alone": b"OggS",
}


@pytest.mark.parametrize("data", NOT_SOUNDS.values(), ids=NOT_SOUNDS)
def test_what_is_no_sound_is_not_audio(data):
    assert rejected(data, filename="x.wav").code == "NOT_AUDIO"


@pytest.mark.parametrize("kind", ["AIFF", "AU", "CAF", "W64"])
def test_other_sounds_are_named(kind):
    error = rejected(encode(tone(50), kind, "PCM_16"))
    assert error.code == "UNSUPPORTED_FORMAT"
    assert kind in error.detail


def test_nothing_is_an_empty_file():
    assert rejected(b"").code == "EMPTY_FILE"


@pytest.mark.parametrize(
    "data",
    [
        riff(form(), chunk(b"data", b"")),
        encode(np.zeros((0, 1)), "WAV", "PCM_24"),
        encode(np.zeros((0, 1)), "WAVEX", "PCM_16"),
    ],
    ids=["WAV", "WAV of 24 bits", "WAVEX"],
)
def test_a_sound_of_no_samples_is_a_reject(data):
    assert rejected(data).code == "NO_SAMPLES"


BROKEN = {
    "text": NOT_SOUNDS["text"],
    "cut FLAC": WHOLE["FLAC"][:9000],
    "cut Vorbis": WHOLE["Vorbis"][:9000],
    "cut headers": WHOLE["Vorbis"][:2000],
    "AIFF": encode(tone(50), "AIFF", "PCM_16"),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_reject_says_the_same_every_time(data):
    # It goes into rejects.jsonl, which is to be the same bytes whoever writes it.
    details = {rejected(data).detail for _ in range(2)}
    assert len(details) == 1
    assert " at 0x" not in details.pop()


# Hostile sizes ------------------------------------------------------------------------------------

RF64_SIZES = struct.pack("<QQQI", 2**60, 2**59, 2**58, 0)
CLAIMS = {
    "WAV of 4 GiB": riff(form(), b"data\xf0\xff\xff\xff" + PCM),
    "WAV of 24 bits, of 4 GiB": riff(form(bits=24), b"data\xf0\xff\xff\xff" + PCM),
    "LIST of 4 GiB": riff(form(), b"LIST\xf0\xff\xff\xff" + PCM),
    "RF64 of an exabyte": (
        b"RF64\xff\xff\xff\xffWAVE"
        + chunk(b"ds64", RF64_SIZES)
        + form()
        + b"data\xff\xff\xff\xff"
        + PCM
    ),
    "FLAC of 2 ** 36 - 1 frames": with_flac_frames(OF_KIND["FLAC"], 2**36 - 1),
    "FLAC of 2 ** 28 frames": with_flac_frames(OF_KIND["FLAC"], 2**28),
    "ID3 of 256 MiB": b"ID3\4\0\0" + bytes([127, 127, 127, 127]) + mp3(),
}


@pytest.mark.parametrize("data", CLAIMS.values(), ids=CLAIMS)
def test_a_file_that_claims_to_be_enormous_is_a_reject(data):
    with at_most(2 << 30):
        assert rejected(data).code in CODES - {"EMPTY_FILE"}


@pytest.mark.parametrize(
    ("rate", "frames"),
    [(1, 60_000), (2**30 - 1, 8000), (15_999_989, 8000)],
    ids=["a second becomes hours", "1 GHz", "a prime of MHz"],
)
def test_a_mad_rate_is_a_reject_where_it_would_be_resampled(rate, frames):
    samples = chunk(b"data", bytes(2 * frames))
    with at_most(2 << 30):
        error = rejected(riff(form(rate=rate), samples), sample_rate=16_000)
    assert error.code in ("TOO_LARGE", "UNSUPPORTED_FORMAT", "DAMAGED_AUDIO")


def test_the_least_rate_and_the_most_are_resampled():
    samples = chunk(b"data", bytes(2000))
    for rate in (1000, 768_000):
        stored = store(riff(form(rate=rate), samples), sample_rate=16_000)
        assert stored.num_frames == -(-1000 * 16_000 // rate)


# Anything -----------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(st.binary(max_size=300), st.sampled_from([b"", b"RIFF0000WAVE", b"fLaC", b"OggS", b"ID3"]))
def test_any_bytes_are_rejected_or_heard(tail, head):
    if stored := stored_or_none(head + tail):
        heard(stored)


HEADERS = {"LIST": KEPT["LIST before the samples"], "RF64": WHOLE["RF64"], **OF_KIND}


@settings(max_examples=250)
@given(
    st.sampled_from(sorted(HEADERS)),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_any_header_is_rejected_or_heard(kind, edits):
    changed = bytearray(HEADERS[kind])
    for place, value in edits:
        changed[place] = value
    if stored := stored_or_none(bytes(changed)):
        heard(stored)


def _damaged_sounds(number: int) -> Iterator[bytes]:
    """Sounds with bytes changed, cut off or put in, most of them in the header."""
    chance = random.Random(1)
    wave = np.sin(np.arange(3000) / 9) * 0.5
    files = []
    for channels in (1, 2):
        kinds = {"WAV": "PCM_16", "FLAC": "PCM_16", "OGG": "VORBIS", "MP3": None, "WAVEX": "PCM_16"}
        for kind, subtype in kinds.items():
            stream = io.BytesIO()
            soundfile.write(stream, np.stack([wave] * channels, 1), 8000, subtype, format=kind)
            files += [stream.getvalue()] * (3 if kind == "WAV" else 1)
    for _ in range(number):
        data = bytearray(chance.choice(files))
        end = 60 if chance.random() < 0.7 else len(data)
        place = chance.randrange(end)
        match chance.randrange(4):
            case 0:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                data[place] = chance.randrange(256)
            case 2:
                del data[chance.randrange(20, len(data)) :]
            case _:
                data[place:place] = chance.randbytes(chance.randrange(20))
        yield bytes(data)


def test_of_damaged_sounds_nothing_is_stored_that_tensorflow_reads_otherwise():
    stored = 0
    for data in _damaged_sounds(3000):
        try:
            sound = store_audio(data, AudioOptions(), filename="sound")
        except RejectedInputError:
            continue
        samples, rate = tf.audio.decode_wav(sound.data)
        assert (tuple(samples.shape), int(rate)) == (
            (sound.num_frames, sound.channels),
            sound.sample_rate,
        )
        stored += 1
    assert stored > 500


def test_a_chunk_that_claims_more_than_the_file_has_is_written_anew():
    stream = io.BytesIO()
    soundfile.write(stream, np.zeros(100), 8000, "PCM_16", format="WAV")
    data = stream.getvalue() + b"junk\xff\xff\0\0"
    stored = store_audio(data, AudioOptions(), filename="sound")
    assert stored.conversions == ("WAV_VARIANT",)
    assert tf.audio.decode_wav(stored.data)[0].shape == (100, 1)
