"""Compare our PTB tokeniser with the Java one on captions, references and made-up awkward texts.

    python scripts/checks/check_tokenizer.py [DATASET ...] [--texts FILE ...] [--fuzz N] [--seed S]

Without names, all datasets under --data-root are read. Files of --texts have a text a line. The script prints
the numbers of texts and of differences, the differing texts with both results, and the texts that each
tokenises in a second of CPU time, Java's start included. Its exit status is 1 if any text differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import captau
from captau.datasets.errors import InputError
from captau.datasets.registry import names
from captau.metrics.text.tokens import penn, penn_rules, ptb

#: Texts that one Java receives.
CHUNK = 50_000

CAPTIONS = """
A man in a blue shirt is standing on a ladder cleaning a window.
Two dogs play, and a third (brown) one watches: it's the owner's.
A woman's hand holds a "Pub" sign that reads No. 5, St. James's St.
The U.S. flag flies at 5:30 p.m. over the 1/2-acre lot near Mt. Fuji.
people cannot see the t-shirt's black-and-white print
Mr. and Mrs. Smith, Jr. paid $3,000.50 for a 1950s car in Jan. 2012.
""".strip().splitlines()

# \xNN and \uNNNN stand for the characters that cannot be seen.
_ESCAPE = re.compile(r"\\[xu]([0-9a-f]{4}|[0-9a-f]{2})")
_FRAGMENTS = r"""
don't cannot gonna gotta lemme gimme wanna 'tis 'twas d'ye d'you c'mon o'clock O'Neill y'all y'know 'em 'til 'till
'cause ol' e'er ma'am rock'n'roll 'n' n't can't won't ain't he'll I'm we've they're dogs' dog's DOG'S it's MARIO'S James's '90s
90's '99 '50s l'amour D'Artagnan qu'il Shi'ite cont'd nor'easter s'mores ev'ry li'l nat'l O'o Cap'n c'est Dunkin' somethin' donʼt don’t
don‘t don`t it’s &apos;s &apos; &quot; &amp; &AMP; &lt; &gt; &nbsp; &mdash; &ndash; &MD; &HT; &odq; &#39; &eacute; caf&eacute; &auml;n
Mr. Mrs. Dr. Jr. Ph.D. Ph.D Ed.D. etc. vs. vs al. Inc. Co. Corp. Ltd. Pty. Pte. pt. co. ltd lim St. Ave. Mt. No. no. Nos. fig. Figs. pp.
p. P. art. ca. Prop. Bldg. Jan. jan. Sept. may. May. Tues. Sat. Calif. Mass. mass. Miss. miss. Ill. ill. Ore. Wash. wash. Tex. Del. La. Pa. Me.
U.S. U.S U.K. U.S.-U.K. U.S.S.R. Canada-U.S. non-U.S. a.m. p.m. A.M. i.e. e.g. a.k.a. C.D.s S.p.A. I. A. t. U. J.R.R. x.y. dog.cat dog.Cat T.V
About The the A And He It's One 5 25 1995 3,000 3.14 1,2,3 .5 -5 +5 5. 5% $5 $5.50 US$5 A$ #5 #tag #1 C# c# F# C++ c++ £5 5¢ €10 ¥ ¤ \x80
1/2 1\/2 ½ 1½ 1 1/2 3-1/2 ¾ ⅓ ⅔ ⅛ 10/12/99 10-12-1999 1-2-3 12:30 12:30pm 1.2.3.4 555-1212 (617) 555-1212 617-555-1212 +1 617 555 1212
++44 20 7946 0958 617.555.1212 (02) 1234 5678 x² m³ H₂O ⁺² ₁₂ 10⁻³ 20° 2nd 1st 21st-century B2B mp3 3D 4x4 4x4x4 24/7 and/or he/she w/ w/o
km/h a/b/c A-B/C-D a\/b http://x.com http://www.foo.org/bar?baz=1&x=(y) https://a.b/c. www.example.com www.a.b.c/d, example.com foo.edu a.b.net
x@y.z me@example.com. <me@x.org> &lt;a@b.c&gt; a.b@c-d.e @user @user_1 @@ @ file.txt file.tar.gz photo.jpg, a.c index.html! x.py?
<b> </b> <br/> <br /> <a href="x y"> <a href='x' b = "y"> <!-- note --> <!doctype html> <?xml?> <a b=" <a b=' <b < > << >> <3 <- -> =>
:) :-) :( ;) :D :-D :P :p :o :O =) =D :\ :@ :| :] :} 8) <:) >:( :'( :*) ^_^ -_- >_< (^_^) (-.-) (^-^) (o_o) x.[^x=~<>] =.[^x= <>] T_T xD
... .... ..... ...... . . . . . .. … –— -- --- ---- ----- - – — ― ‐ ‑ _ __ a_b a-b a--b pro- anti- pro-life -LRB- -rrb- -LSB- S&P-500
S&P S&amp;P AT&T AT&amp;T R&D B&B A+B Q&A A&B. & % ^ ~ | || ||| + * ** *** \* \*\* \\ / // = == === ! !! ? ?? ?! !? ... , ,, ; : :: " "" ' '' ` ``
“quoted” ‘single’ «guillemets» ‹x› „low“ ‚x‘ ‟ ‛ \x91x\x92 \x93x\x94 \x85 \x96 \x97 ( ) [ ] { } (a) [b] {c} ( a )
naïve café Ünïcödé İstanbul ı ſ K ΑΣ ΣΑΣ ΟΔΟΣ. Σ Σ' ß ẞ ŉ ǅ ﬁ 狗 犬。 、 ， 개 собака كلب ב״ה हिन्दी ไทย ၁၂ ٣٫٥ ١٢٣ ۱۲ ०१ Ⅻ Ⓐ ⓐ № ™ © ® § ¶ • · …
🐕 🏞️ 👩‍👩‍👧 🇺🇸 ❤️ ☺ → ⇒ ∞ ≤ 𝒜𝒷 𐐀 𝟘 \xad so\xadft \xad\xad a\xad's \xada\xad-\xadb \u200b a\u200bb \u200d \u200e \ufeff \u2060 \u00a0 a\u00a0b 5\u00a01/2 \u2009 \u3000
\x09 \x00 \x01 \x07 \x1b \x7f \x80 \x9f \ufffd \uffff \ufdd0 \ue000 e\u0301 \u0301 a\u0308 \u05be \u0964 \u060c \u06d4 \u0589 \u055a \u30fb ｆｕｌｌ ！ ＄ １２
"""
_CAPITALS = "ΣΣΣΑαabZİ'-_&%#$,:;/!01Ⅷ²\u0301\u0345\u02b0\u02c2\u2027’\u0964かカ漢ー\u200d①𝒜𐐀🐕\ufe0f\u2011~ʼª·"
FRAGMENTS = [_ESCAPE.sub(lambda m: chr(int(m[1], 16)), f) for f in _FRAGMENTS.split()]


@cache
def _alphabet() -> list[str]:
    """Return a few characters of each kind that the grammar tells apart."""
    kinds: dict[Any, list[str]] = {}
    grammar = penn.lexer().machine.grammar
    for code in range(0x10000):
        if not 0xD800 <= code < 0xE000:
            kinds.setdefault(grammar.kind(chr(code)), []).append(chr(code))
    dice = random.Random(0)
    return [c for chars in kinds.values() for c in dice.sample(chars, min(2, len(chars)))]


def _walk(dice: random.Random) -> str:
    """Make a text of characters that the grammar can go on with, so that every rule is reached."""
    state, text = penn.lexer().machine.start, ""
    while dice.random() < 0.93 and len(text) < 40:
        candidates = [c for c in dice.sample(_alphabet(), 40) if state[c] is not None]
        if not candidates:
            break
        char = dice.choice(candidates)
        following = state[char]
        assert following is not None
        state, text = following, text + char
    return text


def _character(dice: random.Random) -> str:
    block = dice.choice([0x80, 0x100, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
    char = chr(dice.randrange(block))
    return " " if "\ud800" <= char <= "\udfff" else char


def _mixture(dice: random.Random) -> str:
    """Join fragments, with or without blanks between them."""
    glue = dice.choice(["", " ", " ", ".", "-", "'", ", ", "/", "\u00a0"])
    parts = [dice.choice(FRAGMENTS) for _ in range(dice.randint(1, 7))]
    parts = [p.upper() if dice.random() < 0.1 else p for p in parts]
    return (
        glue.join(parts)
        if dice.random() < 0.7
        else "".join(p + dice.choice(["", " "]) for p in parts)
    )


def _walks(dice: random.Random) -> str:
    return dice.choice(["", " ", " ", "."]).join(_walk(dice) for _ in range(dice.randint(1, 4)))


def _address(dice: random.Random) -> str:
    """Put capitals into an e-mail address, which may have nearly any: all that lower case must know."""
    characters = [
        dice.choice(_CAPITALS) if dice.random() < 0.9 else _character(dice) for _ in range(7)
    ]
    return "a@" + "".join(characters)


def _noise(dice: random.Random) -> str:
    return "".join(_character(dice) for _ in range(dice.randint(1, 12)))


def _mutation(dice: random.Random) -> str:
    """Return a caption with characters lost, doubled, changed in case or inserted."""
    text = list(dice.choice(CAPTIONS))
    for _ in range(dice.randint(1, 6)):
        place = dice.randrange(len(text))
        match dice.randrange(5):
            case 0:
                text[place] = ""
            case 1:
                text[place] *= 2
            case 2:
                text[place] = text[place].swapcase()
            case 3:
                text[place] += dice.choice(FRAGMENTS)
            case _:
                text[place] = chr(dice.randrange(32, 127))
    return "".join(text)


def _ascii(dice: random.Random) -> str:
    """Put up to four ASCII characters inside or between words."""
    word, next_word = dice.choice(CAPTIONS).split()[:2]
    run = "".join(chr(dice.randrange(32, 127)) for _ in range(dice.randint(1, 4)))
    return f"{word}{dice.choice(['', ' '])}{run}{dice.choice(['', ' '])}{next_word}"


@cache
def _words() -> list[str]:
    words = [*penn_rules.ENDING, *penn_rules.LEADING, *penn_rules.NUMBERED, *penn_rules.OPENERS]
    words += [*penn_rules.CONTRACTED, *penn_rules.EXTENSIONS, "cannot", "s", "t", "pro", "anti"]
    return [re.sub(r"[\[\]\\]", "", word) for word in words] + CAPTIONS[0].split() + list("abnoyIA")


def _plain(dice: random.Random) -> str:
    """Join words, special ones among them, figures and simple marks, as the short cut reads them."""
    text = ""
    for _ in range(dice.randint(1, 8)):
        word = dice.choice(_words())
        word = dice.choice(
            [word, word, word.lower(), word.upper(), f"{word}-{dice.choice(_words())}"]
        )
        word = dice.choice([word] * 6 + [word + "'s", word + "n't", str(dice.randrange(20000))])
        text += (
            word
            + dice.choice([""] * 4 + list(",.;:!?"))
            + dice.choice([" "] * 8 + ["", "  ", " . ", " , "])
        )
    return text if dice.random() < 0.5 else text.strip()


KINDS: list[Callable[[random.Random], str]] = [
    _mixture, _walks, _noise, _address, _mutation, _ascii, _plain,
]  # fmt: skip


def fuzz(seed: int) -> Iterator[str]:
    """Yield awkward texts without end, the same for the same seed."""
    dice = random.Random(seed)
    text_before = ""
    while True:
        text = dice.choice(KINDS)(dice)
        if dice.random() < 0.1:
            text = text_before + dice.choice(["", " "]) + text
        text_before = text[:80]
        yield text


def pairs() -> Iterator[str]:
    """Yield every pair of ASCII characters: inside a word, between words, by itself."""
    visible = [chr(c) for c in range(32, 127)]
    for run in (a + b for a in visible for b in visible):
        yield from (f"dog{run}cat", f"dog {run} Cat", run, f"1{run}2", f"The {run}cat")


def captions(name: str, root: Path) -> Iterator[str]:
    """Yield the captions and references of a dataset."""
    items = captau.load(name, root).items
    yield from items["caption"]
    for references in items["references"]:
        yield from references


def texts_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or all texts of a JSON file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".json":
        yield from _strings(json.loads(text))
    elif path.suffix == ".jsonl":
        yield from (s for line in text.splitlines() for s in _strings(json.loads(line)))
    else:
        yield from text.split("\n")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def compare(texts: Iterable[str]) -> tuple[int, list[tuple[str, str, str]], str]:
    """Compare the tokens of distinct texts by both tokenisers.

    Returns:
        the number of distinct texts; the text, our tokens and Java's of those that differ; the speeds.
    """
    distinct = iter(dict.fromkeys(texts))
    total, differences = 0, list[tuple[str, str, str]]()
    seconds = dict.fromkeys(["captau", "its rules alone", "Java"], 0.0)

    def measure(name: str, tokenize: Callable[[], list[str]]) -> list[str]:
        start = sum(os.times()[:4])
        tokens = tokenize()
        seconds[name] += sum(os.times()[:4]) - start
        return tokens

    while chunk := list(islice(distinct, CHUNK)):
        own_tokens = measure("captau", lambda: ptb.tokenize(chunk))
        # The short cut must not hide a difference of the rules.
        rule_tokens = measure(
            "its rules alone", lambda: [ptb.tokenize_by_rules(text) for text in chunk]
        )
        java_tokens = measure("Java", lambda: ptb.tokenize(chunk, "pycocoevalcap"))
        total += len(chunk)
        for text, own, by_rules, java in zip(
            chunk, own_tokens, rule_tokens, java_tokens, strict=True
        ):
            if not own == by_rules == java:
                differences.append((text, own if own != java else by_rules, java))
    speed = ", ".join(f"{name} {total / t:,.0f}" for name, t in seconds.items() if t)
    return total, differences, speed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--data-root", type=Path, default=os.environ.get("CAPTAU_DATA"))
    parser.add_argument("--texts", nargs="*", type=Path, default=[])
    parser.add_argument("--fuzz", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.data_root is None:
        parser.error("--data-root is needed where CAPTAU_DATA is not set")
    root = Path(arguments.data_root)

    sources: dict[str, Iterable[str]] = {}
    for name in arguments.datasets or names():
        try:
            sources[name] = list(captions(name, root))
        except InputError as error:
            if arguments.datasets:
                parser.error(str(error))
    sources |= {str(path): texts_of(path) for path in arguments.texts}
    sources["every pair of ASCII characters"] = pairs()
    sources[f"made up, seed {arguments.seed}"] = islice(fuzz(arguments.seed), arguments.fuzz)

    penn.lexer()
    n_differences = 0
    for name, texts in sources.items():
        total, differences, speed = compare(texts)
        n_differences += len(differences)
        print(f"{name}: {total:,} distinct texts, {len(differences):,} differ", flush=True)
        print(f"  texts a second of CPU time: {speed}", flush=True)
        for text, own, java in differences:
            print(f"  {text!a}\n    ours: {own!a}\n    Java: {java!a}")
    sys.exit(n_differences > 0)


if __name__ == "__main__":
    main()
