"""METEOR's parameters by language, and the choices that go with one.

`LANGUAGES` are the parameters that METEOR's jar holds for each language (Denkowski and Lavie 2014, tuned to rank). It has
function words for English, Czech, French, German, Russian and Spanish, and a stemmer for these but Czech. `other` has METEOR's
parameters for any language: equal words count, and all words alike.
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
        if self.is_normalised:
            options.append("-norm")
        if self.paraphrases:
            options += ["-a", str(self.paraphrases)]

        # By itself the jar uses all modules, which it has for English alone.
        if name != "english":
            modules = ["exact"]
            if name not in ("czech", "other"):
                modules.append("stem")
            if self.paraphrases:
                modules.append("paraphrase")
            options += ["-m", " ".join(modules)]

        return tuple(options)


#: METEOR as the COCO server runs it.
ENGLISH = Setting()
