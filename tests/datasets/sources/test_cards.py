"""What each card says, beside the data's README, the papers and the releases; each module is read anew."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from captau.datasets import registry
from captau.datasets.schema import Card, SourceFile
from captau.datasets.sources import coco_captions

FLAGS = ("synthetic", "needs_images", "partial", "anonymous_raters")
WORDS = ("alternative", "optional")
#: Where a split of Nebula or Polaris may lie besides, in each format.
HUB = """or {0}/{1}*.{2}
or {0}/{0}_{1}*.{2}
or {0}/data/{1}*.{2}
or {0}/data/{0}_{1}*.{2}
"""


def hub(name: str, split: str) -> str:
    return "".join(HUB.format(name, split, end) for end in ("parquet", "jsonl", "json", "csv"))


def long_captions(part: str, split: str) -> str:
    return "".join(
        f"""longcap_arena/dci_{part}.{kind}.parquet: split {split}, from data/dci_{part}.{kind}-*.parquet
or longcap_arena/default/dci_{part}.{kind}/*.parquet
or longcap_arena/data/dci_{part}.{kind}-*.parquet
or longcap_arena/{kind}_dci_{part}.csv
"""
        for kind in ("desc", "rel", "flu")
    )


VOCABULARY = (
    "capeval1k/bert-base-cased-vocab.txt: SHA-256, from cd5ef92a9fb2f889e972770a36d4ed042daf221e/"
    "vocab.txt"
)
COCO = "coco/karpathy_test_references.json: SHA-256, from test_captions/reference_captions.json"
FLICKR8K = "flickr8k/Flickr8k.token.txt: SHA-256, from Flickr8k/Flickr8k_text.zip"
FLICKR30K = """flickr30k/results_20130124.token
or flickr30k/test_2016*
part flickr30k/test_2016.1.en.gz: git blob, from raw/test_2016.1.en.gz
part flickr30k/test_2016.2.en.gz: git blob, from raw/test_2016.2.en.gz
part flickr30k/test_2016.3.en.gz: git blob, from raw/test_2016.3.en.gz
part flickr30k/test_2016.4.en.gz: git blob, from raw/test_2016.4.en.gz
part flickr30k/test_2016.5.en.gz: git blob, from raw/test_2016.5.en.gz
part flickr30k/test_2016_images.txt: git blob, from image_splits/test_2016_images.txt"""
COMPOSITE_JSON = "composite/composite.json: alternative, git blob, from annotations/composite.json"
COMPOSITE_TEXTS = "fleur/fleur_composite.txt: SHA-256, from results/fleur_composite.txt"
ALL_COCO = """coco/captions_val2014.json: optional, adds references
or coco/annotations/captions_val2014.json"""
TEST_REFERENCES = f"""{COCO}
or coco/captions_val2014.json
or coco/annotations/captions_val2014.json"""
CAPTION_IDS = """cxc/original_image_to_caption.json: SHA-256, from data/original_image_to_caption.json
or cxc/sentid_to_caption_test.json
or coco/captions_val2014.json
or coco/annotations/captions_val2014.json"""
EXPERT = "flickr8k/flickr8k.json: SHA-256, from annotations/flickr8k.json"
ZIP = "from v1/oid.rated-image-captions.v1.zip"
FOLDS = "caption_quality/OID-rated-image-captions.v1"

#: By module: each card's name and what is unusual of it, its counts, its scales and its files.
FACTS = {
    # 400 and 2,500 rows, a rating a caption; a pair is of two captions.
    "aloha": """hat: anonymous_raters, faults hallucination
385 images, 400 items, 400 ratings
hallucination: 0 to 1 in steps of 1
hat/hat-trainval.json: SHA-256, from data/hat-trainval.json

nocaps_foil: anonymous_raters, faults hallucination
2500 images, 5000 items, 5000 ratings, 2500 preferences
hallucination: 0 to 1 in steps of 1
nocaps_foil/nocaps-val-foil.json: SHA-256, from data/nocaps-val-foil.json
""",
    "caparena": """caparena

caparena/caparena_annots_eval.json
""",
    # Levinboim et al. 2021, Table 1: train, dev and test have these pairs and images.
    "caption_quality": f"""caption_quality: needs_images, partial, anonymous_raters, no references, overall of good
{11027 + 654 + 1237} images, {58354 + 2392 + 4592} items
overall: 0 to 1 in steps of 0.125
good: 0 to 1 in steps of 1
{FOLDS}.train.tsv: split train, {ZIP}
{FOLDS}.dev.tsv: SHA-256, split validation, {ZIP}
{FOLDS}.test.tsv: split test, {ZIP}
{FOLDS}.train.meta: optional, {ZIP}
or {FOLDS}.train.tsv.meta
{FOLDS}.dev.meta: optional, {ZIP}
or {FOLDS}.dev.tsv.meta
{FOLDS}.test.meta: optional, {ZIP}
or {FOLDS}.test.tsv.meta
""",
    # 986 rows of nine questions, 272 rows of five.
    "context_matters": f"""context_matters: needs_images, no references, headline overall_before
18 images, 270 items, {986 * 9} ratings
overall_before: 1 to 5 in steps of 1
overall_after: 1 to 5 in steps of 1
relevance_before: 1 to 5 in steps of 1
relevance_after: 1 to 5 in steps of 1
irrelevance_before: 1 to 5 in steps of 1
irrelevance_after: 1 to 5 in steps of 1
imgfit_before: 1 to 5 in steps of 1
imgfit_after: 1 to 5 in steps of 1
reconstructivity: 1 to 5 in steps of 1
context_matters/sighted_data_criticaltrials.csv: SHA-256, from behavioral_data/sighted_data_criticaltrials.csv

context_matters_blv: needs_images, no references, headline overall
18 images, 68 items, {272 * 5} ratings
overall: 1 to 5 in steps of 1
reconstructivity: 1 to 5 in steps of 1
relevance: 1 to 5 in steps of 1
irrelevance: 1 to 5 in steps of 1
imgfit: 1 to 5 in steps of 1
context_matters/blv_data_criticaltrials.csv: SHA-256, from behavioral_data/blv_data_criticaltrials.csv
""",
    # 25,000 + 19,833 rows; 44,045 rows, each of which counts twice: in all, and in its way of sampling.
    "cxc": f"""cxc_sits: headline intrasim
5000 images, {25000 + 19833} items, {25000 + 19833} ratings
intrasim: 0 to 5
original: 0 to 5
cxc/sits_test.csv: SHA-256, from data/sits_test.csv
{TEST_REFERENCES}
{CAPTION_IDS}

cxc_sts: headline overall, cocaption of overall, isim of overall
5000 images, 44045 items, {44045 * 2} ratings
overall: 0 to 5
cocaption: 0 to 5
isim: 0 to 5
cxc/sts_test.csv: SHA-256, from data/sts_test.csv
{TEST_REFERENCES}
{CAPTION_IDS}
""",
    # Six systems, three raters and four kinds of pairs, of 60 scenes.
    "demo": f"""demo: synthetic
60 images, {60 * 6} items, {60 * 6 * 3} ratings, {60 * 4} preferences
overall: 1 to 5 in steps of 1
""",
    "file": """file: no references

""",
    # Two scores of each of the captions; 4 × 1,000 pairs.
    # Four systems on 500 images, two metrics each.
    "billboard": f"""billboard_thumb: no references
500 images, {4 * 500} items, {4 * 500 * 2} ratings
CLIPS: 0 to 2.5
RefCLIPS: 0 to 2.5
"""
    + "".join(
        f"billboard_thumb/{system}||{name}.csv: SHA-256, from mscoco/{system}%7C%7C{name}.csv\n"
        for name in ("CLIPS", "RefCLIPS")
        for system in ("VinVL-large", "VinVL-base", "Unified-VLP", "Up-Down")
    )
    + """thumb/mscoco_THumB-1.0.jsonl: SHA-256, from mscoco/mscoco_THumB-1.0.jsonl
thumb/mscoco_references.json: SHA-256, from mscoco/mscoco_references.json
""",
    "fleur": f"""fleur: no references
4998 images, 24718 items, {24718 * 2} ratings, 4000 preferences
raw: 0 to 1
smoothed: 0 to 1
{COMPOSITE_TEXTS}
fleur/fleur_flickr8k_expert.txt: SHA-256, from results/fleur_flickr8k_expert.txt
fleur/fleur_pascal_HC.txt: SHA-256, from results/fleur_pascal_HC.txt
fleur/fleur_pascal_HI.txt: SHA-256, from results/fleur_pascal_HI.txt
fleur/fleur_pascal_HM.txt: SHA-256, from results/fleur_pascal_HM.txt
fleur/fleur_pascal_MM.txt: SHA-256, from results/fleur_pascal_MM.txt
""",
    # 5,822 rows of which 158 are dropped, with three ratings each; 47,830 crowd rows.
    "flickr8k": f"""flickr8k_expert: anonymous_raters
1000 images, {5822 - 158} items, {(5822 - 158) * 3} ratings
overall: 1 to 4 in steps of 1
{EXPERT}
{FLICKR8K.replace(": ", ": alternative, ")}
flickr8k/ExpertAnnotations.txt: alternative, SHA-256, from Flickr8k/Flickr8k_text.zip

flickr8k_cf: anonymous_raters
1000 images, 47830 ratings
overall: 0 to 1
flickr8k/crowdflower_flickr8k.json: git blob, from annotations/crowdflower_flickr8k.json
{FLICKR8K.replace(": ", ": alternative, ")}
flickr8k/CrowdFlowerAnnotations.txt: alternative, SHA-256, from Flickr8k/Flickr8k_text.zip
""",
    "foil": """foil

foil/foil.json: git blob, from annotations/foil.json
foil/foilv1.0_test_2017.json: alternative
coco/captions_val2014.json: alternative
or coco/annotations/captions_val2014.json
""",
    # Scott et al. 2023, section 3.3.
    "iicr16k": f"""cocog: no references
8990 images, 9982 items, 44252 ratings
overall: 1 to 5 in steps of 1
cocog/cocog.jsonl
or cocog/cocog.csv
{ALL_COCO}

flickrg: no references
1000 images, 5664 items, 23965 ratings
overall: 1 to 5 in steps of 1
flickrg/flickrg.jsonl
or flickrg/flickrg.csv
{EXPERT}

iicr16k: no references
{8990 + 1000} images, {9982 + 5664} items, {44252 + 23965} ratings
overall: 1 to 5 in steps of 1
cocog/cocog.jsonl
or cocog/cocog.csv
flickrg/flickrg.jsonl
or flickrg/flickrg.csv
{EXPERT}
{ALL_COCO}
""",
    # A hundred images in each, five questions about a pair.
    "imageinwords": """iiw_400: no references
100 images, 200 items, 500 preferences
iiw/iiw_400.jsonl: SHA-256, from IIW-400/data.jsonl

iiw_docci: no references
100 images, 200 items, 500 preferences
iiw_docci/iiw_docci.jsonl: SHA-256, from DOCCI_Test/data.jsonl
""",
    "longcap_arena": f"""longcap_arena: partial

descriptiveness: 0 to 5
relevance: 0 to 5
fluency: 0 to 5
{long_captions("val", "test_a")}{long_captions("test", "test_b")}""",
    # A judged caption of each of 32,978 images.
    "nebula": f"""nebula: partial
32978 images, 32978 ratings
overall: 0 to 1
nebula/nebula_train.csv: split train, from data/train*.parquet
{hub("nebula", "train")}nebula/nebula_val.csv: split validation, from data/val*.parquet
{hub("nebula", "val")}nebula/nebula_test.json: SHA-256, split test, from annotations/nebula_test.json
{hub("nebula", "test")}""",
    "pascal50s": """pascal50s
1000 images, 4000 preferences
pascal50s/pascal_50s.json: SHA-256, from annotations/pascal_50s.json

pascal50s_votes: anonymous_raters
1000 images, 43994 preferences
pascal50s_votes/pair_pascal.mat: SHA-256, from data/pair_pascal.mat
pascal50s_votes/pascal50S.mat: SHA-256, from data/pascal50S.mat
""",
    "polaris": "polaris: partial\n131020 ratings\noverall: 0 to 1\n"
    + "".join(
        f"polaris/polaris_{name}.csv: split {split}, "
        f"from 7d823575f89ed87c0db0cb7aa5fe7bd4fdbca2cb/polaris_{name}.csv\n{hub('polaris', name)}"
        for name, split in (("train", "train"), ("val", "validation"), ("test", "test"))
    ),
    # Five systems on 500 images, six numbers each; a penalty is stored negative.
    "thumb": f"""thumb: totals total, headline total
500 images, {5 * 500} items, {5 * 500 * 6} ratings
precision: 1 to 5 in steps of 1
recall: 1 to 5 in steps of 1
fluency: -5 to 0
inclusive: -5 to 0
conciseness: -5 to 0
total: -9 to 5
thumb/mscoco_THumB-1.0.jsonl: SHA-256, from mscoco/mscoco_THumB-1.0.jsonl
thumb/mscoco_references.json: SHA-256, from mscoco/mscoco_references.json
""",
    "sugarcrepe": f"""sugarcrepe
183 images, 852 preferences
sugarcrepe/replace_obj.json: SHA-256, from data/replace_obj.json
sugarcrepe/replace_att.json: SHA-256, from data/replace_att.json
sugarcrepe/replace_rel.json: SHA-256, from data/replace_rel.json
sugarcrepe/swap_obj.json: SHA-256, from data/swap_obj.json
sugarcrepe/swap_att.json: SHA-256, from data/swap_att.json
sugarcrepe/add_obj.json: SHA-256, from data/add_obj.json
sugarcrepe/add_att.json: SHA-256, from data/add_att.json
{TEST_REFERENCES}
{ALL_COCO}
""",
    # Three votes of each of 345 pairs.
    "valse": f"""valse: anonymous_raters
316 images, {345 * 3} preferences
valse/existence.json: SHA-256, from data/existence.json
valse/plurals.json: SHA-256, from data/plurals.json
valse/counting-small-quant.json: SHA-256, from data/counting-small-quant.json
valse/counting-adversarial.json: SHA-256, from data/counting-adversarial.json
valse/counting-hard.json: SHA-256, from data/counting-hard.json
valse/relations.json: SHA-256, from data/relations.json
valse/action-replacement.json: SHA-256, from data/action-replacement.json
valse/actant-swap.json: SHA-256, from data/actant-swap.json
valse/coreference-standard.json: SHA-256, from data/coreference-standard.json
valse/coreference-hard.json: SHA-256, from data/coreference-hard.json
valse/foil-it.json: SHA-256, from data/foil-it.json
{TEST_REFERENCES}
{ALL_COCO}
""",
    # 1,000 pairs of 250 images; 2,991 + 2,973 + 6,021 = 11,985 rows, three of an image.
    "umic_lmdb": f"""capeval1k
250 images, 1000 items, 1000 ratings
overall: 0 to 1
capeval1k/data.mdb: SHA-256, from capeval1k/data.mdb
{VOCABULARY}
{COCO}
capeval1k/capeval.csv: alternative

composite_8k
{2991 // 3} images, 2991 items, 2991 ratings
overall: 1 to 5 in steps of 1
composite_8k/data.mdb: SHA-256, from composite_8k/data.mdb
{VOCABULARY}
{FLICKR8K}
{COMPOSITE_JSON}
{COMPOSITE_TEXTS}

composite_30k
{2973 // 3} images, 2973 items, 2973 ratings
overall: 1 to 5 in steps of 1
composite_30k/data.mdb: SHA-256, from composite_30k/data.mdb
{VOCABULARY}
{FLICKR30K}
{COMPOSITE_JSON}
{COMPOSITE_TEXTS}

composite_coco
{6021 // 3} images, 6021 items, 6021 ratings
overall: 1 to 5 in steps of 1
composite_coco/data.mdb: SHA-256, from composite_coco/data.mdb
{VOCABULARY}
{COCO}
{COMPOSITE_JSON}
{COMPOSITE_TEXTS}

composite
3995 images, 11985 items, 11985 ratings
overall: 1 to 5 in steps of 1
composite_8k/data.mdb: SHA-256, from composite_8k/data.mdb
{VOCABULARY}
{FLICKR8K}
{COMPOSITE_JSON}
{COMPOSITE_TEXTS}
composite_30k/data.mdb: SHA-256, from composite_30k/data.mdb
{FLICKR30K}
composite_coco/data.mdb: SHA-256, from composite_coco/data.mdb
{COCO}
""",
}


def describe(card: Card) -> str:
    """The lines of `FACTS` about a card."""
    unusual = [name for name in FLAGS if getattr(card, name)]
    unusual += ["no references"] * (not card.has_references)
    unusual += [
        f"{name} {' '.join(x)}" for name in ("totals", "faults") if (x := getattr(card, name))
    ]
    unusual += [f"headline {card.headline}"] * bool(card.headline)
    unusual += [f"{name} of {other}" for name, other in card.summaries.items()]
    lines = [
        ": ".join(filter(None, (card.name, ", ".join(unusual)))),
        ", ".join(f"{n} {name}" for name, n in card.expected.items()),
        *(f"{dimension}: {scale}" for dimension, scale in card.scales.items()),
        *(line for source in card.sources for line in describe_file(source)),
    ]
    return "".join(f"{line}\n" for line in lines)


def describe_file(source: SourceFile) -> list[str]:
    """A file, what is unusual of it, where else it may lie and of what parts it is."""
    words = [name for name in WORDS if getattr(source, name)]
    words += ["SHA-256"] * bool(source.sha256) + ["git blob"] * bool(source.git_blob)
    words += [f"split {source.split}"] * bool(source.split)
    words += [f"adds {source.adds}"] * bool(source.adds)
    words += [f"from {'/'.join(url.split('/')[-2:])}" for url in source.downloads[:1]]
    parts = [f"part {line}" for part in source.parts for line in describe_file(part)]
    return [
        ": ".join(filter(None, (source.path, ", ".join(words)))),
        *(f"or {pattern}" for pattern in source.also),
        *parts,
    ]


@pytest.mark.parametrize("module", FACTS)
def test_a_card_says_what_its_sources_state(module: str, empty_registry: None) -> None:
    """The module runs anew, on an empty registry."""
    spec = importlib.util.find_spec(f"captau.datasets.sources.{module}")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    cards = [card for card, _ in registry._READERS.values()]
    assert "\n".join(map(describe, cards)) == FACTS[module]


def test_no_module_is_forgotten() -> None:
    modules = {path.stem for path in Path(coco_captions.__file__).parent.glob("*.py")}
    assert modules - FACTS.keys() == {"__init__", "coco_captions", "foil_pairs"}
