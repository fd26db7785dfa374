"""A language model on this machine, asked as an endpoint is, which answers in the same form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ....datasets.errors import InputError
from ..models import check_keys, transformers_hash
from .answers import Answer, AnswerStore
from .endpoint import Question


@dataclass
class LocalChat:
    """A transformers model with its chat template; greedy, one question at a time.

    Args:
        folder: the model's.
        device: where it runs: cpu, cuda or mps.
        max_tokens: how long an answer may be.
        top_logprobs: how many of the likeliest tokens are told at each place.
        images: whether questions have images.
        answers: where answers are kept.
    """

    folder: Path
    device: str
    max_tokens: int
    top_logprobs: int
    images: bool
    answers: AnswerStore

    def ask(
        self,
        questions: Sequence[Question],
        label: Callable[[int], str],
        done: Callable[[int], None],
    ) -> list[Answer]:
        """Return the answers, in the order of the questions; see `Endpoint.ask`.

        Raises:
            InputError: where the model cannot be loaded, or an image not be read.
        """
        model = {
            "weights": transformers_hash(self.folder),
            "device": self.device,
            "max_tokens": self.max_tokens,
            "top_logprobs": self.top_logprobs,
        }

        answers: list[Answer] = []
        for i, question in enumerate(questions):
            identity = {**model, **question.identity}
            answer = self.answers.get(identity)
            if answer is None:
                try:
                    answer = self._answer(question)
                except InputError as error:
                    raise InputError(f"{label(i)}: {error}") from error
                self.answers.put(identity, answer)

            answers.append(answer)
            done(len(answers))

        return answers

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """The model, and its processor or tokenizer."""
        import torch
        import transformers

        if self.images:
            model_kind: Any = transformers.AutoModelForImageTextToText
            processor_kind: Any = transformers.AutoProcessor
        else:
            model_kind = transformers.AutoModelForCausalLM
            processor_kind = transformers.AutoTokenizer
        dtype: Any = torch.float32 if self.device == "cpu" else "auto"

        try:
            loaded: Any = model_kind.from_pretrained(
                self.folder, dtype=dtype, local_files_only=True, output_loading_info=True
            )
            processor: Any = processor_kind.from_pretrained(self.folder, local_files_only=True)
        # Those of transformers, safetensors and torch alike.
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(f"{self.folder}: the model cannot be loaded ({reason})") from error

        model, device_note = loaded
        check_keys(str(self.folder), device_note["missing_keys"], device_note["unexpected_keys"])

        return model.to(self.device).eval(), processor

    def _answer(self, question: Question) -> Answer:
        import torch

        model, processor = self._loaded
        tokenizer = getattr(processor, "tokenizer", processor)
        inputs = self._inputs(processor, question).to(self.device)
        # Some tokenizers of transformers 4 add it for no model.
        inputs.pop("token_type_ids", None)

        with torch.inference_mode():
            out = model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=self.max_tokens,
                output_logits=True,
                return_dict_in_generate=True,
            )

        tokens: list[dict[str, Any]] = []
        ids = out.sequences[0, -len(out.logits) :].tolist()

        for token, logits in zip(ids, out.logits, strict=True):
            if token in tokenizer.all_special_ids:
                break

            logprobs = torch.log_softmax(logits[0].float(), dim=-1)
            best = torch.topk(logprobs, min(self.top_logprobs, len(logprobs)))
            top = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            top_logprobs: list[dict[str, Any]] = []
            for likely, logprob in top:
                top_logprobs.append({"token": _text(tokenizer, likely), "logprob": logprob})
            tokens.append(
                {
                    "token": _text(tokenizer, token),
                    "logprob": float(logprobs[token]),
                    "top_logprobs": top_logprobs,
                }
            )

        content = "".join(t["token"] for t in tokens)
        return {"choices": [{"message": {"content": content}, "logprobs": {"content": tokens}}]}

    def _inputs(self, processor: Any, question: Question) -> Any:
        """Return the text as it stands, for a model without a chat template."""
        from PIL import Image

        content: Any = question.text
        if question.image is not None:
            try:
                with Image.open(question.image) as image:
                    picture = image.convert("RGB")
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
                raise InputError(f"{question.image}: not an image that can be read") from error
            content = [{"type": "image", "image": picture}, {"type": "text", "text": question.text}]
        elif not processor.chat_template:
            return processor(question.text, return_tensors="pt")

        return processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )


def _text(tokenizer: Any, token: int) -> str:
    """Return a token's own text, in which a blank before it is still there."""
    return str(tokenizer.convert_ids_to_tokens(token)).replace("▁", " ").replace("Ġ", " ")
