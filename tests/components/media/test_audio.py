"""Test the stored audio of every kind of file against TensorFlow's decoder and soundfile."""

import importlib.abc
import math
import struct
import sys

import numpy as np
import pytest
import tensorflow as tf
from scipy import signal

from components.inputs.rejects import reject_errors
from tests.components.media.sounds import (
    DATA,
    KEPT,
    OF_KIND,
    PCM,
    PLAIN,
    TEXT,
    by_soundfile,
    chunk,
    encode,
    form,
    heard,
    noise,
    rejected,
    riff,
    store,
    stored_or_none,
    tone,
    with_flac_frames,
)

EXACT = [
    ("WAV", "PCM_U8", "WAV_VARIANT"),
    ("WAV", "ULAW", "WAV_VARIANT"),
    ("WAVEX", "PCM_16", "WAV_VARIANT"),
    ("RF64", "PCM_16", "WAV_VARIANT"),
    ("FLAC", "PCM_S8", "FLAC"),
    ("FLAC", "PCM_16", "FLAC"),
]
ROUNDED = [
    ("WAV", "PCM_24", "BIT_DEPTH"),
    ("WAV", "PCM_32", "BIT_DEPTH"),
    ("WAV", "DOUBLE", "BIT_DEPTH"),
    ("WAVEX", "FLOAT", "BIT_DEPTH"),
    ("RF64", "PCM_24", "BIT_DEPTH"),
    ("FLAC", "PCM_24", "FLAC"),
    ("OGG", "VORBIS", "OGG"),
    ("OGG", "OPUS", "OGG"),
]


@pytest.mark.parametrize(("kind", "subtype", "conversion"), EXACT + ROUNDED)
def test_up_to_16_bits_are_exact_and_more_within_half_a_step(kind, subtype, conversion, subtests):
    is_exact = (kind, subtype, conversion) in EXACT
    for channels in (1, 6):
        with subtests.test(channels=channels):
            data = encode(tone(3000, channels), kind, subtype)
            stored = store(data)
            assert (stored.sample_rate, stored.channels, stored.num_frames) == (
                8000,
                channels,
                3000,
            )
            assert stored.conversions == (conversion,)
            # Half a step, and the rounding of float32.
            difference = np.abs(heard(stored) - by_soundfile(data)).max()
            assert difference <= (0 if is_exact else 0.51)


def test_16_bit_wav_is_kept_byte_for_byte(subtests):
    for name, data in KEPT.items():
        with subtests.test(name=name):
            stored = store(data)
            assert (stored.data, stored.conversions) == (data, ()), name
            np.testing.assert_array_equal(heard(stored), by_soundfile(data))


REWRITTEN = {  # 16-bit files that TensorFlow refuses, mostly because it does not know padding
    "odd note before the samples": riff(form(), chunk(b"note", TEXT + b"x"), DATA),
    "odd JUNK before fmt": riff(chunk(b"JUNK", bytes(27)), form(), DATA),
    "odd note after the samples": riff(form(), DATA, chunk(b"note", TEXT + b"x")),
    "a byte after the end": PLAIN + b"\0",
    "100 bytes after the end": PLAIN + bytes(100),
    "last LIST cut short": riff(form(), DATA, chunk(b"LIST", TEXT))[:-21],
    "bytes a second of 0": riff(form().replace(struct.pack("<I", 16_000), bytes(4)), DATA),
    "fmt of 40 bytes": riff(form(more=bytes(24)), DATA),
    "half a sample at the end": riff(form(), chunk(b"data", PCM + b"\1")),
}


def test_wav_that_tensorflow_refuses_is_rewritten_losslessly(subtests):
    for name, data in REWRITTEN.items():
        with subtests.test(name=name):
            with pytest.raises(tf.errors.InvalidArgumentError):
                tf.audio.decode_wav(data)
            stored = store(data)
            assert stored.conversions == ("WAV_VARIANT",), name
            np.testing.assert_array_equal(heard(stored)[:, 0], np.frombuffer(PCM, "<i2"))


PLACEHOLDERS = (0, 0x7FFFF000, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def of_pipe(riff_size: int, data_size: int, *chunks: bytes, pcm: bytes = PCM) -> bytes:
    sizes = [struct.pack("<I", size) for size in (riff_size, data_size)]
    return b"RIFF" + sizes[0] + b"WAVE" + b"".join(chunks) + b"data" + sizes[1] + pcm


@pytest.mark.parametrize("size", PLACEHOLDERS)
@pytest.mark.parametrize("riff_size", [0, 0x7FFFF024, 0xFFFFFFFF])
def test_wav_written_to_a_pipe_is_read_to_its_end(riff_size, size, subtests):
    samples, rate, bits = tone(500, 2), 8000, 24
    deep = encode(samples, "WAV", "PCM_24")[-500 * 6 :]
    for data, same in {
        of_pipe(riff_size, size, form()): PLAIN,
        of_pipe(riff_size, size, form(), chunk(b"LIST", TEXT)): PLAIN,
        of_pipe(riff_size, size, form(), pcm=PCM + b"\1"): PLAIN,
        of_pipe(riff_size, size, form(2, rate, bits), pcm=deep): encode(samples, "WAV", "PCM_24"),
    }.items():
        with subtests.test(data=data):
            stored = store(data)
            assert stored.conversions == ("WAV_STREAM", *store(same).conversions)
            np.testing.assert_array_equal(heard(stored), heard(store(same)))


def test_placeholder_minus_the_header_size_is_recognised():
    stored = store(of_pipe(0xFFFFFFFF, 0xFFFFFFFF - 36, form()))
    assert (stored.data, stored.conversions) == (PLAIN, ("WAV_STREAM",))


def test_wav_shorter_than_its_header_says_is_rejected(subtests):
    for size in (len(PCM) + 2, 0x7FFFE000):
        with subtests.test(size=size):
            assert rejected(of_pipe(36 + size, size, form())).code == "TRUNCATED_AUDIO"


def test_wav_without_samples_is_rejected(subtests):
    for chunks in ((), (chunk(b"LIST", TEXT),)):
        with subtests.test(chunks=chunks):
            assert rejected(riff(form(), chunk(b"data", b""), *chunks)).code == "NO_SAMPLES"


@pytest.mark.parametrize(("peak", "is_clipped"), [(1.0, False), (1.5, True), (-40.0, True)])
def test_floats_beyond_full_scale_are_clipped_and_counted(peak, is_clipped):
    wave = np.zeros((100, 1), np.float32)
    wave[50] = peak
    stored = store(encode(wave, "WAV", "FLOAT"))
    assert stored.conversions == ("BIT_DEPTH", *(("CLIPPED",) if is_clipped else ()))
    assert heard(stored)[50, 0] == (32767 if peak > 0 else -32768)


def test_wav_with_an_absurd_header_is_rejected_or_readable(subtests):
    for data in (
        riff(form(2, rate=2**31, bits=16), DATA),
        riff(form(rate=2**31 - 1), DATA),
        riff(form(rate=0), DATA),
        riff(form(channels=0), DATA),
        riff(form(channels=40_000), DATA),
        riff(form(bits=0), DATA),
        riff(form(bits=17), DATA),
        riff(form(encoding=0x4242), DATA),
        riff(DATA, form()),
        riff(form()),
        riff(),
        b"RIFF",
        b"RIFX" + PLAIN[4:],
    ):
        with subtests.test(data=data):
            stored = stored_or_none(data)
            assert stored is None or heard(stored).size


ENDINGS = {
    "WAV": [".wav", ".wave", ".WAV"],
    "FLAC": [".flac", ".Flac"],
    "OGG": [".ogg", ".oga", ".OGG"],
    "MP3": [".mp3", ".MP3"],
}


@pytest.mark.parametrize("kind", OF_KIND)
def test_wrong_extension_is_counted_and_the_bytes_decide(kind, subtests):
    right = store(OF_KIND[kind], f"a.b/x{ENDINGS[kind][0]}")
    for other in ENDINGS:
        with subtests.test(other=other):
            for ending in ENDINGS[other]:
                stored = store(OF_KIND[kind], f"a.b/x{ending}")
                assert stored.data == right.data
                assert ("WRONG_EXTENSION" in stored.conversions) == (other != kind)
    for unknown in ("x", "x.bin", "wav", "x.wav.bak"):
        with subtests.test(unknown=unknown):
            assert store(OF_KIND[kind], unknown).conversions == right.conversions


@pytest.mark.parametrize(
    ("rate", "wished", "kind"),
    [(44_100, 16_000, "FLAC"), (8000, 16_000, "WAV"), (16_000, 22_050, "WAV")],
)
def test_resampled_audio_equals_scipys_result(kind, rate, wished):
    samples = np.rint(noise(rate // 10, 2) * 32768) / 32768
    stored = store(encode(samples, kind, "PCM_16", rate), sample_rate=wished)
    assert stored.conversions[-1] == "RESAMPLED"
    assert (stored.sample_rate, stored.num_frames) == (wished, -(-len(samples) * wished // rate))
    common = math.gcd(rate, wished)
    expected = signal.resample_poly(samples, wished // common, rate // common, axis=0) * 32768
    assert np.abs(heard(stored) - expected).max() <= 1


def test_flac_of_unknown_length_is_read_to_its_end():
    whole = encode(tone(12_000), "FLAC", "PCM_16")
    streamed = with_flac_frames(whole, 0)  # unknown, as written by encoders to pipes
    np.testing.assert_array_equal(heard(store(streamed)), by_soundfile(whole))
    assert rejected(streamed[: len(streamed) // 2]).code in ("DAMAGED_AUDIO", "TRUNCATED_AUDIO")


def test_unloadable_library_raises_and_does_not_reject(monkeypatch):
    class NoLibrary(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "soundfile":
                raise OSError("cannot load library 'libsndfile.so': cannot allocate memory")

    flac = encode(np.zeros(100), "FLAC", "PCM_16")
    monkeypatch.delitem(sys.modules, "soundfile")
    monkeypatch.setattr(sys, "meta_path", [NoLibrary(), *sys.meta_path])
    with pytest.raises(OSError, match="cannot load library"), reject_errors():
        store(flac)
