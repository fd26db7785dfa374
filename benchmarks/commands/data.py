"""`captau data`: list, download, import, verify and compare datasets.

`cli.tasks` calls a function for each command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from rich.filesize import decimal

from ...datasets import registry
from ...datasets.caption_texts import find_own_references
from ...datasets.download import fetch as download
from ...datasets.download import imports
from ...datasets.download.writing import silent
from ...datasets.errors import InputError
from ...datasets.reading.source_files import (
    find_image,
    missing,
    missing_additions,
    partly,
    size,
    state,
    used,
)
from ...datasets.schema import CaptionSet, Card
from ...metrics.text.spice import models as spice_models
from ..runs.progress_bar import DownloadProgress, StepProgress
from ..runs.tables import MISSING, ResultTable, Row, count_cell

#: Shows a line to the user.
Show = Callable[[str], None]

#: The words of `status` for datasets that lack no file.
_COMPLETE = ("yes", "built in", "your own")
_COUNTS = ("images", "items", "ratings", "preferences")
#: Columns of the counts of captions among their own references.
_COPIES = ("own references", "exact")


def overview(root: Path | None) -> ResultTable:
    """List all datasets in a screen of 80 columns: whether their files are here, and what they hold."""
    folder = registry.data_root(root)
    rows: list[Row] = []
    absent: list[str] = []
    for name in registry.names():
        card = registry.card(name)
        presence = status(folder, card)
        rows.append(Row(name, [presence, *_sizes(folder, card, presence)]))
        if presence in ("no", "part"):
            absent.append(name)

    notes = [f"Data folder: {folder}" + ("" if folder.is_dir() else " (not there)")]
    hint = "captau data list dataset=NAME shows a dataset's licence, scale and missing files."
    if absent:
        hint += " captau data fetch dataset=NAME downloads them."
    notes.append(hint)
    if spice_models.missing_jars(spice_models.jar_folder()):
        fetch_command = f"captau data fetch dataset={spice_models.NAME}"
        notes.append(f"The metric spice needs {spice_models.NAME}: {fetch_command} downloads them.")
    columns = ["status", "size", "items", "judgements"]
    return ResultTable("Datasets", "dataset", columns, rows, notes=notes, numeric=False)


def details(names: Iterable[str], root: Path | None) -> list[ResultTable]:
    """List what is known of each dataset, a table each: content, licence, and where missing files come from."""
    folder = registry.data_root(root)
    tables: list[ResultTable] = []
    for name in names:
        card = registry.card(name)
        presence = status(folder, card)
        size_text, items, judgements = _sizes(folder, card, presence)

        facts = {
            "status": presence,
            "size": size_text,
            "revision": card.revision,
            "items": items,
            "judgements": judgements,
            "scale": "; ".join(dict.fromkeys(map(str, card.scales.values()))) or MISSING,
            "licence": card.licence,
            "images needed": "yes" if card.needs_images else "no",
            "page": card.homepage or MISSING,
        }

        notes: list[str] = []
        for source in [*missing(folder, card), *missing_additions(folder, card)]:
            adds = f", which adds {source.adds}," if source.adds else ""
            remark = "" if source.is_downloaded else " (by hand)"
            notes.append(f"Missing: {source.path}{adds} from {source.url}{remark}")
        if notes:
            notes.append(
                f"captau data fetch dataset={name} downloads what can be; captau data import dataset={name} "
                "source=PATH takes what you downloaded."
            )

        rows = [Row(fact, [text]) for fact, text in facts.items()]
        title = f"{name}: {card.title}"
        tables.append(ResultTable(title, "", ["value"], rows, notes=notes, numeric=False))

    return tables


def _sizes(folder: Path, card: Card, presence: str) -> tuple[str, str, str]:
    """Return the size of a dataset's files, and the items and judgements that it should hold."""
    judgements: list[str] = []
    for count, word in (("ratings", "ratings"), ("preferences", "pairs")):
        if count in card.expected:
            judgements.append(f"{card.expected[count]:,} {word}")

    is_absent = not card.sources or presence == "no"
    n_items = card.expected.get("items")
    return (
        MISSING if is_absent else decimal(size(folder, card)),
        MISSING if n_items is None else f"{n_items:,}",
        ", ".join(judgements) or MISSING,
    )


def status(folder: Path, card: Card) -> str:
    """Return `yes`, `no`, `built in`, `your own`, `differs` or `part`.

    The files of `differs` are here, but not of the card's revision; of `part` some files are missing, and
    the others can be used without them.
    """
    if not card.sources:
        return "built in" if card.synthetic else "your own"

    states = {state(folder, card, source) for source in used(folder, card)}
    if "missing" in states:
        return "part" if partly(folder, card) else "no"
    if "differs" in states:
        return "differs"

    return "part" if missing_additions(folder, card) else "yes"


def fetch(names: Iterable[str], root: Path | None, offline: bool, show: Show = silent) -> list[str]:
    """Download the missing files of datasets, after showing licence and citation of each that has any.

    Returns:
        A line for each dataset of which a file could not be downloaded.
    """
    folder = registry.data_root(root)
    faults: list[str] = []
    for name in names:
        card = registry.card(name)
        presence = status(folder, card)
        if presence not in _COMPLETE:
            show(f"{name}: {card.title}\nlicence: {card.licence}\nplease cite:\n{card.citation}\n")
        try:
            with DownloadProgress() as progress:
                limits = download.FetchLimits(offline=offline)
                fetched = download.fetch(card, folder, limits, progress, show)
            if not fetched:
                # A dataset without sources is built in, or the user's own.
                reason = f"nothing to fetch, all is in {folder}" if card.sources else presence
                show(f"{name}: {reason}")
        except InputError as error:
            faults.append(str(error))
        if presence not in _COMPLETE:
            show("")

    return faults


def fetch_models(offline: bool, show: Show = silent) -> list[str]:
    """Download the files that SPICE needs, as `fetch` does those of datasets."""
    folder = spice_models.jar_folder()
    if spice_models.missing_jars(folder):
        show(
            f"{spice_models.NAME}: {spice_models.CONTENT}, for the metric spice\n"
            f"licence: {spice_models.LICENCE}\nplease cite:\n{spice_models.CITATION}\n"
        )
    try:
        if offline and (jars := spice_models.missing_jars(folder)):
            files = ", ".join(f"{j.file} ({j.coordinates})" for j in jars)
            return [f"data.offline=true, so not fetched: {files} from Maven Central"]
        with StepProgress(1) as progress, progress.step(spice_models.NAME):
            fetched = spice_models.fetch_jars(folder, show)
    except InputError as error:
        return [str(error)]

    if not fetched:
        show(f"{spice_models.NAME}: nothing to fetch, all is in {folder}")
    return []


def take(
    names: Iterable[str],
    source: Path,
    root: Path | None,
    show: Show = silent,
    *,
    named: bool,
) -> list[str]:
    """Copy datasets' files from a folder, an archive or a file that the user downloaded by hand.

    Args:
        names: the datasets.
        source: the folder, archive or file.
        root: the data folder.
        show: shows a line for each file.
        named: whether the user named the datasets; otherwise files of common names are left.

    Returns:
        A line for each fault. That `source` has no file of a dataset is one where it has none of any.
    """
    folder = registry.data_root(root)
    faults: list[str] = []
    unmatched: list[str] = []
    has_match = False
    for name in names:
        card = registry.card(name)
        if not card.sources:
            show(f"{name}: {status(folder, card)}")
            continue

        try:
            imports.take(card, source, folder, show, is_named=named)
        except imports.NothingFoundError as error:
            # A folder may hold the files of some datasets only; that is told where it has none of any.
            unmatched.append(str(error))
            continue
        except InputError as error:
            faults.append(str(error))
            continue

        has_match = True
        show(f"{name}: {_describe_progress(folder, card)}")

    if faults:
        # Datasets that share a file have one fault.
        return list(dict.fromkeys(faults))

    return [] if has_match else unmatched


def _describe_progress(folder: Path, card: Card) -> str:
    """Say which files of a dataset are still missing, and which only add to it."""
    if absent := missing(folder, card):
        paths = [source.path for source in absent]
        return f"still missing: {', '.join(paths)}"

    additions = [f"{source.path} ({source.adds})" for source in missing_additions(folder, card)]
    if additions:
        return f"can be used; still missing: {', '.join(additions)}"
    return "all is here"


def verify(
    names: Iterable[str],
    root: Path | None,
    images: Path | None = None,
    *,
    required: Collection[str],
    models: bool,
) -> tuple[ResultTable, bool]:
    """Hash the files of datasets anew, read them, and compare their content with their cards.

    Args:
        names: the datasets.
        root: the data folder.
        images: where image files lie; missing ones are counted, and are no fault.
        required: those of them of which an absent one is a fault.
        models: whether to hash the files that SPICE needs as well.

    Returns:
        A row for each dataset, and whether there is no fault; a part that can be used has none.

    Raises:
        InputError: on an unknown name, or where `images` is not a folder.
    """
    if images is not None and not images.is_dir():
        raise InputError(f"data.images={images} is not a folder")

    folder = registry.data_root(root)
    # Counted beforehand, for the bar.
    names = list(names)
    rows: list[Row] = []
    notes: list[str] = []
    with StepProgress(len(names)) as progress:
        for name in names:
            with progress.step(name):
                cells, faults = _verify_dataset(
                    folder, registry.card(name), images, is_required=name in required
                )
            rows.append(Row(name, cells))
            notes += faults
    if models:
        row, faults = _verify_models(has_images=images is not None)
        rows.append(row)
        notes += faults
    # Up to here notes are faults; explanations follow.
    is_good = not notes
    columns = ["files", *_COUNTS, *_COPIES]
    columns += ["image files missing", "verdict"] if images else ["verdict"]
    notes.insert(0, f"Data folder: {folder}" + ("" if folder.is_dir() else " (not there)"))
    notes.append(
        "own references: captions that repeat one of their image's references but for case and punctuation; exact: "
        "those that repeat it exactly; protocol.own_references=drop leaves them out."
    )
    # On a narrow terminal these columns go one by one, the last first.
    spare = tuple((columns.index(name),) for name in reversed(_COPIES))
    table = ResultTable(
        "Verified", "dataset", columns, rows, notes=notes, numeric=False, spare=spare, file=""
    )
    return table, is_good


def _verify_dataset(
    folder: Path, card: Card, images: Path | None, *, is_required: bool
) -> tuple[list[str], list[str]]:
    """Return the cells of a dataset's row, and a line for each fault, which names the dataset or a file of it."""
    files, faults = _check_files(folder, card)
    is_part = partly(folder, card)
    is_complete = bool(card.sources or card.synthetic) and not missing(folder, card)
    is_here = is_part or is_complete

    counts = [MISSING] * (len(_COUNTS) + len(_COPIES))
    absent_images = MISSING
    load_faults: list[str] = []
    if is_here:
        try:
            dataset = registry.load(card.name, folder)
        except InputError as error:
            load_faults.append(str(error))
        else:
            counts, deviations = _check_counts(dataset, card)
            copies = find_own_references(dataset.items)
            counts += [f"{copies.n_copies:,}", f"{copies.n_exact:,}"]
            # A part cannot have the counts of the whole.
            if not is_part:
                faults += deviations
            if images is not None and not card.synthetic:
                absent_images = _check_images(dataset, images)
    elif not is_required:
        faults = []
    faults = [*(f"{card.name}: {fault}" for fault in faults), *load_faults]

    cells = [files, *counts]
    if images:
        cells.append(absent_images)
    if faults:
        verdict = "OFF"
    elif is_part:
        verdict = "part"
    else:
        verdict = "ok" if is_here else "not here"

    return [*cells, verdict], faults


def _check_files(folder: Path, card: Card) -> tuple[str, list[str]]:
    """Return a cell on the files of a dataset, and their faults."""
    if not card.sources:
        return status(folder, card), []

    state_by_source = {s: state(folder, card, s) for s in used(folder, card)}
    messages = {
        "missing": "is missing",
        "differs": "is not of the card's revision: its hash differs",
    }
    # What is missing of a part is no fault.
    if partly(folder, card):
        del messages["missing"]

    faults: list[str] = []
    for source, word in state_by_source.items():
        if word in messages:
            faults.append(f"{source.path} {messages[word]}")

    return _word_counts(Counter(state_by_source.values())), faults


def _word_counts(counts: Mapping[str, int]) -> str:
    """Return counts of files by their state as a cell, such as `3 right, 1 missing`; a count of 0 is left out."""
    words = [f"{n} {word}" for word, n in counts.items() if n]
    return ", ".join(words)


def _verify_models(*, has_images: bool) -> tuple[Row, list[str]]:
    """Return the row of the files that SPICE needs, whose cells of counts are empty, and their faults."""
    files, faults = _check_models()
    empty = [MISSING] * (len(_COUNTS) + len(_COPIES))
    if has_images:
        empty.append(MISSING)
    verdict = "OFF" if faults else "ok"
    return Row(spice_models.NAME, [files, *empty, verdict]), faults


def _check_models() -> tuple[str, list[str]]:
    """Return a cell on the files that SPICE needs, and their faults."""
    folder = spice_models.jar_folder()
    absent = [j for j in spice_models.JARS if not (folder / j.file).is_file()]
    damaged = spice_models.damaged_jars(folder)

    n_right = len(spice_models.JARS) - len(absent) - len(damaged)
    counts = {"right": n_right, "missing": len(absent), "differs": len(damaged)}

    faults = [f"{folder / j.file} is missing" for j in absent]
    faults += [f"{folder / j.file} is not {j.coordinates}: its hash differs" for j in damaged]
    return _word_counts(counts), faults


def _check_counts(dataset: CaptionSet, card: Card) -> tuple[list[str], list[str]]:
    """Return cells of a dataset's counts, and a line for each that is not the card's.

    Counts that the reader took off the card do not hold for the files that are here.
    """
    counts = {
        "images": dataset.items["image_id"].nunique(),
        "items": len(dataset.items),
        "ratings": len(dataset.ratings),
        "preferences": len(dataset.preferences),
    }
    deviations: list[str] = []
    for name, count in counts.items():
        if name not in card.expected or name not in dataset.card.expected:
            continue
        expected = card.expected[name]
        if count != expected:
            deviations.append(f"{count:,} {name}, where {expected:,} are expected")

    return [f"{count:,}" for count in counts.values()], deviations


def _check_images(dataset: CaptionSet, images: Path) -> str:
    """Return a cell on the images of a dataset that have no file in a folder."""
    ids = dataset.items["image_id"].unique()
    absent = sum(find_image(image_id, dataset.name, images) is None for image_id in ids)
    return f"{absent:,} of {len(ids):,}"


def overlap(datasets: Sequence[str], root: Path | None) -> ResultTable:
    """Compare every two datasets: shared images, shared (image, caption) pairs, and leaks.

    A leak is an image whose split differs: a rater trained on the training part of one dataset would meet
    it in the test part of the other.

    Raises:
        InputError: where fewer than two datasets are named, or one cannot be read.
    """
    names = list(dict.fromkeys(datasets))
    if len(names) < 2:
        raise InputError("two datasets are needed, such as dataset=capeval1k,composite_coco")

    sets = [registry.load(name, root) for name in names]
    rows = [_compare(a, b) for a, b in combinations(sets, 2)]
    notes = [
        "train, validation, test: shared images that both datasets have in this split; leaks: those whose splits differ."
    ]
    notes += [_count_own_references(caption_set) for caption_set in sets]

    columns = [
        "images, 1st",
        "images, 2nd",
        "shared images",
        "train",
        "validation",
        "test",
        "leaks",
        "shared captions",
    ]
    return ResultTable("Overlap", "datasets", columns, rows, notes=notes, file="")


def _compare(a: CaptionSet, b: CaptionSet) -> Row:
    split_a = dict(zip(a.items["image_id"], a.items["split"], strict=True))
    split_b = dict(zip(b.items["image_id"], b.items["split"], strict=True))
    shared = split_a.keys() & split_b.keys()
    counts_by_split = Counter[str]()
    for image_id in shared:
        if split_a[image_id] == split_b[image_id]:
            counts_by_split[split_a[image_id]] += 1

    pairs_a = set(zip(a.items["image_id"], a.items["caption"], strict=True))
    pairs_b = set(zip(b.items["image_id"], b.items["caption"], strict=True))

    counts = [len(split_a), len(split_b), len(shared)]
    counts += [counts_by_split[split] for split in ("train", "validation", "test")]
    # An image in unlike splits is a leak: trained on in one dataset, tested in the other.
    counts.append(len(shared) - counts_by_split.total())
    counts.append(len(pairs_a & pairs_b))
    return Row(f"{a.name}, {b.name}", [count_cell(n) for n in counts])


def _count_own_references(caption_set: CaptionSet) -> str:
    """Return a note on the captions of a dataset that are one of their image's references."""
    copies = find_own_references(caption_set.items)
    return f"{caption_set.name}: {copies.count()}."
