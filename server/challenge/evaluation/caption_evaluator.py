"""Scoring of systems' captions against private references, by the functions of `captau score`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....benchmarks.commands.validate import check_captions
from ....benchmarks.evaluation.people.held_out_captions import (
    ImageCaptions,
    score_held_out_captions,
)
from ....benchmarks.runs.results import describe_environment
from ....benchmarks.scoring.corpus_scores import (
    SystemPanel,
    SystemScores,
    compare_systems,
    make_caption_items,
    score_system,
    select_images,
)
from ....benchmarks.scoring.score_store import Locations, ScoreStore
from ....benchmarks.scoring.submission_archive import CONVENTION, Faults, results_in
from ....benchmarks.scoring.unavailable_metrics import find_unavailable
from ....benchmarks.statistics.bootstrap import count_blocks, resample
from ....datasets.errors import InputError
from ....datasets.reading.caption_files import (
    CandidateFile,
    ReferenceFile,
    read_candidates,
    read_references,
    read_systems,
)
from ....datasets.reading.json_source import JsonSource
from ....datasets.registry import load
from ....metrics.base import Floats
from ....metrics.external import user_code_of
from ....metrics.text.tokens.ptb import pin_tokens
from ..definition import ReferenceSet
from ..submission_files import find_captions, find_upload, write_captions
from .evaluator import Evaluation, Evaluator, ReportedProgress, ReportProgress, make_score_row


class CaptionEvaluator(Evaluator):
    """Evaluates the submissions of a challenge of captions."""

    @cached_property
    def references(self) -> dict[str, ReferenceFile]:
        """Return the references by set."""
        references: dict[str, ReferenceFile] = {}
        for reference_set in self.challenge.reference_sets:
            file = load_references(reference_set, self.challenge.data_root)
            references[reference_set.name] = file
        return references

    @cached_property
    def image_ids(self) -> dict[str, None]:
        """Return the images that need a caption, in the order of the references."""
        image_ids: dict[str, None] = {}
        for references in self.references.values():
            image_ids |= dict.fromkeys(references.texts)

        return image_ids

    def check_challenge(self) -> None:
        try:
            self._check_splits()
            items = self._sample_items()
            if self.challenge.human_file is not None:
                self._read_human_captions(self.challenge.human_file)
        except InputError as error:
            raise InputError(f"{self.challenge.source}: {error}") from error

        try:
            unavailable = find_unavailable(self.challenge.metrics, items)
            for metric in self.challenge.metrics:
                _ = metric.signature  # reads the files among its parameters
                if user_code_of(metric):
                    metric.score(items)  # no other metric brings code that may be missing
        except InputError as error:
            raise InputError(f"{self.challenge.metrics_source}: {error}") from error

        for metric, reason in unavailable.items():
            raise InputError(f"{self.challenge.metrics_source}: metric {metric.spec} {reason}")

    def warm_up(self) -> None:
        super().warm_up()

        # The tokens of references stay, whatever the submissions that follow need.
        reference_texts: list[str] = []
        for references in self.references.values():
            for texts in references.texts.values():
                reference_texts += texts
        pin_tokens(reference_texts)

        progress = ReportedProgress(0, lambda share, step: None)
        score_system(
            system="",
            references="",
            items=self._sample_items(),
            metrics=self.challenge.metrics,
            store=ScoreStore(None),
            progress=progress,
        )

    def _sample_items(self) -> pd.DataFrame:
        """Return two rows with which to try metrics."""
        references = next(iter(self.references.values()))
        # A submission need have no caption of an image without references.
        image_ids = [image_id for image_id, texts in references.texts.items() if texts][:2]
        captions = dict.fromkeys(image_ids, "a man")

        candidates = CandidateFile(references.source, captions, {})
        return make_caption_items(candidates, references, image_ids, None)

    def list_items(self) -> Iterator[dict[str, Any]]:
        if not self.challenge.splits:
            for image in self.image_ids:
                yield {"image_id": image}

        for split in self.challenge.splits:
            for image in self._images_of(split):
                yield {"image_id": image, "split": split}

    def _images_of(self, split: str | None) -> dict[str, None]:
        """Return the images of a split's references; of all for None."""
        images: dict[str, None] = {}
        for reference_set in self.challenge.reference_sets:
            if split is None or split == reference_set.split:
                images |= dict.fromkeys(self.references[reference_set.name].texts)

        return images

    def _check_splits(self) -> None:
        """Check that no image is in two splits, whose captions are then scored together.

        Raises:
            InputError: naming one that is.
        """
        if len(self.challenge.splits) < 2:
            return

        first, second = map(self._images_of, self.challenge.splits)
        for image in second:
            if image in first:
                splits = " and ".join(self.challenge.splits)
                raise InputError(f"image '{image}' has references in both splits, {splits}")

    def check_file(self, folder: Path, name: Path, faults: Faults) -> str:
        contents = results_in(name, find_upload(folder).read_bytes(), faults)
        if self.challenge.splits:
            return self._check_parts(folder, name, contents, faults)

        # An archive of COCO's has results on several splits, of which this challenge scores one.
        split = self.challenge.split
        if len(contents) > 1 and split:
            members = _members_by_split(contents)
            contents = {member: contents[member] for member in members.get(split, ())}

        if len(contents) > 1:
            faults.add(f"{name}: results on {len(contents)} sets; this challenge has one")
        if not faults.count and not contents:
            faults.add(f"{name}: no results on {split} in it")
        if faults.count:
            return "no captions read"

        ((member, content),) = contents.items()
        n_captions = check_captions(content, name, member, self.image_ids, faults)
        if not faults.count:
            is_json_lines = (member or name.name).lower().endswith((".jsonl", ".ndjson"))
            write_captions(folder, content, is_json_lines=is_json_lines)

        return f"{n_captions:,} captions"

    def _check_parts(
        self, folder: Path, name: Path, contents: Mapping[str, bytes], faults: Faults
    ) -> str:
        """Check the results on each split against its own images; join them where there are no faults.

        Args:
            contents: the results by their names in the archive.
        """
        splits = self.challenge.splits
        members: dict[str, str] = {}
        for split, names in _members_by_split(contents).items():
            # Of two files of one split, the last one counts.
            members[split] = names[-1]

        if not faults.count and set(members) != set(splits):
            files = " and ".join(f"captions_{split}_ALG_results.json" for split in splits)
            found_splits = " and ".join(members) or "no split that its name says"
            faults.add(f"{name}: results on {found_splits}; a zip of {files} is expected")
        if faults.count:
            return "no captions read"

        words: list[str] = []
        for split in splits:
            member = members[split]
            images = self._images_of(split)
            n_captions = check_captions(contents[member], name, member, images, faults)
            words.append(f"{n_captions:,} captions on {split}")

        if not faults.count:
            captions: dict[str, str] = {}
            for member in members.values():
                captions |= read_systems(Path(member), contents[member])[""].captions
            write_captions(folder, json.dumps(captions).encode(), is_json_lines=False)

        return " and ".join(words)

    def evaluate(self, folder: Path, report: ReportProgress) -> Evaluation:
        report(0.0, "reading")
        return self._score(read_candidates(find_captions(folder)), report)

    def _score(self, candidates: CandidateFile, report: ReportProgress) -> Evaluation:
        """Score captions against each set of references that has images of theirs."""
        options = self.challenge.statistics
        metrics = self.challenge.metrics

        references: dict[str, ReferenceFile] = {}
        for name, file in self.references.items():
            if not candidates.captions.keys().isdisjoint(file.texts):
                references[name] = file
        images = select_images({"": candidates}, references, partial=True)
        orders: dict[str, NDArray[np.int64]] = {}
        for name, ids in images.items():
            orders[name] = self._reference_order(ids)

        # Resampled once in the file's order and, if that differs, once in the references'.
        n_resamplings = 0
        if options.uses_resampling:
            for order in orders.values():
                n_resamplings += 2 if _is_mixed(order) else 1
        n_blocks = count_blocks(options.replicates)
        n_steps = len(images) * len(metrics) + n_resamplings * n_blocks
        progress = ReportedProgress(n_steps, report)

        scores: list[dict[str, Any]] = []
        replicates: dict[tuple[str, str], Floats] = {}
        items = pd.DataFrame({"image_id": list(candidates.captions)})
        for name, ids in images.items():
            set_items = make_caption_items(candidates, self.references[name], ids, None)
            result = score_system(
                system="",
                references=name,
                items=set_items,
                metrics=metrics,
                store=ScoreStore(None),
                progress=progress,
            )
            if options.uses_resampling:
                (result,), _ = compare_systems([result], options, progress.advance)
                replicates |= self._ordered_replicates(result, orders[name], progress)

            scores += [_score_row(result, metric.spec) for metric in metrics]
            columns = {f"{spec}@{name}": values for spec, values in result.scores.items()}
            scored_images = pd.DataFrame({"image_id": ids, **columns})
            items = items.merge(scored_images, "left", on="image_id")

        run = {
            "kind": "captions",
            "metrics": [metric.spec for metric in metrics],
            "statistics": vars(options),
            "signatures": {metric.spec: metric.signature for metric in metrics},
            **describe_environment(),
        }

        return Evaluation(scores, run, items, replicates)

    def _reference_order(self, image_ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the position of each image among these in the order of the references."""
        present = set(image_ids)
        positions: dict[str, int] = {}
        for image_id in self.image_ids:
            if image_id in present:
                positions[image_id] = len(positions)

        return np.array([positions[image] for image in image_ids])

    def _ordered_replicates(
        self, result: SystemScores, order: NDArray[np.int64], progress: ReportedProgress
    ) -> dict[tuple[str, str], Floats]:
        """Return replicates on samples in the order of the references, whatever the submission's is."""
        by_metric = result.replicates
        # Other submissions list the images in other orders; a sample weights the same images in all.
        if by_metric and _is_mixed(order):
            panel = SystemPanel.from_resamplers(
                {result.system: result.resamplers}, tuple(by_metric), len(order)
            )
            statistic = panel.corpus[result.system]
            options = self.challenge.statistics
            (values,) = resample(
                [lambda weights: statistic(weights[order])],
                len(order),
                options.replicates,
                options.seed,
                advance=progress.advance,
            )
            by_metric = dict(zip(by_metric, values, strict=True))

        ordered: dict[tuple[str, str], Floats] = {}
        for spec, values in by_metric.items():
            ordered[result.references, spec] = values
        return ordered

    def score_human_captions(self) -> list[dict[str, Any]]:
        """Score held-out captions as `captau agree kind=captions` does, and additional ones as a submission."""
        rows = self._score_held_out() if self.challenge.human != "none" else []
        if self.challenge.human_file is not None:
            candidates = self._read_human_captions(self.challenge.human_file)
            evaluation = self._score(candidates, lambda share, step: None)
            name = "additional captions, against all references"
            rows += [{**row, "people": name} for row in evaluation.scores]

        return rows

    def _read_human_captions(self, file: Path) -> CandidateFile:
        """Read one more caption of each image; of several splits, those of one may do (COCO's are of test images).

        Raises:
            InputError: if it cannot be read, or an image has none.
        """
        candidates = read_candidates(file)
        needed_images: list[str] = []
        all_images: list[str] = []
        for split in self.challenge.splits or (None,):
            split_images = self._images_of(split)
            all_images += split_images
            if not candidates.captions.keys().isdisjoint(split_images):
                needed_images += split_images

        # Where no split has a caption, all of their images are missing.
        images = needed_images or all_images
        missing = [image for image in images if image not in candidates.captions]
        if missing:
            raise InputError(
                f"human: {file}: {len(missing):,} of the {len(images):,} images have no caption, such "
                f"as '{missing[0]}'; one an image is expected"
            )

        return candidates

    def _score_held_out(self) -> list[dict[str, Any]]:
        """Return rows of scores of held-out captions, whose name says how many references were left."""
        scores: list[dict[str, Any]] = []
        counts: dict[str, str] = {}
        places = Locations(self.challenge.data_root)
        for references in self.challenge.reference_sets:
            if references.file is not None:
                source = ImageCaptions.from_file(references.file)
            else:
                source = ImageCaptions.from_dataset(places.load(str(references.dataset)))

            agreement = score_held_out_captions(
                [source],
                self.challenge.metrics,
                places.store(),
                held_out=self.challenge.human,
                # One of the references is the caption that is scored.
                k=None if references.k is None else references.k - 1,
                seed=self.challenge.statistics.seed,
            )
            last_choices = agreement.choices.groupby("metric", sort=False).last()
            counts[references.name] = str(last_choices["n_references"].iloc[0])
            for metric, row in last_choices.iterrows():
                score_row = make_score_row(
                    references=references.name,
                    metric=str(metric),
                    values=(row["value"], row["ci_low"], row["ci_high"]),
                    n_captions=int(row["n_items"]),
                    note=f"against {row['n_references']} others",
                )
                scores.append(score_row)

        against = ", ".join(f"{count} in {name}" for name, count in counts.items())
        people = f"captions held out, against the others ({against})"
        return [{**row, "people": people} for row in scores]


def _members_by_split(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the files of an archive by the split that their names say; those that say none are left out."""
    members: dict[str, list[str]] = {}
    for name in names:
        match = CONVENTION.fullmatch(name)
        if match:
            members.setdefault(match[1], []).append(name)

    return members


def _is_mixed(order: NDArray[np.int64]) -> bool:
    """Return whether images are in another order than the references'."""
    return bool((np.diff(order) < 0).any())


def load_references(reference_set: ReferenceSet, data_root: Path | None) -> ReferenceFile:
    """Read the references of a set: its file's, or the first of each image of its dataset.

    Raises:
        InputError: where rows of one image in the dataset have different references.
    """
    if reference_set.file is not None:
        return read_references(reference_set.file)

    items = load(str(reference_set.dataset), data_root).items
    by_image: dict[str, tuple[str, ...]] = {}
    for image_id, references in zip(items["image_id"], items["references"], strict=True):
        texts = references[: reference_set.k]
        if by_image.setdefault(image_id, texts) != texts:
            raise InputError(
                f"dataset {reference_set.dataset}: rows of image '{image_id}' have different "
                f"references; name a file of them"
            )

    return ReferenceFile(JsonSource(Path(reference_set.name)), by_image)


def _score_row(result: SystemScores, spec: str) -> dict[str, Any]:
    interval = result.intervals.get(spec)
    note = result.undefined_note(spec)
    low = high = None
    if interval:
        low = interval.low
        high = interval.high
        note = note or interval.note

    return make_score_row(
        references=result.references,
        metric=spec,
        values=(result.corpus[spec], low, high),
        n_captions=len(result.items),
        note=note,
    )
