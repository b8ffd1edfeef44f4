"""Beam engines whose workers are processes of their own: nothing lost, the same bytes."""

from collections.abc import Iterator

import pytest

from tests.e2e import engines

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def portable(pool, tmp_path_factory) -> Iterator[list[str]]:
    """Beam's own job service, and two workers that have nothing but the wheel."""
    with engines.job_service(tmp_path_factory.mktemp("job")) as endpoint:
        yield [*engines.portable(endpoint, pool), "--direct_num_workers=2"]


def test_the_portable_runner_with_separate_workers_gives_the_same_bytes(inputs, portable, tmp_path):
    engines.check_engine(inputs, portable, tmp_path)


def test_workers_took_all_of_ours_from_the_wheel(inputs, portable, wheel, tmp_path):
    if not (wheel / "imported.txt").exists():  # where this test runs alone
        engines.convert("images", inputs, tmp_path / "out", portable)
    imported = dict(line.split(" ") for line in (wheel / "imported.txt").read_text().splitlines())
    assert "components.example_gen.file_shards" in imported
    assert {name: origin for name, origin in imported.items() if str(wheel) not in origin} == {}


def test_workers_that_do_not_see_the_output_are_an_error(inputs, portable, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the workers are elsewhere: a relative uri is another place there
    with pytest.raises(RuntimeError, match="expected storage that all workers share"):
        engines.convert("images", inputs, "out", portable)
    assert not (tmp_path / "out/manifest.json").exists()
