"""The card of a trained rater: what it learned from, under which terms, and for which captions it is.

`rater.json` is read by programs (`metrics/learned/rater.py`); `README.md` says the same to people.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets.cache import replacing
from ...metrics.learned.common.recipe import Examples
from ...metrics.learned.common.training import TrainingSession
from ...metrics.learned.rater import PAGE_FILE, RaterCard
from ..runs.results import describe_environment
from ..runs.tables import format_number
from .training_designs import TrainingCorpus, TrainingJob, TrainingPlan

#: Shares of the captions that are no longer than the lengths on the card.
_QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)


def make_card(
    plan: TrainingPlan,
    job: TrainingJob,
    corpora: Mapping[str, TrainingCorpus],
    session: TrainingSession,
    fingerprint: str,
) -> RaterCard:
    """Describe a rater that was just trained, without figures."""
    caption_sets = {name: corpus.selection.caption_set for name, corpus in corpora.items()}
    train_images, validation_images = (
        {*map(str, examples.image_ids)} for examples in (job.train, job.validation)
    )
    return RaterCard(
        rater=plan.recipe.name,
        options=plan.recipe.options,
        seed=job.seed,
        images=tuple(sorted(train_images | validation_images | {*session.extra_image_ids})),
        fingerprint=fingerprint,
        about={
            "design": plan.design,
            "shuffled": plan.shuffled,
            "data": {
                name: {
                    "title": c.card.title,
                    "revision": c.card.revision,
                    "digest": c.digest,
                    "licence": c.card.licence,
                    "ranges": _describe_ranges(job, name),
                }
                for name, c in caption_sets.items()
                if name in {*job.train.rows.frame["dataset"], *job.validation.rows.frame["dataset"]}
            },
            "train": _count_examples(job.train),
            "validation": _count_examples(job.validation),
            "dropped": job.n_dropped,
            "validation_images": sorted(validation_images),
            "test_images": sorted(job.test_image_ids),
            "features": plan.recipe.signature,
            **describe_environment(),
        },
    )


def _count_examples(examples: Examples) -> dict[str, dict[str, int]]:
    grouped = examples.rows.frame.groupby("dataset", sort=False)["image_id"]
    return {
        str(name): {"captions": len(images), "images": int(images.nunique())}
        for name, images in grouped
    }


def _describe_ranges(job: TrainingJob, name: str) -> dict[str, list[int]]:
    """Return quantiles of words a caption, and the least and greatest number of references, of a dataset."""
    parts = [part.rows.frame for part in (job.train, job.validation)]
    captions = [c for frame in parts for c in frame.loc[frame["dataset"] == name, "caption"]]
    references = [r for frame in parts for r in frame.loc[frame["dataset"] == name, "references"]]
    words = [len(caption.split()) for caption in captions]
    counts = [len(texts) for texts in references]
    return {
        "caption_words": np.quantile(words, _QUANTILES, method="nearest").astype(int).tolist(),
        "references": [min(counts), max(counts)],
    }


def write_card(card: RaterCard, folder: Path) -> None:
    """Write the page for people and then the card, whose presence says that the rater is complete."""
    with replacing(folder / PAGE_FILE) as stream:
        stream.write(_describe_rater(card).encode())
    card.write(folder)


def _describe_rater(card: RaterCard) -> str:
    """Return the card as a page in Markdown."""
    about = card.about
    lines = [
        f"# A rater of captau: {card.rater}",
        "",
        f"Trained with design={about['design']}, seed {card.seed}. As a metric: `rater(path=FOLDER)`.",
    ]
    if about["shuffled"]:
        lines.append("CONTROL: it was trained on shuffled ratings.")
    if about["design"] == "all":
        lines.append(
            "It was trained on every caption of the datasets below, so none of their images can test it; "
            "`captau train design=leave_one_out` measures raters that were made alike."
        )
    lines += ["", "| learned from | captions | images | words a caption | references | licence |"]
    lines.append("|:--|--:|--:|:--|:--|:--|")
    for name, data in about["data"].items():
        counts = [about[side].get(name, {}) for side in ("train", "validation")]
        captions, images = (sum(c.get(k, 0) for c in counts) for k in ("captions", "images"))
        low, _, middle, _, high = data["ranges"]["caption_words"]
        low_count, high_count = data["ranges"]["references"]
        cells = [f"{data['title']} ({data['revision']})", f"{captions:,}", f"{images:,}"]
        cells += [
            f"{low} to {high}, median {middle}",
            f"{low_count} to {high_count}",
            data["licence"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "The ratings and captions remain under the licences above, which bind the use of this rater.",
    ]
    lines += ["", *_describe_figures(about), ""]
    return "\n".join(lines)


def _describe_figures(about: Mapping[str, Any]) -> list[str]:
    """Return a table of how the rater agrees with people on the rows that it was tested on."""
    if not about.get("test"):
        return [
            "No figures: nothing was left to test it on, or its figures are of several raters together."
        ]
    lines = ["| tested on | dimension | coefficient ×100 | captions |", "|:--|:--|--:|--:|"]
    for row in about["test"]:
        value = format_number(row["value"], 100, 1)
        lines.append(
            f"| {row['dataset']} | {row['dimension']} | {row['coefficient']} {value} | {row['n_items']:,} |"
        )
    return lines
