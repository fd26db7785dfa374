"""METEOR's languages: the parameters that its jar holds for each, and what it matches besides equal words.

Denkowski and Lavie 2014, tuned to rank. The jar has function words for English, Czech, French, German, Russian
and Spanish, and a stemmer for these but Czech. `other` has METEOR's parameters for any language: equal words
count, and all words alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Code = Literal["auto", "en", "cs", "de", "es", "fr", "ru", "other"]


@dataclass(frozen=True)
class MeteorLanguage:
    """The parameters of a language.

    Attributes:
        name: as the jar's files are named.
        alpha: the weight of recall.
        beta, gamma: the shape of the penalty for fragments.
        delta: the weight of content words, the rest being that of function words.
        weights: of words that match exactly, by their stem, as synonyms, within a paraphrase.
    """

    name: str
    alpha: float
    beta: float
    gamma: float
    delta: float
    weights: tuple[float, float, float, float]


#: By the code that METEOR's parameter `language` takes.
LANGUAGES: dict[str, MeteorLanguage] = {
    "en": MeteorLanguage("english", 0.85, 0.2, 0.6, 0.75, (1.0, 0.6, 0.8, 0.6)),
    "cs": MeteorLanguage("czech", 0.95, 0.2, 0.6, 0.8, (1.0, 0.0, 0.0, 0.4)),
    "de": MeteorLanguage("german", 0.95, 1.0, 0.55, 0.55, (1.0, 0.8, 0.0, 0.2)),
    "es": MeteorLanguage("spanish", 0.65, 1.3, 0.5, 0.8, (1.0, 0.8, 0.0, 0.6)),
    "fr": MeteorLanguage("french", 0.9, 1.4, 0.6, 0.65, (1.0, 0.2, 0.0, 0.4)),
    "ru": MeteorLanguage("russian", 0.75, 1.4, 0.7, 0.5, (1.0, 0.5, 0.0, 0.5)),
    # Paraphrases match, and weigh nothing: the Java program has a weight for exact matches alone.
    "other": MeteorLanguage("other", 0.75, 1.4, 0.7, 0.5, (1.0, 0.0, 0.0, 0.0)),
}


@dataclass(frozen=True)
class Setting:
    """A language with the choices that the aligner and the Java program are started with.

    Attributes:
        is_normalised: whether tokens are normalised once more (METEOR's option `-norm`).
        paraphrases: a file of METEOR's paraphrases; None for pycocoevalcap's in English, and for none elsewhere.
    """

    language: MeteorLanguage = LANGUAGES["en"]
    is_normalised: bool = True
    paraphrases: Path | None = None

    @property
    def jar_options(self) -> tuple[str, ...]:
        """The options of the Java program."""
        name = self.language.name
        options = ["-l", "en" if name == "english" else name]
        options += ["-norm"] if self.is_normalised else []
        options += ["-a", str(self.paraphrases)] if self.paraphrases else []
        if name != "english":
            modules = ["exact", *(["stem"] if name not in ("czech", "other") else [])]
            options += ["-m", " ".join([*modules, *(["paraphrase"] if self.paraphrases else [])])]
        return tuple(options)


#: METEOR as the COCO server runs it.
ENGLISH = Setting()
