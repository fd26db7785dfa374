"""The input files of `compare_results.py`, made by rule, and the challenge that it plays."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import time
import zipfile
from pathlib import Path

import pandas as pd
import requests

ROOT = Path(__file__).parents[2]
IMAGES = 1500
PASSWORD = "correct horse battery"


def write_inputs(folder: Path, demo_run: Path) -> None:
    """Write all input files: the demo's from a finished `bench` of it, the others from CAPTAU_DATA."""
    data = Path(os.environ["CAPTAU_DATA"])
    items = pd.read_parquet(demo_run / "items.parquet")
    write_demo_captions(folder, items)
    write_demo_scores(folder, items)
    write_own_ratings(folder, items, pd.read_parquet(demo_run / "ratings.parquet"))
    write_baselines(folder)
    if (data / "coco").exists():
        write_coco(folder, json.loads((data / "coco/karpathy_test_references.json").read_text()))
    if (data / "caption_quality").exists():
        write_caption_quality(folder, data / "caption_quality/OID-rated-image-captions.v1.dev.tsv")


def write_json(path: Path, content: object) -> None:
    """Write a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    """Write JSON lines, compressed where the name ends in .gz."""
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def results_of(captions: dict[str, str]) -> list[dict[str, object]]:
    """Return captions by image in the COCO result format."""
    return [{"image_id": image, "caption": caption} for image, caption in captions.items()]


def write_demo_captions(folder: Path, items: pd.DataFrame) -> None:
    """Write the demo's references and captions, each system's alone and all as a large set."""
    references = {row.image_id: list(row.references) for row in items.itertuples()}
    write_json(folder / "demo_references.json", references)
    few = items.loc[items["split"] == "validation", "image_id"].unique()
    write_json(folder / "few_references.json", {image: references[image] for image in few})
    captions = dict(zip(items["image_id"], items["caption"], strict=True))
    write_json(folder / "few_captions.json", {image: captions[image] for image in few})
    for system, rows in items.groupby("system"):
        captions = dict(zip(rows["image_id"], rows["caption"], strict=True))
        write_json(folder / f"demo_{system}.json", results_of(captions))
    faulty = results_of(dict(zip(items["image_id"], items["caption"], strict=True)))
    faulty[1]["caption"] = " . "
    write_json(
        folder / "faulty.json",
        [*faulty[:-2], faulty[0], {"image_id": "unknown.png", "caption": "a"}],
    )
    large = items[["image_id", "caption", "references"]].to_dict("records")
    write_lines(
        folder / "demo_captions.jsonl",
        [{**row, "references": list(row["references"])} for row in large],
    )


def write_demo_scores(folder: Path, items: pd.DataFrame) -> None:
    """Write the number of words as scores, a file with faults, and the metric as a Python module."""
    scores = items["caption"].str.split().str.len()
    table = items[["item_id"]].assign(score=scores)
    table.to_csv(folder / "demo_scores.csv", index=False)
    faulty = pd.concat([table.iloc[1:], table.iloc[[5]]])
    faulty.to_csv(folder / "faulty_scores.csv", index=False)
    (folder / "word_count.py").write_text(
        "def score(items):\n    return [len(caption.split()) for caption in items['caption']]\n"
    )


def write_own_ratings(folder: Path, items: pd.DataFrame, ratings: pd.DataFrame) -> None:
    """Write the demo's ratings as somebody's own table."""
    table = ratings.merge(items, on="item_id")
    pd.DataFrame(
        {
            "img": table["image_id"],
            "text": table["caption"],
            "refs": [json.dumps(list(texts)) for texts in table["references"]],
            "system": table["system"],
            "who": table["rater"],
            "what": table["dimension"],
            "score": table["value"].astype(int),
        }
    ).to_csv(folder / "ratings.csv", index=False)


def write_baselines(folder: Path) -> None:
    """Copy the golden baselines, and write one with a score that has moved."""
    shutil.copytree(
        ROOT / "results" / "golden", folder / "golden", ignore=shutil.ignore_patterns("__*")
    )
    text = (folder / "golden" / "demo.yaml").read_text()
    head, tail = text.split("  cider:\n", 1)
    tail = re.sub(r"mean: ([\d.]+)", lambda match: f"mean: {float(match[1]) + 0.01}", tail, count=1)
    (folder / "moved.yaml").write_text(f"{head}  cider:\n{tail}")


def write_coco(folder: Path, captions: dict[str, list[str]]) -> None:
    """Write references, two systems' captions and shards from COCO's references."""
    captions = {
        image: [" ".join(t.split()) for t in texts[:5]] for image, texts in captions.items()
    }
    images = [image for image, texts in captions.items() if len(texts) == 5][:IMAGES]
    write_json(folder / "all_references.json", {i: captions[i] for i in images})
    write_json(folder / "references.json", {i: captions[i][:4] for i in images})
    write_json(folder / "references_2.json", {i: captions[i][:2] for i in images})
    system_a = {i: captions[i][4] for i in images}
    following = dict(zip(images, images[1:] + images[:1], strict=True))
    system_b = {i: captions[following[i] if k % 3 == 0 else i][k % 4] for k, i in enumerate(images)}
    write_json(folder / "system_a.json", results_of(system_a))
    write_lines(folder / "system_b.jsonl", results_of(system_b))
    write_json(folder / "system_partial.json", dict(list(system_a.items())[:1000]))
    entry = zipfile.ZipInfo("captions_val2014_mine_results.json")
    with zipfile.ZipFile(folder / "captions_val2014_mine_results.zip", "w") as archive:
        archive.writestr(entry, json.dumps(results_of(system_b)))
    words = [
        {
            "image_id": i,
            "word": word,
            "score": sum(word in t.split() for t in captions[i][:3]) + k / 1e4,
        }
        for word in ("man", "dog", "tennis")
        for k, i in enumerate(images)
    ]
    pd.DataFrame(words).to_csv(folder / "word_scores.csv", index=False)
    rows = [
        {"image_id": i, "caption": system[i], "references": captions[i][:4]}
        for system in (system_a, system_b)
        for i in images
    ]
    (folder / "shards").mkdir()
    pd.DataFrame(rows[:1100]).to_parquet(folder / "shards" / "a.parquet")
    write_lines(folder / "shards" / "b.jsonl", rows[1100:2000])
    write_lines(folder / "shards" / "c.jsonl.gz", rows[2000:])


def write_caption_quality(folder: Path, source: Path) -> None:
    """Write Caption-Quality's development fold as three folds of images, and captions' lengths as scores."""
    table = pd.read_csv(source, sep="\t", dtype=str, keep_default_na=False)
    target = folder / "data" / "caption_quality"
    target.mkdir(parents=True)
    place = pd.factorize(table["IMAGE_KEY"])[0] % 3
    for number, fold in enumerate(("train", "dev", "test")):
        name = source.name.replace(".dev.", f".{fold}.")
        table[place == number].to_csv(target / name, sep="\t", index=False)
    scores = pd.DataFrame({"image_id": table["IMAGE_KEY"], "caption": table["CAPTION_PRED"]})
    scores = scores.drop_duplicates().assign(score=lambda rows: rows["caption"].str.len())
    scores.to_csv(folder / "quality_scores.csv", index=False)


def play_challenge(folder: Path, captau: Path, environment: dict[str, str]) -> int:
    """Serve the demo challenges, submit captions and scores for two teams, and keep the boards.

    Returns:
        The exit status of the last submission.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    environment = {**environment, "CAPTAU_ADMIN_PASSWORD": PASSWORD}
    command = [str(captau), "serve", "challenge=demo", "database=site.sqlite3", f"port={port}"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            wait_for(f"{url}/api/challenges", server)
            status = submit_all(folder, captau, environment, url)
            save_answers(folder, url)
        finally:
            stop(server)
    return status


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server and its workers."""
    server.terminate()
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        server.kill()


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Return when the address answers; raise an error where the server ends or needs two minutes."""
    for _ in range(240):
        if server.poll() is not None:
            raise RuntimeError(
                f"captau serve ended with status {server.returncode}; see server.log"
            )
        try:
            if requests.get(url, timeout=10).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"{url} does not answer")


def submit_all(folder: Path, captau: Path, environment: dict[str, str], url: str) -> int:
    """Submit three files of one team and two of another with `captau submit`, one after the other."""
    status = 0
    inputs = folder.parent / "inputs"
    for team, files in {
        "red": ["demo_exact.json", "demo_terse.json", "demo_scores.csv"],
        "blue": ["demo_wrong_colour.json", "faulty.json"],
    }.items():
        token = make_token(url, team)
        for name in files:
            challenge = "demo_metrics" if name.endswith(".csv") else "demo_captions"
            command = [str(captau), "submit", str(inputs / name), f"challenge={challenge}"]
            with (folder / f"submit_{team}_{name}.txt").open("wb") as output:
                status = subprocess.run(
                    [*command, f"url={url}", f"system={Path(name).stem}"],
                    cwd=folder,
                    env={**environment, "CAPTAU_TOKEN": token},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=600,
                    check=False,
                ).returncode
        headers = {"authorization": f"Bearer {token}"}
        answer = requests.get(f"{url}/api/submissions", headers=headers, timeout=30).json()
        write_json(folder / f"submissions_{team}.json", answer)
    return status


def make_token(url: str, team: str) -> str:
    """Return the token of a new account with a team of its own."""
    session = requests.Session()

    def send(page: str, path: str, **fields: str) -> str:
        html = session.get(url + page, timeout=30).text
        token = "".join(re.findall(r'name="token" value="([^"]+)"', html)[:1])
        return session.post(url + path, {"token": token, **fields}, timeout=30).text

    send("/signup", "/signup", name=team, team=team, code="", password=PASSWORD, again=PASSWORD)
    tokens = re.findall(r"captau_[\w-]{20,}", send("/account", "/account/tokens", label="test"))
    if not tokens:
        raise RuntimeError(f"the account's page shows no token for {team}")
    return tokens[0]


def save_answers(folder: Path, url: str) -> None:
    """Save the challenges, their items and their boards."""
    for path, name in (
        ("/api/challenges", "challenges.json"),
        ("/api/challenges/demo_captions/items", "items_captions.jsonl"),
        ("/api/challenges/demo_metrics/items", "items_metrics.jsonl"),
        ("/challenges/demo_captions/board.json", "board_captions.json"),
        ("/challenges/demo_captions/board.csv?which=all", "board_captions.csv"),
        ("/challenges/demo_metrics/board.json", "board_metrics.json"),
        ("/challenges/demo_metrics/board.csv", "board_metrics.csv"),
    ):
        answer = requests.get(url + path, timeout=60)
        answer.raise_for_status()
        (folder / name).write_bytes(answer.content)
