"""People's captions by image, from a file of references or a dataset.

`held_out_captions` and `word_agreement` hold out one caption of each image and compare it with the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...datasets.errors import InputError
from ...datasets.schema import CaptionSet
from ..scoring.caption_files import read_references


@dataclass(frozen=True)
class ImageCaptions:
    """Images and the captions that people wrote of them.

    Attributes:
        name: of the file or dataset.
        captions: by image id.
        n_left_out: the number of images left out because they have too few captions.
        file: the file; None where it is a dataset.
        caption_set: the dataset; None where it is a file.
        image_files: by image id, where a dataset has them.
    """

    name: str
    captions: Mapping[str, tuple[str, ...]]
    n_left_out: int = 0
    file: Path | None = None
    caption_set: CaptionSet | None = None
    image_files: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    @classmethod
    def from_file(cls, path: Path) -> ImageCaptions:
        """Read a file of references.

        Raises:
            InputError: where it cannot be read.
        """
        return cls(path.stem, read_references(path).texts, file=path)

    @classmethod
    def from_dataset(cls, caption_set: CaptionSet) -> ImageCaptions:
        """Take the references of a dataset.

        Raises:
            InputError: where they differ within an image.
        """
        captions: dict[str, tuple[str, ...]] = {}
        items = caption_set.items
        for image_id, references in zip(items["image_id"], items["references"], strict=True):
            if captions.setdefault(image_id, references) != references:
                raise InputError(
                    f"dataset {caption_set.name}: rows of image '{image_id}' have different references; "
                    f"give the image's in a file, references=FILE"
                )
        image_files = dict(zip(items["image_id"], items["image"], strict=True))
        return cls(caption_set.name, captions, caption_set=caption_set, image_files=image_files)

    @property
    def is_synthetic(self) -> bool:
        """Tell whether the captions are made up by a rule."""
        return self.caption_set is not None and self.caption_set.card.synthetic

    @property
    def left_out_note(self) -> str:
        """A note on the images left out; empty where there is none."""
        images = "image" if self.n_left_out == 1 else "images"
        return (
            f"{self.n_left_out:,} {images} with fewer captions left out" if self.n_left_out else ""
        )

    def keep_first(self, k: int | None) -> ImageCaptions:
        """Keep the first k + 1 captions of each image that has so many; None keeps all, where there are two.

        Raises:
            InputError: where no image has enough.
        """
        min_captions = 2 if k is None else k + 1
        captions = {
            image_id: texts if k is None else texts[:min_captions]
            for image_id, texts in self.captions.items()
            if len(texts) >= min_captions
        }
        if not captions:
            largest = max(map(len, self.captions.values()), default=0)
            raise InputError(
                f"{self.file or self.name}: no image has {min_captions} captions, of which one is held out; "
                f"the most is {largest}"
            )
        n_left_out = self.n_left_out + len(self.captions) - len(captions)
        return replace(self, captions=captions, n_left_out=n_left_out)
