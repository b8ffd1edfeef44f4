"""What the doctor found, by the name of the check."""


def by_name(checks):
    return {check.name: check for check in checks}
