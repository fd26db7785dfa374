"""The folder of `--config-dir`: the models of its files; `own_experiments` composes its experiments.

Its files are plain YAML: `dataset/NAME.yaml` has `file` (the options of `dataset=file`) and `protocol`,
`protocol/NAME.yaml` what differs from a dataset's usual protocol, `suite/NAME.yaml` a list `metrics`, `paper/NAME.yaml`
what captau's own papers have, with the printed numbers in `paper/NAME.csv`, and `experiment/NAME.yaml` options of a
command. `docs/own_files.md` shows one of each. Every file is checked before a command begins, so that errors name file
and line.

Models of options are made of their declarations: of an option's type, and of what checks its values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    RootModel,
    create_model,
    model_validator,
)

from ...conf import OWN_GROUPS, shipped_names
from ...datasets import registry
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...datasets.reading.rating_scales import scales_of_option
from ...datasets.reading.yaml_document import YamlDocument
from ...datasets.reading.yaml_model import (
    Flag,
    Integer,
    Number,
    Text,
    YamlModel,
    fault,
    one_of,
    refused,
    validate,
)
from ...metrics.spec_text import split_at_commas
from ..options.declaration import Option
from ..options.shared import FILE, PROTOCOL
from ..runs.results import find_missing_reason
from ..scoring.catalog import dataset_names, resolve_metrics, usual_protocol
from ..scoring.protocol import CHOICES, Protocol
from ..scoring.score_store import OWN
from ..statistics.coefficients.coefficient import coefficient_names

# Values.


def check_words(value: Any) -> Any:
    """Check the value of an option that takes a text or number, or a list of them."""
    for element in value if isinstance(value, list) else [value]:
        if not isinstance(element, str | int | float) or isinstance(element, bool):
            raise fault(f"{element!r}: a text, or a list of texts, is expected")
    return value


def _check_mapping(value: Any) -> Any:
    """Check the value of an option that takes a mapping, or one as a text."""
    if not isinstance(value, dict | str):
        raise fault(f"{value!r}: a mapping of fields is expected")
    return value


def _check_condition(value: Any) -> Any:
    """Check the value of `good=`, a share or conditions."""
    return value if isinstance(value, dict) else check_words(value)


def _check_filled(value: Any) -> Any:
    """Check that a list or a mapping has an entry."""
    if not value:
        raise fault("it is empty; write at least one entry")
    return value


def _check_metrics(value: Any) -> Any:
    """Check metrics, without loading code that their specs name."""
    with refused():
        resolve_metrics(as_typed(value), loads_code=False)
    return value


def _check_scales(value: Any) -> Any:
    with refused():
        scales_of_option(value, "scales")
    return value


def as_typed(value: Any) -> Any:
    """Return the list that a text such as `bleu_1,cider` stands for; other values as they are."""
    parts = split_at_commas(value) if isinstance(value, str) else None
    if parts is None or len(parts) < 2:
        return value
    return [part.strip() for part in parts]


def is_interpolation(value: Any) -> bool:
    """Tell whether a value refers to others (`${…}`), which Hydra knows."""
    return isinstance(value, str) and "${" in value


def pass_interpolation(value: Any, check: Callable[[Any], Any]) -> Any:
    """Check a value, unless it refers to others and so is not known yet."""
    return value if is_interpolation(value) else check(value)


_Words = Annotated[Any, AfterValidator(check_words)]
_Metrics = Annotated[Any, AfterValidator(check_words), AfterValidator(_check_metrics)]


def type_of(option: Option) -> Any:
    """Return the type of an option's value in YAML."""
    kinds = set(get_args(option.type) or (option.type,))
    if option.key == "metrics":
        value: Any = _Metrics
    elif option.key == "file.scales":
        value = Annotated[Any, AfterValidator(_check_scales)]
    elif option.key == "good":
        value = Annotated[Any, AfterValidator(_check_condition)]
    elif option.takes.startswith("{"):
        value = Annotated[Any, AfterValidator(_check_mapping)]
    elif option.type is Any or get_origin(option.type) is list:
        value = _Words
    else:
        (kind,) = kinds - {type(None)}
        value = {str: Text, int: Integer, float: Number, bool: Flag}[kind]

    may_be_none = option.default is None or type(None) in kinds
    return value | None if may_be_none else value


class ComposedModel(YamlModel):
    """A mapping of a file that Hydra composes from its text, where a field without a value is null."""

    empty_is_missing: ClassVar[bool] = False


def make_model(name: str, types: Mapping[str, Any], base: type[YamlModel] = ComposedModel) -> Any:
    """Return a model with a field for each key, none of which has to be there."""
    fields: dict[str, Any] = {key: (kind, None) for key, kind in types.items()}
    return create_model(name, __base__=base, **fields)


class _ProtocolBase(ComposedModel):
    """Choices of a protocol, which go together.

    Attributes:
        has_typed_lists: whether lists may be written `a,b`, as on the command line.
    """

    has_typed_lists: ClassVar[bool] = False

    @model_validator(mode="after")
    def _check_choices(self) -> Self:
        changes: dict[str, Any] = {}
        for name in self.model_fields_set:
            value = getattr(self, name)
            # What refers to other values is checked when Hydra has composed them.
            if not is_interpolation(value):
                changes[name] = as_typed(value) if self.has_typed_lists else value

        # Choice by choice: the first after which the protocol is not valid is the wrong one. `k` needs `references`.
        resolved: dict[str, Any] = {}
        for name in sorted(changes, key=["references", "level", *CHOICES].index):
            resolved[name] = changes[name]
            if name == "references" and "k" in changes:
                resolved["k"] = changes["k"]
            with refused(below=name):
                Protocol.resolve(OWN, usual_protocol(OWN), resolved)
        return self


class TypedProtocolBase(_ProtocolBase):
    """The choices of a protocol within an experiment, where a list may be a text with commas, as it is typed."""

    has_typed_lists = True


_PROTOCOL_TYPES = {option.key.partition(".")[2]: type_of(option) for option in PROTOCOL}


class OwnProtocol(make_model("ProtocolChoices", _PROTOCOL_TYPES, _ProtocolBase)):
    """A file in `protocol/`, and the protocol of a dataset, a paper's table or a column."""


# The files.


class _FileBase(ComposedModel):
    path: Text


def _types_of_file() -> dict[str, Any]:
    """Return the types of the options of `dataset=file` by name, but for its path, which is needed."""
    types: dict[str, Any] = {}
    for option in FILE:
        name = option.key.partition(".")[2]
        # The set is called as its file in `dataset/` is.
        if name not in ("path", "name"):
            types[name] = type_of(option)
    return types


class OwnTable(make_model("FileOptions", _types_of_file(), _FileBase)):
    """The options of `dataset=file` in a file in `dataset/`."""


class OwnDataset(ComposedModel):
    """A file in `dataset/`."""

    file: OwnTable
    protocol: OwnProtocol = Field(default_factory=OwnProtocol)


class OwnSuite(ComposedModel):
    """A file in `suite/`."""

    metrics: Annotated[list[Text], AfterValidator(_check_metrics)]


def _check_row(spec: Any) -> Any:
    """Check what fills a row of a paper's table: metrics, nothing, or why it cannot be computed."""
    if spec is None or find_missing_reason(str(spec)):
        return spec
    return _check_metrics(spec)


class PaperColumn(ComposedModel):
    """A column of a paper's table."""

    coefficient: Annotated[Text, one_of("coefficient", coefficient_names)] | None = None
    dimension: _Words | None = None
    protocol: OwnProtocol = Field(default_factory=OwnProtocol)
    bound: Literal["low", "high"] | None = None
    missing: Text | None = None

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if self.coefficient is None and self.missing is None:
            raise fault(
                "name its coefficient, as coefficient: tau_b, or say why it is missing: REASON"
            )
        return self


class PaperTableModel(ComposedModel):
    """A table of metrics' correlations in a file in `paper/`; captau's own papers have other kinds besides."""

    table: Text
    kind: Annotated[Text, one_of("kind", lambda: ["correlation"])]
    dataset: Annotated[Text, one_of("dataset", dataset_names)]
    title: Text = ""
    revision: Text = ""
    scale: Number = 1.0
    protocol: OwnProtocol = Field(default_factory=OwnProtocol)
    rows: Annotated[
        dict[str, Annotated[Any, AfterValidator(_check_row)]], AfterValidator(_check_filled)
    ]
    columns: Annotated[dict[str, PaperColumn], AfterValidator(_check_filled)]
    row_protocols: dict[str, OwnProtocol] = Field(default_factory=dict)
    row_raters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    draws: dict[str, Any] = Field(default_factory=dict)
    is_printed: Flag = True
    note: Text = ""
    recomputed_note: Text = ""


class OwnPaper(ComposedModel):
    """A file in `paper/`."""

    title: Text
    citation: Text
    tables: Annotated[list[PaperTableModel], AfterValidator(_check_filled)]


class OwnExperiment(RootModel[dict[str, Any]]):
    """A file in `experiment/`, of a command that is not known: the one that reads it checks its options."""


_MODELS: Mapping[str, type[BaseModel]] = {
    "dataset": OwnDataset,
    "protocol": OwnProtocol,
    "suite": OwnSuite,
    "paper": OwnPaper,
    "experiment": OwnExperiment,
}


def check_config_dir(folder: Path) -> None:
    """Check the files of a folder; groups of the user's own are left to Hydra.

    Raises:
        InputError: on the first file that is no YAML, has the name of one of captau's, or has a field or value that
            captau does not know; on a folder whose name is nearly that of one of captau's.
    """
    paths = sorted(folder.glob("*/*.yaml"))
    if not paths and not any(folder.rglob("*.yaml")):
        groups = ", ".join(f"{name}/" for name in OWN_GROUPS)
        raise InputError(
            f"--config-dir={folder}: no YAML file in it; they lie in its folders {groups}"
        )
    for path in paths:
        group_name = path.parent.name
        name = path.stem
        if group_name not in OWN_GROUPS:
            if difflib.get_close_matches(group_name, OWN_GROUPS, n=1, cutoff=0.8):
                raise InputError(f"{path}: {unknown('folder', group_name, OWN_GROUPS)}")
            continue
        if not re.fullmatch(r"\w+", name):
            raise InputError(f"{path}: rename it; letters, digits and '_' are expected")
        if name in (registry.names() if group_name == "dataset" else shipped_names(group_name)):
            raise InputError(f"{path}: captau has a {group_name} of this name; rename the file")

    for path in paths:
        if path.parent.name in OWN_GROUPS:
            _check_file(path)


def _check_file(path: Path) -> None:
    """Check a file, and the files that belong to it.

    Raises:
        InputError: with file and line.
    """
    document = YamlDocument.read(path)
    if document.plain in (None, {}):
        raise InputError(f"{document.location}: the file is empty; write its fields, or remove it")
    content = validate(document, _MODELS[path.parent.name])

    if isinstance(content, OwnDataset):
        table = path.parent / expand_home(content.file.path)
        if not table.is_file():
            raise document.error(("file", "path"), f"there is no file {table}")

    if isinstance(content, OwnPaper) and not path.with_suffix(".csv").is_file():
        raise InputError(f"{path}: the printed numbers are missing; put them into {path.stem}.csv")
