"""Measure the share of UMIC's time that its network takes: the metric beside bare forward passes.

    python scripts/benchmark_raters.py                       # base size, random weights, CPU
    python scripts/benchmark_raters.py --captions 32 --layers 2 --repeat 5

The metric reads features, splits captions into word pieces, sorts pairs by length and pads them. The
bare passes are over the same batches, padded before the clock starts: captau's network, and transformers'
BertModel of the same size on states of the same lengths. Medians of CPU seconds over turns, and ratios.
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
import pandas as pd


def measure(work: Callable[[], Any], times: list[float]) -> None:
    """Run `work` and append its CPU seconds to `times`."""
    start = time.process_time()
    work()
    times.append(time.process_time() - start)


def write_inputs(folder: Path, captions: int, layers: int, vocabulary: list[str]) -> pd.DataFrame:
    """Write a checkpoint at base size and features of images with 10 to 100 regions.

    Returns:
        items, with captions of COCO's length.
    """
    import torch

    from captau.metrics.learned.umic._uniter_network import Uniter, UniterSizes
    from captau.metrics.learned.umic.checkpoints import save_uniter
    from captau.metrics.learned.umic.regions import write_regions

    torch.manual_seed(0)
    sizes = UniterSizes(768, layers, 12, 3072, len(vocabulary), 512, 2048)
    save_uniter(Uniter(sizes), folder / "umic.safetensors")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary))
    rng = np.random.default_rng(0)
    rows: list[dict[str, str]] = []
    words = vocabulary[5:]
    for number in range(-(-captions // 4)):  # four captions an image, as in CapEval1k
        n_regions = int(np.clip(rng.normal(36, 15), 10, 100))
        boxes = np.sort(rng.uniform(0, 500, size=(n_regions, 4)))
        features = rng.normal(size=(n_regions, 2048)).astype(np.float16)
        write_regions(folder / "img_db", str(number), features, boxes, (500, 500))
        for _ in range(4):
            text = " ".join(rng.choice(words, size=int(np.clip(rng.normal(10.5, 2.5), 5, 30))))
            rows.append({"image_id": str(number), "caption": text})
    return pd.DataFrame(rows[:captions])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--captions", type=int, default=256)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()

    import torch
    from transformers import BertConfig, BertModel

    from captau.metrics.learned.umic import scoring
    from captau.metrics.learned.umic.checkpoints import load_uniter
    from captau.metrics.registry import metric

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(28991))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["CAPTAU_WEIGHTS"] = name
        items = write_inputs(folder, options.captions, options.layers, vocabulary)
        umic = metric(f"umic(batch_size={options.batch_size},device=cpu)")

        # The batches that the metric makes, in its order, as they reach the network.
        batches: list[Any] = []
        collate = scoring.collate

        def record_batch(*arguments: Any) -> Any:
            batches.append(collate(*arguments))
            return batches[-1]

        scoring.collate = record_batch
        scores = umic.score(items)
        scoring.collate = collate
        network = load_uniter(folder / "umic.safetensors", "rank")
        config = BertConfig(num_hidden_layers=options.layers, vocab_size=28996)
        bert = BertModel(config, add_pooling_layer=False).eval()
        lengths = [batch[1] + batch[4] for batch in batches]
        states = [torch.randn(len(n), int(n.max()), 768) for n in lengths]
        masks = [(torch.arange(int(n.max())) < n[:, None]).long() for n in lengths]

        def run_network() -> None:
            with torch.inference_mode():
                for batch in batches:
                    network.rank_output(network(*batch))

        def run_bert() -> None:
            with torch.inference_mode():
                for state, mask in zip(states, masks, strict=True):
                    bert(inputs_embeds=state, attention_mask=mask)

        times: dict[str, list[float]] = {k: [] for k in ("umic", "network", "bert", "load")}
        for _ in range(options.repeat):
            measure(lambda: load_uniter(folder / "umic.safetensors", "rank"), times["load"])
            measure(run_bert, times["bert"])
            measure(run_network, times["network"])
            measure(lambda: umic.score(items), times["umic"])
        assert np.isfinite(scores).all()
        median = {k: statistics.median(v) for k, v in times.items()}
        # A checkpoint is read once, however many captions there are.
        seconds = median["umic"] - median["load"]
        print(f"{len(items)} captions, {options.layers} layers, batches of {options.batch_size}")
        print(f"{'metric umic, without reading its checkpoint':48} {seconds:8.2f} s CPU")
        for label, key in (("bare network", "network"), ("bare BertModel of transformers", "bert")):
            ratio = median[key] / seconds
            print(f"{label:48} {median[key]:8.2f} s CPU   throughput of umic: {ratio:.3f} of it")


if __name__ == "__main__":
    main()
