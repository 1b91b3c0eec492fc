"""The name and version of the installed distribution, and a check for the other project of a similar name."""

from __future__ import annotations

NAME = "penstock-broker"  # on package indexes; the import package and the command are called penstock
FOREIGN_NAME = "penstock"  # another project has this name on PyPI, and installs an import package of the same name


def installed_version() -> str:
    from importlib import metadata

    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:  # run from a source tree
        return "0+source"


def foreign_distribution() -> str | None:
    """Return a warning if the other project is installed in this environment, where it overwrites our files."""
    from importlib import metadata

    try:
        version = metadata.version(FOREIGN_NAME)
    except metadata.PackageNotFoundError:
        return None
    return (
        f"the distribution {FOREIGN_NAME} {version} is installed beside {NAME}, and both install the package penstock: "
        f"run pip uninstall {FOREIGN_NAME} and then pip install --force-reinstall {NAME}"
    )
