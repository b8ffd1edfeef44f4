"""All checks together: whatever is not in order says what to do."""

from pipelines.tools.doctor import examine


def test_every_check_that_is_not_ok_has_a_cure(whole_dataset):
    checks = examine(str(whole_dataset), workers=8)
    assert {"python", "packages", "keras", "cores", "memory", "disk", "manifest"} <= {
        check.name for check in checks
    }
    for check in checks:
        assert check.level in ("ok", "warn", "bad")
        assert bool(check.cure) == (check.level != "ok"), check
