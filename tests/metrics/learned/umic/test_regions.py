"""Region features as the authors store them and as captau does; files that are broken."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import lmdb
import lz4.frame
import msgpack
import numpy as np
import pytest

from captau.metrics.learned.common.features import find_scene, region_features
from captau.metrics.learned.umic import regions as module
from captau.metrics.learned.umic.regions import (
    DemoRegions,
    Regions,
    check_confidence,
    check_regions,
    count_regions,
    decode_regions,
    hash_regions,
    open_regions,
    write_regions,
)
from tests.conftest import raises_exactly, says

RNG = np.random.default_rng(5)


def regions(n=12, width=16, columns=6):
    """Return a detector's arrays of an image, as the authors store them."""
    return {
        "features": RNG.normal(size=(n, width)).astype(np.float16),
        "norm_bb": RNG.uniform(size=(n, columns)).astype(np.float16),
        "conf": np.sort(RNG.uniform(0.3, 1, size=n))[::-1].astype(np.float16),
        "soft_labels": RNG.uniform(size=(n, 3)).astype(np.float16),
    }


def packed(arrays, keys=bytes):
    """msgpack as msgpack-numpy writes it."""

    def encode(array):
        fields = {
            "nd": True,
            "type": array.dtype.str,
            "kind": b"",
            "shape": list(array.shape),
            "data": array.tobytes(),
        }
        return {(k.encode() if keys is bytes else k): v for k, v in fields.items()}

    return msgpack.packb({k: encode(v) for k, v in arrays.items()}, use_bin_type=True)


def zipped(arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def database(folder, values):
    """An LMDB of values by key."""
    folder.mkdir(parents=True)
    with lmdb.open(str(folder), map_size=1 << 26) as env, env.begin(write=True) as transaction:
        for key, value in values.items():
            transaction.put(key.encode(), value)
        transaction.put(b"__keys__", json.dumps(list(values)).encode())
    (folder / "lock.mdb").unlink()
    return folder


def image(number, source="coco_val2014"):
    return f"{source}_{number:012d}.npz"


@pytest.mark.parametrize(
    ("pack", "name"),
    [
        (packed, "feat_th0.2_max100_min10"),
        (lambda a: packed(a, keys=str), "all"),
        (lambda a: lz4.frame.compress(packed(a)), "feat_th0.2_max100_min10"),
        (zipped, "all_compressed"),
    ],
    ids=["msgpack", "text keys", "LZ4", "npz"],
)
def test_the_authors_databases_are_read(tmp_path, pack, name):
    arrays = regions()
    database(tmp_path / "coco_val2014" / name, {image(391895): pack(arrays)})
    for folder in (tmp_path, tmp_path / "coco_val2014", tmp_path / "coco_val2014" / name):
        with Regions(folder) as found:
            assert "391895" in found
            assert "__keys__" not in found
            seen = found["391895"]
        np.testing.assert_array_equal(seen.features, arrays["features"])
        wide = arrays["norm_bb"].astype(np.float32)
        expected = np.hstack([wide, wide[:, 4:5] * wide[:, 5:]])
        np.testing.assert_array_equal(seen.boxes, expected)
        assert seen.boxes.dtype == np.float32


def test_the_json_or_confidence_says_how_many_regions_count(tmp_path):
    """As many as the JSON says; else as many as are surer than 0.2, at least 10 and at most 100."""
    arrays = regions(n=40)
    arrays["conf"][25:] = 0.1
    few = {**arrays, "conf": np.linspace(0.3, 0, 40).astype(np.float16)}
    values = {image(1): packed(arrays), image(2): packed(few), image(3): packed(regions(n=120))}
    database(tmp_path / "all", values)
    with Regions(tmp_path) as found:
        assert [len(found[i]) for i in "123"] == [25, 13, 100]
    counts_path = tmp_path / "nbb_th0.2_max100_min10.json"
    counts_path.write_text(json.dumps({image(1): 7, image(2): 40}))
    database(tmp_path / "feat_th0.2_max100_min10", values)
    with Regions(tmp_path) as found:  # and `all`, beside it, is what it was chosen from
        assert [len(found[i]) for i in "123"] == [7, 40, 100]
    assert [count_regions(np.array(c)) for c in ([0.3] * 3, [0.3] * 30, [0.2] * 30)] == [10, 30, 10]


def test_seven_numbers_of_a_place_are_taken_as_they_are(tmp_path):
    arrays = regions(columns=7)
    (tmp_path / "1.npz").write_bytes(zipped(arrays))
    with Regions(tmp_path) as found:
        np.testing.assert_array_equal(found["1"].boxes, arrays["norm_bb"].astype(np.float32))


def test_images_are_found_by_their_ids(tmp_path):
    """By COCO's number or Flickr's file name, whichever way the file is called."""
    names = {
        "coco_train2014_000000000030": "30",
        "flickr8k_3482974845_db4f": "3482974845_db4f.jpg",
        "demo_000.png": "demo_000.png",
        "1056338697_4f7d7ce270.jpg": "1056338697_4f7d7ce270.jpg",
    }
    for name in names:
        (tmp_path / f"{name}.npz").write_bytes(zipped(regions()))
    with Regions(tmp_path) as found:
        assert all(image_id in found for image_id in names.values())
        assert "000.png" not in found


def test_written_regions_are_read_again(tmp_path):
    """An image of 200 x 100; the surest first, boxes as shares, and the area."""
    features = np.arange(24, dtype=np.float32).reshape(12, 2)
    boxes = np.tile([[20, 10, 120, 60]], (12, 1))
    boxes[11] = [0, 0, 200, 100]
    confidence = np.linspace(0.0, 0.9, 12)
    path = write_regions(tmp_path / "new", "demo_000.png", features, boxes, (200, 100), confidence)
    assert path == tmp_path / "new" / "demo_000.png.npz"
    with Regions(tmp_path / "new") as found:
        seen = found["demo_000.png"]
    assert len(seen) == 10  # nine are surer than 0.2, and ten at least count
    np.testing.assert_array_equal(seen.features[0], [22, 23])
    np.testing.assert_allclose(seen.boxes[0], [0, 0, 1, 1, 1, 1, 1], atol=1e-6)
    np.testing.assert_allclose(seen.boxes[1], [0.1, 0.1, 0.6, 0.6, 0.5, 0.5, 0.25], atol=1e-6)
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["demo_000.png.npz"]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"image_id": "../x"}, "without folders"),
        ({"boxes": [[0, 0, 1]]}, "(1, 4) in pixels"),
        ({"features": [[np.nan]]}, "img_feat holds NaN"),
        ({"features": [[1]]}, "floats of shape"),
        ({"confidence": [0.1, 0.2]}, "conf is not one number for each of the 1 regions"),
        ({"size": (0, 10)}, "in an image of 0 x 10"),
    ],
)
def test_faulty_regions_are_not_written(tmp_path, change, part):
    arguments = {
        "image_id": "1",
        "features": [[0.5]],
        "boxes": [[0, 0, 1, 1]],
        "size": (9, 9),
    } | change
    with says("region features of", part):
        write_regions(tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_an_image_without_features_is_raises_exactly(tmp_path):
    (tmp_path / "1.npz").write_bytes(zipped(regions()))
    with Regions(tmp_path) as found, says(str(tmp_path), "no region features for image '2'"):
        found["2"]


def test_a_folder_without_features_is_raises_exactly(tmp_path):
    with says("no region features", "docs/umic.md"), Regions(tmp_path):
        pass


def test_an_image_with_two_entries_is_raises_exactly(tmp_path):
    for name in ("30", "coco_val2014_000000000030"):
        (tmp_path / f"{name}.npz").write_bytes(zipped(regions()))
    with says("image '30' is in it twice", "30.npz"), Regions(tmp_path):
        pass


class Trap:
    """An object that would kill the process if it were unpickled."""

    def __reduce__(self):
        return (os.kill, (os.getpid(), signal.SIGKILL))


def objects():
    """An array of Python objects, as msgpack-numpy and npz hold them: pickled."""
    import pickle

    data = pickle.dumps(np.array([Trap()], dtype=object))
    pickled = {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": [1], b"data": data}
    yield msgpack.packb({"features": pickled}, use_bin_type=True)
    out = io.BytesIO()
    np.savez(out, features=np.array([Trap()], dtype=object))
    yield out.getvalue()


@pytest.mark.parametrize("value", list(objects()), ids=["msgpack", "npz"])
def test_nothing_is_unpickled(tmp_path, value):
    database(tmp_path / "all", {image(1): value})
    with Regions(tmp_path) as found, says(image(1), "not region features, or damaged"):
        found["1"]


def changed(**change):
    arrays = {**regions(), **change}
    return {k: v for k, v in arrays.items() if v is not None}


HOLE = np.zeros((12, 16), dtype=np.float16)
HOLE[3, 4] = np.nan


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (packed(changed(features=HOLE)), "features holds NaN or infinity"),
        (packed(changed(norm_bb=np.full((12, 6), np.inf, np.float32))), "norm_bb holds NaN"),
        (packed(changed(features=None)), "features is not there"),
        (packed(changed(norm_bb=None)), "norm_bb is not there"),
        (packed(changed(features=np.zeros(5, np.float16))), "float16 of shape (5,)"),
        (packed(changed(features=np.zeros((12, 4), np.int32))), "features is int32"),
        (packed(changed(norm_bb=np.zeros((12, 5), np.float16))), "(12, 6) or (12, 7) is expected"),
        (packed(changed(norm_bb=np.zeros((9, 6), np.float16))), "(12, 6) or (12, 7) is expected"),
        (packed(changed(conf=np.zeros(3, np.float16))), "conf is not one number for each"),
        (packed(changed(features=HOLE[:0], norm_bb=HOLE[:0, :6], conf=HOLE[:0, 0])), "no region"),
        (packed(regions())[:-7], "or damaged"),
        (lz4.frame.compress(packed(regions()))[:-40], "or damaged"),
        (zipped(regions())[:-40], "or damaged"),
        (b"\xc1 nothing of the kind", "or damaged"),
        (msgpack.packb([1, 2]), "not a table of arrays, but list"),
        (msgpack.packb({"features": {"nd": True, "type": "<f2"}}), "or damaged"),
    ],
)
def test_broken_values_are_raises_exactly(tmp_path, value, part):
    database(tmp_path / "all", {image(391895): value})
    with Regions(tmp_path) as found, says(image(391895), part):
        found["391895"]


def test_a_truncated_database_is_raises_exactly(tmp_path):
    """It would kill the process that reads it; so another looks first."""
    values = {image(i): packed(regions(n=50, width=64)) for i in range(1, 40)}
    path = database(tmp_path / "all", values) / "data.mdb"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with says("data.mdb", "truncated or damaged"), Regions(tmp_path):
        pass
    path.write_bytes(b"no database")
    with says("data.mdb", "truncated or damaged"), Regions(tmp_path):
        pass


@pytest.mark.parametrize(
    ("text", "part"),
    [("[]", "an object image"), (f'{{"{image(1)}": 0}}', "not a number of regions")],
)
def test_a_broken_table_of_counts_is_raises_exactly(tmp_path, text, part):
    database(tmp_path / "feat_th0.2_max100_min10", {image(1): packed(regions())})
    (tmp_path / "nbb_th0.2_max100_min10.json").write_text(text)
    with says("nbb_th0.2_max100_min10.json", part), Regions(tmp_path):
        pass


def test_the_hash_follows_the_content(tmp_path):
    path = tmp_path / "1.npz"
    path.write_bytes(zipped(regions()))
    before = hash_regions(tmp_path)
    assert hash_regions(tmp_path) == before
    path.write_bytes(zipped(regions(n=13)))
    assert hash_regions(tmp_path) != before


def test_reading_needs_no_torch():
    code = (
        "import sys; import captau.metrics.learned.umic.metric\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# In full


@pytest.mark.parametrize(
    ("n_sure", "n_regions", "expected"),
    [
        (0, 9, 10),
        (9, 40, 10),
        (10, 40, 10),
        (11, 40, 11),
        (99, 120, 99),
        (100, 120, 100),
        (101, 120, 100),
    ],
)
def test_the_surest_regions_count_ten_to_a_hundred_of_them(n_sure, n_regions, expected):
    confidence = np.full(n_regions, 0.2)
    confidence[:n_sure] = 0.21
    assert count_regions(confidence) == check_confidence(confidence, n_regions, "x") == expected


def test_confidences_are_one_number_a_region():
    assert check_confidence(None, 3, "x") == 100
    for confidence in (np.ones(2), np.ones((3, 1)), [1, 1, 1]):
        with raises_exactly("x: conf is not one number for each of the 3 regions"):
            check_confidence(confidence, 3, "x")


TWO = np.array([[1, 2], [3, 4], [5, 6]], np.float16)
SIX = np.array([[0, 0, 0.5, 0.25, 0.5, 0.25]] * 3, np.float64)


@pytest.mark.parametrize(
    ("arrays", "count", "expected"),
    [
        ({"img_feat": TWO, "img_pos_feat": SIX}, 1, 3),
        ({"features": TWO, "norm_bb": SIX}, None, 3),
        ({"features": TWO, "norm_bb": SIX}, 2, 2),
        ({"features": TWO, "norm_bb": SIX, "conf": np.ones(3)}, None, 3),
        ({"features": TWO, "norm_bb": SIX, "conf": np.ones(5)}, 1, 1),
        ({"img_feat": TWO, "img_pos_feat": SIX, "conf": 3, "norm_bb": None}, None, 3),
    ],
)
def test_regions_of_both_layouts(arrays, count, expected):
    found = check_regions(arrays, count, "x")
    assert len(found) == expected
    assert found.features.tolist() == TWO[:expected].tolist()
    assert found.boxes.tolist() == [[0, 0, 0.5, 0.25, 0.5, 0.25, 0.125]] * expected
    assert (found.features.dtype, found.boxes.dtype) == (np.float16, np.float32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "not a table of arrays, but list"),
        ({}, "features is not there; floats of shape (regions, numbers) are expected"),
        (
            {"img_feat": TWO},
            "img_pos_feat is not there; floats of shape (regions, numbers) are expected",
        ),
        (
            {"img_feat": TWO.astype(int), "img_pos_feat": SIX},
            "img_feat is int64 of shape (3, 2); floats of shape (regions, numbers) are expected",
        ),
        (
            {"features": TWO, "norm_bb": SIX[0]},
            "norm_bb is float64 of shape (6,); floats of shape (regions, numbers) are expected",
        ),
        (
            {"features": TWO, "norm_bb": SIX[:2]},
            "norm_bb is of shape (2, 6); (3, 6) or (3, 7) is expected",
        ),
        (
            {"img_feat": TWO, "img_pos_feat": np.ones((3, 8))},
            "img_pos_feat is of shape (3, 8); (3, 6) or (3, 7) is expected",
        ),
        (
            {"img_feat": TWO[:0], "img_pos_feat": SIX[:0]},
            "no region in it; at least one is needed",
        ),
        (
            {"img_feat": TWO * np.nan, "img_pos_feat": SIX * np.inf},
            "img_feat holds NaN or infinity; compute the features again",
        ),
        (
            {"features": TWO, "norm_bb": SIX * np.inf},
            "norm_bb holds NaN or infinity; compute the features again",
        ),
    ],
)
def test_faulty_arrays_are_raises_exactly(arrays, message):
    with raises_exactly(f"x: {message}"):
        check_regions(arrays, None, "x")


def test_what_is_no_array_of_numbers_is_not_decoded():
    assert module.decode_array({"nd": False, "type": "f2"}) == {"nd": False, "type": "f2"}
    assert module.decode_array({b"nd": 1}) == {b"nd": 1}
    for kind in ("|O", "f3", "V2", "f22", "<U2", [["a", "f2"]]):
        with pytest.raises(ValueError, match="an array of type"):
            module.decode_array({"nd": True, "type": kind, "data": b"", "shape": [0]})
    with says("x: not region features, or damaged (an array of type |O)"):
        decode_regions(next(iter(objects())), None, "x")
    # Of an npz file only these arrays are read.
    arrays = {"img_feat": TWO, "img_pos_feat": SIX, "more": np.array([Trap()], dtype=object)}
    assert len(decode_regions(zipped(arrays), None, "x")) == 3


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_entries_and_errors_of_a_database(tmp_path):
    folder = tmp_path / "feat_x"
    values = {image(7): packed(regions()), "plain": b"x", "flickr30k_0001.npz": zipped(regions())}
    database(folder, values)
    counts_path = tmp_path / "nbb_x.json"
    for text, message in (
        ("[1]", "an object image → number of regions is expected"),
        (f'{{"{image(7)}": 0}}', f"'{image(7)}' is 0, not a number of regions"),
        (f'{{"{image(7)}": "2"}}', f"'{image(7)}' is '2', not a number of regions"),
    ):
        counts_path.write_text(text)
        with raises_exactly(f"{counts_path}: {message}"), Regions(tmp_path):
            pass
    counts_path.write_text(json.dumps({image(7): 1, "other": 0}))
    with Regions(tmp_path) as found:
        assert (len(found["7"]), len(found["1.jpg"])) == (1, 12)
        with raises_exactly(f"{folder}/data.mdb: key 'plain': not a table of arrays, but int"):
            found["plain"]
        with raises_exactly(f"{tmp_path}: no region features for image '8'"):
            found["8"]
    assert "7" not in found
    touch(tmp_path, "7.npz")
    with (
        raises_exactly(
            f"{tmp_path}: image '7' is in it twice, as {tmp_path}/7.npz and as {folder}/data.mdb: key "
            f"'{image(7)}'; keep one"
        ),
        Regions(tmp_path),
    ):
        pass
    empty = tmp_path / "empty"
    with (
        raises_exactly(
            f"{empty}: no region features; an LMDB (data.mdb) or npz files are expected, see docs/umic.md"
        ),
        Regions(empty),
    ):
        pass


def test_a_file_that_went_away_is_named(tmp_path):
    path = write_regions(tmp_path, "1", [[0.5]], [[0, 0, 1, 1]], (2, 2))
    with Regions(tmp_path) as found:
        path.unlink()
        with raises_exactly(f"{path}: cannot be read (No such file or directory)"):
            found["1"]


def test_the_demos_regions_are_those_of_its_scenes():
    assert open_regions(Path("x")).folder == Path("x")
    assert type(open_regions(Path("x"))) is Regions
    with open_regions(None) as found:
        assert type(found) is DemoRegions
        assert found.folder == Path("demo")
        assert "demo_001.png" in found
        assert "further_00001.png" in found
        assert "x" not in found
        seen = found["demo_001.png"]
    features, boxes = region_features(find_scene("demo_001.png"))
    np.testing.assert_array_equal(seen.features, features)
    np.testing.assert_array_equal(seen.boxes, boxes.astype(np.float32))
    assert seen.boxes.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_id": "a/b"}, "an image id that names a file is expected, without folders"),
        (
            {"boxes": [[0, 0, 1, 1]] * 2},
            "boxes of shape (2, 4) in an image of 9 x 8; (1, 4) in pixels is expected",
        ),
        (
            {"size": (9, -1)},
            "boxes of shape (1, 4) in an image of 9 x -1; (1, 4) in pixels is expected",
        ),
        ({"confidence": [1, 2]}, "conf is not one number for each of the 1 regions"),
    ],
)
def test_what_cannot_be_written_is_raises_exactly(change, message, tmp_path):
    arguments = {"image_id": "1", "features": [[0.5]], "boxes": [[0, 0, 1, 1]], "size": (9, 8)}
    arguments |= change
    with raises_exactly(f"region features of '{arguments['image_id']}': {message}"):
        write_regions(tmp_path, **arguments)


def test_written_files_hold_the_surest_regions_in_order(tmp_path):
    features = np.arange(12.0)[:, None]
    boxes = np.array([[k, 1, k + 2, 5] for k in range(12)])
    confidence = [0.1, 0.9, 0.9, *[0.3] * 8, 0.95]
    path = write_regions(tmp_path / "a" / "b", "x.jpg", features, boxes, (16, 8), confidence)
    order = [11, 1, 2, *range(3, 11)]  # eleven are surer than 0.2
    with np.load(path) as file:
        assert sorted(file.files) == ["img_feat", "img_pos_feat"]
        assert file["img_feat"].ravel().tolist() == order
        assert file["img_pos_feat"].tolist() == [
            [k / 16, 1 / 8, (k + 2) / 16, 5 / 8, 2 / 16, 4 / 8, 1 / 16] for k in order
        ]
        assert file["img_pos_feat"].dtype == np.float32
    path = write_regions(tmp_path, "y", features, boxes, (0.5, 8))
    with np.load(path) as file:
        assert file["img_feat"].ravel().tolist() == list(range(12))
        assert file["img_pos_feat"][0].tolist() == [0, 0.125, 4, 0.625, 4, 0.5, 2]


def test_the_hash_is_of_all_names_and_contents(tmp_path):
    texts = {"b.npz": b"b", "a/c.npz": b"c", "feat_x/data.mdb": b"d", "nbb_x.json": b"e"}
    touch(tmp_path, *texts, "more.txt", "feat_x/lock.mdb")
    for name, content in texts.items():
        (tmp_path / name).write_bytes(content)
    digest = hashlib.sha256()
    for name in ("a/c.npz", "b.npz", "feat_x/data.mdb", "nbb_x.json"):
        digest.update(f"{Path(name).name}:".encode() + hashlib.sha256(texts[name]).digest())
    assert hash_regions(tmp_path) == f"sha256-{digest.hexdigest()}"
