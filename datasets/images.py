"""The usual places of the image files of COCO, Flickr and PASCAL, by their archives' names."""

from __future__ import annotations

from pathlib import Path

#: COCO's folders, and the names of their files; `{}` is the id in twelve digits.
_COCO = (
    ("val2014", "COCO_val2014_{}.jpg"),
    ("train2014", "COCO_train2014_{}.jpg"),
    ("val2017", "{}.jpg"),
    ("train2017", "{}.jpg"),
)
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
        places += [(".", f"{name}{ending}") for ending in (".jpg", ".jpeg", ".png", ".webp", "")]
    else:
        names = [name] if Path(name).suffix else [f"{name}.jpg", f"{name}.png"]
        places = [(folder, name) for name in names for folder in _NAMED]
    for base in (root / dataset, root, *(root / c for c in _COLLECTIONS)):
        for folder, file in places:
            for path in (base / folder / file, base / file):
                if path.is_file():
                    return path
    return None
