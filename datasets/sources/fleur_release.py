"""The files of the FLEUR release: judgements of several datasets, one JSON each, and FLEUR's own scores."""

from __future__ import annotations

from ..schema import SourceFile, github

COMMIT = "b9cd6c9c086113b9ad3d040522a85c776aff1225"


def fleur(
    path: str,
    *,
    sha256: str = "",
    git_blob: str = "",
    alternative: bool = False,
    folder: str = "annotations",
) -> SourceFile:
    """Return a file of the release.

    Args:
        path: where it lies in the data folder; its name is that of the release.
        sha256, git_blob, alternative: as of a `SourceFile`.
        folder: the release's, that it is in.
    """
    name = f"{folder}/{path.rpartition('/')[2]}"
    return SourceFile(
        path,
        f"https://github.com/Yebin46/FLEUR/blob/{COMMIT}/{name}",
        sha256,
        alternative,
        github("Yebin46/FLEUR", COMMIT, name),
        git_blob,
    )
