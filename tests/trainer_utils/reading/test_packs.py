"""Batches of packs, against the documents themselves."""

import itertools
import shutil
from typing import Any

import numpy as np
import pytest

import trainer_utils
from tests.make import refusing, write_rows
from trainer_utils import InputOptions, LabelOptions, PackOptions
from trainer_utils.core.errors import ConfigError, CorruptShardError, DatasetError, TfxShardsError

LENGTH, EOS = 32, 900


@pytest.fixture(scope="module")
def documents() -> list[list[int]]:
    """Return documents with distinct first tokens, so that a piece shows its origin."""
    sizes = np.random.default_rng(3).integers(0, 90, 150).tolist()
    numbers = itertools.count(1000)
    return [[next(numbers) for _ in range(size)] for size in sizes]


@pytest.fixture(scope="module")
def uri(documents, tmp_path_factory) -> str:
    rows = ({"tokens": tokens, "id": f"{number}"} for number, tokens in enumerate(documents))
    return write_rows(tmp_path_factory.mktemp("packs") / "out", rows, num_shards=3)


def pieces(batch: dict[str, Any]) -> list[list[int]]:
    """Return the tokens of each segment, after checking all other arrays."""
    found = []
    for tokens, targets, segments, positions, mask in zip(
        *(batch[name] for name in ("tokens", "targets", "segment_ids", "positions", "loss_mask")),
        strict=True,
    ):
        used = int((segments > 0).sum())
        for values in (tokens, targets, segments, positions, mask):
            assert not values[used:].any()
        assert sorted(set(segments[:used])) == [*range(1, segments.max() + 1)]
        assert (np.diff(segments[:used]) >= 0).all()
        for number in range(1, segments.max() + 1):
            own = np.flatnonzero(segments == number)
            assert positions[own].tolist() == [*range(len(own))]
            assert targets[own[:-1]].tolist() == tokens[own[1:]].tolist()
            piece = tokens[own].tolist()
            assert mask[own[:-1]].all()
            assert mask[own[-1]] == (targets[own[-1]] != 0)
            found.append([*piece, *([int(targets[own[-1]])] if mask[own[-1]] else [])])
    return found


@pytest.mark.parametrize("strategy", ["concat", "best_fit", "one_document"])
@pytest.mark.parametrize("eos", [None, EOS])
def test_every_token_is_a_target_once_an_epoch(uri, documents, strategy, eos, subtests):
    ended = [[*tokens, *([] if eos is None else [eos])] for tokens in documents]
    expected = sorted(pair for tokens in ended for pair in itertools.pairwise(tokens))
    pack = PackOptions(length=LENGTH, strategy=strategy, eos=eos)
    for shuffle, workers in ((False, 1), ("global", 4), (True, 2)):
        with subtests.test(shuffle=shuffle):
            found = []
            for worker in range(workers):
                own = {"worker": worker, "num_workers": workers, "shuffle": shuffle}
                batches = trainer_utils.iterate(uri, "train", batch_size=8, pack=pack, **own)
                for batch in batches:
                    found += [pair for piece in pieces(batch) for pair in itertools.pairwise(piece)]
            assert sorted(found) == expected


def test_concat_packs_all_documents_in_order(uri, documents):
    records = trainer_utils.iterate(uri, "train", batch_size=None, shuffle=False)
    own = [int(one) for record in records for one in record["tokens"]]
    batches = trainer_utils.iterate(
        uri, "train", batch_size=4, shuffle=False, pack={"length": LENGTH}
    )
    rows = [row for batch in batches for row in batch["tokens"]]
    assert np.concatenate(rows)[: len(own)].tolist() == own
    assert len(rows) == -(-len(own) // LENGTH)


@pytest.mark.parametrize("strategy", ["concat", "best_fit"])
def test_any_number_of_workers_resumes_at_any_step(uri, strategy):
    options = InputOptions(
        batch_size=12,
        pack=PackOptions(length=LENGTH, strategy=strategy, eos=EOS),
        remainder="pad",
        repeat=2,
        seed=5,
    )
    whole = trainer_utils.iterate(uri, "train", options=options)
    expected = list(whole)
    for step, workers in ((0, 3), (7, 2), (len(whole) + 3, 6), (len(expected) - 1, 4)):
        resumed = options.replace(state=whole.state(step))
        parts = [
            list(
                trainer_utils.iterate(
                    uri, "train", options=resumed, worker=worker, num_workers=workers
                )
            )
            for worker in range(workers)
        ]
        for number, batch in enumerate(expected[step:]):
            is_own = np.concatenate([part[number]["mask"] for part in parts]) > 0
            for name, values in batch.items():
                joined = np.concatenate([part[number][name] for part in parts])
                np.testing.assert_array_equal(joined[is_own], values[batch["mask"] > 0], name)


def test_filler_rows_have_no_loss(uri):
    pack, batch_size = PackOptions(length=LENGTH), 16
    settings = {"batch_size": batch_size, "pack": pack, "remainder": "pad"}
    labels = LabelOptions(sample_weight="loss_mask")
    triples = trainer_utils.iterate(
        uri, "train", **settings, features="tokens", label="targets", labels=labels
    )
    plain = list(trainer_utils.iterate(uri, "train", **settings))
    for (tokens, targets, weights), batch in zip(triples, plain, strict=True):
        np.testing.assert_array_equal(tokens, batch["tokens"])
        np.testing.assert_array_equal(targets, batch["targets"])
        np.testing.assert_array_equal(weights, batch["loss_mask"])
        assert not weights[batch["mask"] == 0].any()
    assert 0 < plain[-1]["mask"].sum() < batch_size


@pytest.mark.parametrize("token", [2**31, -1])
def test_a_token_out_of_range_names_its_record(tmp_path, token):
    rows = [{"tokens": tokens} for tokens in ([1, 2**31 - 1], [], [0, token], [2])]
    own = write_rows(tmp_path / "out", rows, num_shards=1)
    with pytest.raises(DatasetError) as caught:
        trainer_utils.iterate(own, "train", batch_size=1, pack=PackOptions(length=4))
    assert caught.value.record == 2
    assert str(token) in str(caught.value)


def test_features_that_are_no_tokens_are_refused_by_type(tmp_path, subtests):
    serialized = np.arange(4, dtype=np.int32)
    for number, value in enumerate((serialized, [1.5, 2.5], "a text", [[1], [2, 3]], [])):
        with subtests.test(number=number):
            own = write_rows(tmp_path / f"{number}", [{"tokens": value, "id": 7}], num_shards=1)
            with pytest.raises(ConfigError) as caught:
                trainer_utils.iterate(own, "train", pack=PackOptions(length=4))
            assert (caught.value.setting, caught.value.value) == ("pack", "tokens")


def test_cached_lengths_are_used_unless_damaged(uri, tmp_path):
    settings = {"batch_size": 8, "pack": PackOptions(length=LENGTH), "cache": str(tmp_path)}
    whole = list(trainer_utils.iterate(uri, "train", **settings))
    (kept,) = (tmp_path / "lengths").iterdir()
    for data in (kept.read_bytes(), bytes(kept.stat().st_size)):
        kept.write_bytes(data)
        again = trainer_utils.iterate(uri, "train", **settings)
        for batch, other in zip(whole, again, strict=True):
            np.testing.assert_array_equal(batch["tokens"], other["tokens"])


def test_damage_names_its_record(uri, tmp_path):
    """Check this with cached lengths too."""
    shutil.copytree(uri, tmp_path / "d")
    settings = {"batch_size": 8, "pack": PackOptions(length=LENGTH)}
    assert len(list(trainer_utils.iterate(str(tmp_path / "d"), "train", **settings)))
    path = next((tmp_path / "d/Split-train").iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptShardError) as found:
        list(trainer_utils.iterate(str(tmp_path / "d"), "train", **settings))
    assert found.value.path == str(path)
    assert found.value.record is not None


def test_settings_that_packs_lack_are_refused(uri, subtests):
    for settings in (
        {"on_corrupt": "skip"},
        {"features": "id"},
        {"label": "id"},
        {"image_size": (3, 3)},
        {"ragged": True},
        {"pre_batching_callback": dict},
        {"labels": {"one_hot": True}, "label": "targets"},
        {"pack": {"length": LENGTH, "feature": "id"}},
        {"pack": 512},
    ):
        with subtests.test(settings=settings), refusing(next(iter(settings))):
            trainer_utils.iterate(uri, "train", **{"pack": PackOptions(length=LENGTH), **settings})
    with pytest.raises(TfxShardsError, match="words"):
        trainer_utils.iterate(uri, "train", pack=PackOptions(feature="words"))


def test_a_state_of_other_packs_is_refused(uri):
    token = trainer_utils.iterate(uri, "train", pack=PackOptions(length=LENGTH)).state(1)
    with pytest.raises(ConfigError, match=r"^state"):
        trainer_utils.iterate(uri, "train", pack=PackOptions(length=LENGTH + 1), state=token)
    with pytest.raises(ConfigError, match=r"^state"):
        trainer_utils.iterate(uri, "train", state=token)
