"""Train a tiny model of random weights with TRL's GRPO, and captau's mixture of CIDEr and ROUGE-L as the reward.

    pip install captau trl
    python scripts/examples/train_grpo.py

It shows what goes where and learns nothing of use: put your model, its tokeniser and your prompts in place of `make_model`
and `ROWS`. The document frequencies of CIDEr are counted on all references, once, before training.
"""

from __future__ import annotations

import tempfile
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportMissingImports]

import captau
from datasets import Dataset  # pyright: ignore[reportAttributeAccessIssue]

REFERENCES = {
    "1.jpg": ["a dog runs on grass", "the dog runs"],
    "2.jpg": ["a cat sleeps on a bed", "a cat on a bed"],
}
ROWS = [{"prompt": f"describe {image} :", "image_id": image} for image in REFERENCES]


def make_model() -> tuple[Any, Any]:
    """Return a language model with random weights and a tokeniser of the words that occur here."""
    texts = [text for texts in REFERENCES.values() for text in texts]
    words = sorted({w for t in [*texts, *(row["prompt"] for row in ROWS)] for w in t.split()})
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<eos>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    config = GPT2Config(
        vocab_size=len(vocabulary), n_positions=64, n_embd=32, n_layer=1, n_head=2,
        bos_token_id=1, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config), fast


def train(folder: str) -> Any:
    """Train for two steps, and return the trainer."""
    reward = captau.reward({"cider": 0.7, "rouge_l": 0.3}, REFERENCES, scale="unit")
    model, tokenizer = make_model()
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[reward.for_trl("image_id")],
        args=GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=8,
            max_steps=2,
            logging_steps=1,
            report_to="none",
            use_cpu=True,
            seed=0,
        ),
        train_dataset=Dataset.from_list(ROWS),
        processing_class=tokenizer,
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        for entry in train(directory).state.log_history:
            if "reward" in entry:
                print(f"step {entry['step']}: mean reward {entry['reward']:.3f}")
