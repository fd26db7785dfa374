"""`captau data`: which datasets there are, getting them, checking them, and document frequencies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.filesize import decimal

from ...datasets import registry
from ...datasets.download import fetch as download
from ...datasets.download import imports
from ...datasets.download.data_folder import silent
from ...datasets.errors import InputError
from ...datasets.images import find_image
from ...datasets.own_references import find_own_references
from ...datasets.reading.source_files import missing, partly, size, state, used
from ...datasets.schema import CaptionSet, Card
from ...metrics.text.document_frequencies import document_frequencies
from ...metrics.text.spice import models as spice_models
from ..runs.progress_bar import DownloadProgress, StepProgress
from ..runs.tables import MISSING, ResultTable
from ..scoring.caption_files import read_references

Say = Callable[[str], None]

_COUNTS = ("images", "items", "ratings", "preferences")
#: Heads of the counts of captions among their own references.
_COPIES = ("own references", "exact")


def overview(root: Path | None) -> ResultTable:
    """All datasets: whether their files are in the data folder, what is in them, their licence."""
    folder = registry.data_root(root)
    rows: list[tuple[str, list[str]]] = []
    notes = [f"Data folder: {folder}" + ("" if folder.is_dir() else " (not there)")]
    for name in registry.names():
        card = registry.card(name)
        needed, here = missing(folder, card), status(folder, card)
        ratings = [
            f"{card.expected[what]:,}{unit}"
            for what, unit in (("ratings", ""), ("preferences", " preferences"))
            if what in card.expected
        ]
        rows.append(
            (
                name,
                [
                    here,
                    MISSING if not card.sources or here == "no" else decimal(size(folder, card)),
                    f"{card.expected['items']:,}" if "items" in card.expected else MISSING,
                    " and ".join(ratings) or MISSING,
                    "; ".join(dict.fromkeys(map(str, card.scales.values()))) or MISSING,
                    card.licence,
                    "yes" if card.needs_images else "no",
                ],
            )
        )
        for source in needed:
            by_hand = "" if source.downloads else " (by hand)"
            notes.append(f"{name}: {source.path} from {source.url}{by_hand}")
    if len(notes) > 1:
        ways = "captau data fetch dataset=NAME", "captau data import dataset=NAME source=PATH"
        notes.insert(1, f"Missing; {ways[0]} gets it, {ways[1]} takes what you got by hand:")
    lacking, where = spice_models.missing_jars(spice_models.jar_folder()), spice_models.jar_folder()
    notes.append(
        f"{spice_models.NAME}, what the metric spice needs: "
        + (f"captau data fetch dataset={spice_models.NAME} gets it" if lacking else f"in {where}")
    )
    columns = ["status", "size", "items", "ratings", "scale", "licence", "images needed"]
    return ResultTable("Datasets", "dataset", columns, rows, notes=notes, numeric=False)


def status(folder: Path, card: Card) -> str:
    """`yes`, `no`, `built in`, `your own`, `differs` or `part`.

    `differs` is here, but not of the card's revision; of `part` some files are missing, and the
    others can be used without them.
    """
    if not card.sources:
        return "built in" if card.synthetic else "your own"
    states = {state(folder, card, s) for s in used(folder, card)}
    if "missing" in states:
        return "part" if partly(folder, card) else "no"
    return "differs" if "differs" in states else "yes"


def fetch(names: Iterable[str], root: Path | None, offline: bool, say: Say = silent) -> list[str]:
    """Download what is missing of datasets, licence and citation first.

    Returns:
        A line for each dataset of which a file could not be had.
    """
    folder = registry.data_root(root)
    failed: list[str] = []
    for name in names:
        card = registry.card(name)
        say(f"{name}: {card.title}\nlicence: {card.licence}\nplease cite:\n{card.citation}\n")
        try:
            with DownloadProgress() as progress:
                done = download.fetch(
                    card, folder, download.RetryLimits(offline=offline), progress, say
                )
            if not done:
                all_here = f"nothing to fetch, all is in {folder}"
                say(f"{name}: {all_here if card.sources else status(folder, card)}")
        except InputError as error:
            failed.append(str(error))
        say("")
    return failed


def fetch_models(offline: bool, say: Say = silent) -> list[str]:
    """Download what SPICE needs, licence and citation first; returns what `fetch` does."""
    folder = spice_models.jar_folder()
    say(f"{spice_models.NAME}: {spice_models.ABOUT}\nplease cite:\n{spice_models.CITATION}\n")
    try:
        if offline and (needed := spice_models.missing_jars(folder)):
            files = ", ".join(f"{j.file} ({j.coordinates})" for j in needed)
            return [f"data.offline=true, so not fetched: {files} from Maven Central"]
        with StepProgress(1) as progress, progress.step(spice_models.NAME):
            done = spice_models.fetch_jars(folder, say)
    except InputError as error:
        return [str(error)]
    if not done:
        say(f"{spice_models.NAME}: nothing to fetch, all is in {folder}")
    return []


def take(
    names: Iterable[str], source: Path, root: Path | None, say: Say = silent, *, named: bool = True
) -> list[str]:
    """Take datasets' files from a folder, an archive or a file that was got by hand.

    Args:
        names: the datasets.
        source: the folder, archive or file.
        root: the data folder.
        say: called with a line for each file.
        named: whether the datasets were asked for by name; else what might be theirs is left.

    Returns:
        What went wrong, a line each. That `source` has nothing of a dataset is told where it has
        nothing of any.
    """
    folder = registry.data_root(root)
    failed: list[str] = []
    without: list[str] = []
    found = False
    for name in names:
        card = registry.card(name)
        if not card.sources:
            say(f"{name}: {status(folder, card)}")
            continue
        try:
            imports.take(card, source, folder, say, is_named=named)
        except imports.NothingFoundError as error:
            without.append(str(error))
            continue
        except InputError as error:
            failed.append(str(error))
            continue
        found = True
        needed = [s.path for s in missing(folder, card)]
        say(f"{name}: " + (f"still missing: {', '.join(needed)}" if needed else "all is here"))
    return list(dict.fromkeys(failed)) or ([] if found else without)


def verify(
    names: Iterable[str],
    root: Path | None,
    images: Path | None = None,
    *,
    named: bool = True,
    models: bool = False,
) -> tuple[ResultTable, bool]:
    """Hash the files of datasets anew, read them, and compare what is in them with their cards.

    Args:
        names: the datasets.
        root: the data folder.
        images: where image files lie; how many are missing is told, and is no fault.
        named: whether the datasets were asked for by name; else one that is not here is no fault.
        models: whether to hash what SPICE needs as well.

    Returns:
        A row for each dataset, and whether all is as it should be; a part that can be used is.

    Raises:
        InputError: on an unknown name, or where `images` is no folder.
    """
    if images is not None and not images.is_dir():
        raise InputError(f"data.images={images} is no folder")
    folder = registry.data_root(root)
    names = list(names)
    rows: list[tuple[str, list[str]]] = []
    notes: list[str] = []
    good = True
    with StepProgress(len(names)) as progress:
        for name in names:
            with progress.step(name):
                card = registry.card(name)
                files, wrong = _check_files(folder, card)
                part = partly(folder, card)
                there = part or (bool(card.sources or card.synthetic) and not missing(folder, card))
                counts = [MISSING] * (len(_COUNTS) + len(_COPIES))
                absent = MISSING
                if there:
                    try:
                        dataset = registry.load(name, folder)
                    except InputError as error:
                        wrong.append(str(error))
                    else:
                        counts, off = _check_counts(dataset, card)
                        copies = find_own_references(dataset.items)
                        counts += [f"{copies.n_copies:,}", f"{copies.n_exact:,}"]
                        wrong += [] if part else off
                        if images is not None and not card.synthetic:
                            absent = _check_images(dataset, images)
                elif not named:
                    wrong = []
                verdict = "OFF" if wrong else "part" if part else "ok" if there else "not here"
                rows.append((name, [files, *counts, *([absent] if images else []), verdict]))
                notes += [w if w.startswith("dataset ") else f"{name}: {w}" for w in wrong]
                good &= not wrong
    if models:
        files, wrong = _check_models()
        empty = [MISSING] * (len(_COUNTS) + len(_COPIES) + bool(images))
        rows.append((spice_models.NAME, [files, *empty, "OFF" if wrong else "ok"]))
        notes += wrong
        good &= not wrong
    columns = ["files", *_COUNTS, *_COPIES]
    columns += ["image files missing", "verdict"] if images else ["verdict"]
    notes.insert(0, f"Data folder: {folder}" + ("" if folder.is_dir() else " (not there)"))
    notes.append(
        "own references: captions that are one of their image's references, case and punctuation aside; exact: "
        "letter by letter; protocol.own_references=drop leaves them out."
    )
    return ResultTable("Verified", "dataset", columns, rows, notes=notes, numeric=False), good


def _check_files(folder: Path, card: Card) -> tuple[str, list[str]]:
    """A cell for the table, and what is wrong."""
    if not card.sources:
        return status(folder, card), []
    states = [(s, state(folder, card, s)) for s in used(folder, card)]
    what = {"missing": "is missing", "differs": "is not of the card's revision: its hash differs"}
    found = [is_ for _, is_ in states]
    cell = ", ".join(f"{found.count(is_)} {is_}" for is_ in dict.fromkeys(found))
    if partly(folder, card):
        del what["missing"]
    return cell, [f"{source.path} {what[is_]}" for source, is_ in states if is_ in what]


def _check_models() -> tuple[str, list[str]]:
    """A cell for the table, and what is wrong."""
    folder = spice_models.jar_folder()
    absent = [j for j in spice_models.JARS if not (folder / j.file).is_file()]
    differs = spice_models.damaged_jars(folder)
    right = len(spice_models.JARS) - len(absent) - len(differs)
    counts = {"right": right, "missing": len(absent), "differs": len(differs)}
    lines = [f"{folder / j.file} is missing" for j in absent]
    lines += [f"{folder / j.file} is not {j.coordinates}: its hash differs" for j in differs]
    return ", ".join(f"{n} {is_}" for is_, n in counts.items() if n), lines


def _check_counts(dataset: CaptionSet, card: Card) -> tuple[list[str], list[str]]:
    """Cells for the table, and what is wrong."""
    found = dict(
        zip(
            _COUNTS,
            (
                dataset.items["image_id"].nunique(),
                len(dataset.items),
                len(dataset.ratings),
                len(dataset.preferences),
            ),
            strict=True,
        )
    )
    wrong = [
        f"{found[what]:,} {what}, where {card.expected[what]:,} are expected"
        for what in _COUNTS
        if found[what] != card.expected.get(what, found[what])
    ]
    return [f"{found[what]:,}" for what in _COUNTS], wrong


def _check_images(dataset: CaptionSet, images: Path) -> str:
    ids = dataset.items["image_id"].unique()
    absent = sum(find_image(image_id, dataset.name, images) is None for image_id in ids)
    return f"{absent:,} of {len(ids):,}"


def save_df(references: Path, output: Path) -> int:
    """Count document frequencies and write them; returns the number of images.

    Raises:
        InputError: where the references cannot be read or the file cannot be written.
    """
    sets = read_references(references).texts
    frequencies = document_frequencies(sets.values())
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        frequencies.write(temporary)
        temporary.replace(output)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{output}: cannot be written ({error.strerror})") from error
    return frequencies.documents
