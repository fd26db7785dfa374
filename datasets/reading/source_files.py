"""The files of a dataset: where they lie in the data folder, whether they are of the card's revision, and where images usually lie."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError, MissingFileError
from ..schema import Card, SourceFile


def github_file(
    path: str, repository: str, commit: str, name: str, sha256: str = "", **attributes: Any
) -> SourceFile:
    """Return a file of a GitHub repository, downloaded from GitHub or else from a mirror.

    Args:
        path: where it lies in the data folder.
        repository, commit, name: which file it is.
        sha256, attributes: as of a `SourceFile`.
    """
    downloads = (
        f"https://raw.githubusercontent.com/{repository}/{commit}/{name}",
        f"https://cdn.jsdelivr.net/gh/{repository}@{commit}/{name}",
    )
    url = f"https://github.com/{repository}/blob/{commit}/{name}"
    return SourceFile(
        path,
        attributes.pop("url", url),
        sha256,
        downloads=downloads,
        revision=commit,
        **attributes,
    )


#: Hugging Face's hub; the variable HF_ENDPOINT names a mirror of it.
HUB = "https://huggingface.co"


def hub_file(
    path: str, repository: str, revision: str, name: str, sha256: str = "", **attributes: Any
) -> SourceFile:
    """Return a file, or the files of a pattern of names, of a data set on Hugging Face's hub.

    Args:
        path: where it lies in the data folder; of a pattern, one of `also` has to be where its files lie.
        repository, revision, name: which file it is; the last part of the name may be a pattern. A branch such as
            `main` is no revision of the file.
        sha256, attributes: as of a `SourceFile`.
    """
    page = f"{HUB}/datasets/{repository}"
    downloads = (f"{page}/resolve/{revision}/{name}",)
    is_commit = re.fullmatch("[0-9a-f]{40}", revision) is not None
    return SourceFile(
        path,
        page,
        sha256,
        downloads=downloads,
        revision=revision if is_commit else "",
        **attributes,
    )


def bibtex(key: str) -> str:
    """Return the entry of `citations.bib` with a key, for a card's `citation`."""
    text = (resources.files("captau.datasets") / "citations.bib").read_text(encoding="utf-8")
    for entry in text.strip().split("\n\n"):
        if f"{{{key},\n" in entry:
            return entry
    raise KeyError(key)


def find(root: Path, card: Card, source: SourceFile) -> Path:
    """Return the path of a source file: where `source` says, or in a folder of the dataset's name.

    Raises:
        MissingFileError: where it is in neither place; the message says how to get it.
    """
    path = locate(root, card, source)
    if path is None:
        raise MissingFileError(
            f"dataset {card.name}: the file {root / source.path} does not exist; set CAPTAU_DATA or data.root=DIR, "
            f"or {way_to_get(card, source)}"
        )

    return path


def way_to_get(card: Card, source: SourceFile) -> str:
    """Return the command that gets a source file: a download, or an import of a manual download."""
    if source.is_downloaded:
        return f"run captau data fetch dataset={card.name} (from {source.url})"
    return f"get it from {source.url} and run captau data import dataset={card.name} source=PATH"


def way_to_get_split(card: Card, split: str) -> str:
    """Name the file of a split of which there is no item, and how to get it; empty where none is its own."""
    for source in card.sources:
        if source.split == split:
            return f"; {source.path} has it: {way_to_get(card, source)}"

    return ""


def locate(root: Path, card: Card, source: SourceFile) -> Path | None:
    """Like `find`, but None where the file is missing."""
    paths = locate_all(root, card, source)
    return paths[0] if paths else None


def locate_all(root: Path, card: Card, source: SourceFile) -> list[Path]:
    """List the files of a source: one, or its parts in order."""
    usual = root / source.path
    for path in (usual, root / card.name / usual.name):
        if path.is_file():
            return [path]

    if source.parts:
        paths = [root / part.path for part in source.parts]
        return paths if all(path.is_file() for path in paths) else []

    for pattern in source.also:
        paths = sorted(path for path in root.glob(pattern) if path.is_file())
        if paths:
            return paths

    return []


def count_parts(paths: Sequence[Path]) -> int:
    """Return how many parts a file should have, where the name of one tells: `train-00000-of-00004.parquet`."""
    n_parts: list[int] = []
    for path in paths:
        match = re.search(r"-of-(\d+)\.\w+$", path.name)
        if match:
            n_parts.append(int(match[1]))
    return max(n_parts, default=len(paths))


def record_of(path: Path) -> Path:
    """Return the file that keeps the SHA-256 of a download whose hash the card does not know."""
    return path.with_name(f"{path.name}.sha256")


def with_recorded_hash(root: Path, source: SourceFile) -> SourceFile:
    """Return a source with the hash that its first download recorded, where the card knows none.

    Raises:
        InputError: where the record cannot be read or holds something else.
    """
    record = record_of(root / source.path)
    if source.sha256 or source.git_blob or not record.is_file():
        return source

    try:
        digest = record.read_text(encoding="ascii").partition(" ")[0]
    except (OSError, UnicodeDecodeError):
        digest = ""

    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise InputError(f"{record}: not a line of sha256sum; delete it, and fetch the file again")

    return replace(source, sha256=digest)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return _digest(path, hashlib.sha256())


def git_blob(path: Path) -> str:
    """Return git's id of a file's content: the SHA-1 of its length and itself."""
    return _digest(path, hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False))


def refuse_device(path: Path) -> None:
    """Check that a path is no device, which may be read without end, and no pipe, which can be read once.

    Raises:
        InputError: where it is one.
    """
    if path.is_char_device() or path.is_block_device():
        raise InputError(f"{path}: is a device, not a file; name a file")
    if path.is_fifo():
        raise InputError(f"{path}: is a pipe, which can be read once; write it into a file")


def _digest(path: Path, digest: Any) -> str:
    refuse_device(path)
    # In large pieces, between which no other thread has to be waited for.
    with path.open("rb", buffering=0) as stream:
        piece = stream.read(1 << 24)
        while piece:
            digest.update(piece)
            piece = stream.read(1 << 24)

    return digest.hexdigest()


def used(root: Path, card: Card) -> list[SourceFile]:
    """List the files that a dataset is read from.

    Its own ones but for the optional; or, where one of those is missing and all stand-ins are there, the stand-ins.
    """
    regular: list[SourceFile] = []
    stand_ins: list[SourceFile] = []
    for source in card.sources:
        if source.alternative:
            stand_ins.append(source)
        elif not source.optional:
            regular.append(source)

    if stand_ins and _lacks_some(root, card, regular) and not _lacks_some(root, card, stand_ins):
        return stand_ins
    return regular


def _lacks_some(root: Path, card: Card, sources: Sequence[SourceFile]) -> bool:
    """Tell whether one of these files is missing."""
    return any(locate(root, card, source) is None for source in sources)


def missing(root: Path, card: Card) -> list[SourceFile]:
    """List the files that are still needed."""
    return [source for source in used(root, card) if locate(root, card, source) is None]


def missing_additions(root: Path, card: Card) -> list[SourceFile]:
    """List the missing files without which a dataset can be read, but is incomplete."""
    additions: list[SourceFile] = []
    for source in card.sources:
        if source.adds and locate(root, card, source) is None:
            additions.append(source)
    return additions


def partly(root: Path, card: Card) -> bool:
    """Tell whether a dataset that can be read without some files lacks some."""
    return card.partial and 0 < len(missing(root, card)) < len(used(root, card))


def is_here(root: Path, card: Card) -> bool:
    """Tell whether a dataset can be read: all of its files are there, or some of one that can do without the others."""
    return not missing(root, card) or partly(root, card)


State = Literal["missing", "right", "differs", "unchecked"]


def state(root: Path, card: Card, source: SourceFile) -> State:
    """Tell whether a file is there and of the revision that the card names.

    `unchecked` is one of which no hash is known, or that lies there in another form (its `also`).

    Raises:
        InputError: where the file cannot be read.
    """
    paths = locate_all(root, card, source)

    if not paths or len(paths) < count_parts(paths):
        return "missing"

    if source.parts and len(paths) > 1:
        verdict = all(map(fits, paths, source.parts))
    elif paths[0].name == Path(source.path).name:
        verdict = fits(paths[0], with_recorded_hash(root, source))
    else:
        verdict = None

    if verdict is None:
        return "unchecked"

    return "right" if verdict else "differs"


def fits(path: Path, source: SourceFile) -> bool | None:
    """Tell whether a file is of the revision that the card names; None where no hash is known.

    Raises:
        InputError: where the file cannot be read.
    """
    try:
        if source.sha256:
            return sha256(path) == source.sha256
        if source.git_blob:
            return git_blob(path) == source.git_blob
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error

    return None


def size(root: Path, card: Card) -> int:
    """Return how many bytes the files in use take."""
    n_bytes = 0
    for source in used(root, card):
        for path in locate_all(root, card, source):
            n_bytes += path.stat().st_size
    return n_bytes


#: COCO's folders, and the names of their files; `{}` is the id in twelve digits.
_COCO = (
    ("val2014", "COCO_val2014_{}.jpg"),
    ("train2014", "COCO_train2014_{}.jpg"),
    ("val2017", "{}.jpg"),
    ("train2017", "{}.jpg"),
)
#: The file names of Flickr's photos, with their number, and of COCO's.
_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")
_FLICKR_NAME = re.compile(r"(\d{7,})(_[0-9a-f]{8,10})?(_\w)?")
_COCO_NAME = re.compile(r"(?:COCO_(?:train|val|test)\d{4}_)?0*(\d{1,6})")
#: Folders of images that are named by their id, as the archives unpack.
_NAMED = (
    "Flickr8k_Dataset",
    "Flicker8k_Dataset",  # what the archive of Flickr8k in fact says
    "flickr30k-images",
    "flickr30k_images",
    "VOC2012/JPEGImages",
    "VOCdevkit/VOC2012/JPEGImages",
    "JPEGImages",
    "Images",
    "images",
)
#: Folders of a root in which each collection may have a folder of its own.
_COLLECTIONS = ("coco", "flickr8k", "flickr30k", "pascal50s")


@lru_cache(maxsize=65536)
def identify_image(image_id: str) -> str:
    """Return one name for an image in all datasets: the number of COCO or Flickr, or the file's name without ending."""
    file = Path(image_id)
    # Other dots than that of an ending are a part of the name.
    stem = file.stem if file.suffix in _ENDINGS else file.name
    for pattern in (_COCO_NAME, _FLICKR_NAME):
        match = pattern.fullmatch(stem)
        if match:
            return match[1]

    return stem


def find_image(image_id: str, dataset: str, root: Path) -> Path | None:
    """Return the file of an image.

    Args:
        image_id: COCO's number (`391895`), or a file name (`2008_005747.jpg`) with or without ending.
        dataset: the dataset's name; a folder of that name in `root` is looked into first.
        root: a folder that holds images, or the unpacked folders of COCO, Flickr and PASCAL, or a
            folder for each collection with these inside.

    Returns:
        The first of the usual places where there is a file; None where there is none.
    """
    name = Path(image_id).name
    if name.isdecimal():
        number = name.zfill(12)
        places = [(folder, pattern.format(number)) for folder, pattern in _COCO]
        places += [(".", f"{name}{ending}") for ending in (*_ENDINGS, "")]
    else:
        names = [name] if Path(name).suffix else [f"{name}.jpg", f"{name}.png"]
        places = []
        for possible_name in names:
            places += [(folder, possible_name) for folder in _NAMED]

    for base in _image_roots(dataset, root):
        for folder, file in places:
            for path in (base / folder / file, base / file):
                if path.is_file():
                    return path
    return None


def find_images(image_ids: Sequence[str], dataset: str, root: Path) -> list[str | None]:
    """Return the path of each image's file, where `find_image` looks; None where there is none.

    Each folder is listed once for all images, and for all datasets while nothing in it changes.
    """
    names_by_folder: dict[Path, frozenset[str]] = {}
    for base in _image_roots(dataset, root):
        for name in (".", *(folder for folder, _ in _COCO), *_NAMED):
            folder = base / name
            if folder.is_dir():
                names_by_folder[folder] = _list_names(folder, folder.stat().st_mtime_ns)

    path_by_image: dict[str, str | None] = {}
    for image_id in dict.fromkeys(image_ids):
        path_by_image[image_id] = _find_name(_file_names(image_id), names_by_folder)
    return [path_by_image[image_id] for image_id in image_ids]


def _image_roots(dataset: str, root: Path) -> list[Path]:
    """Return the folders in which images, or folders of them, may lie."""
    return [root / dataset, root, *(root / collection for collection in _COLLECTIONS)]


def _file_names(image_id: str) -> list[str]:
    """Return what the file of an image may be called, in COCO's folders or in one of its own."""
    file = Path(image_id)
    name = file.name
    if name.isdecimal():
        number = name.zfill(12)
        coco_names = [pattern.format(number) for _, pattern in _COCO]
        return [*coco_names, *(f"{name}{ending}" for ending in _ENDINGS)]
    if file.suffix:
        return [name]
    return [f"{name}{ending}" for ending in _ENDINGS]


@lru_cache(maxsize=64)
def _list_names(folder: Path, _modified: int) -> frozenset[str]:
    """Return the names in a folder; the time of its last change is a part of the cache's key."""
    return frozenset(path.name for path in folder.iterdir())


def _find_name(names: Sequence[str], names_by_folder: Mapping[Path, frozenset[str]]) -> str | None:
    """Return the path of the first of the names that a folder has; None where no folder has any."""
    for folder, names_there in names_by_folder.items():
        for name in names:
            if name in names_there:
                return str(folder / name)
    return None
