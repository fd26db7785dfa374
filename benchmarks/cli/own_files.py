"""The folder of `--config-dir`: the models of its files, and its experiments as Hydra composes them.

Its files are plain YAML: `dataset/NAME.yaml` has `file` (the options of `dataset=file`) and `protocol`,
`protocol/NAME.yaml` what differs from a dataset's usual protocol, `suite/NAME.yaml` a list `metrics`, `paper/NAME.yaml`
what captau's own papers have, with the printed numbers in `paper/NAME.csv`, and `experiment/NAME.yaml` options of a
command. `docs/own_files.md` shows one of each. Every file is checked before a command begins, so that errors name file
and line.

Models of options are made of their declarations: of an option's type, and of what checks its values.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    RootModel,
    Tag,
    WrapValidator,
    create_model,
    model_validator,
)

from ...conf import CONFIG_DIR, OWN_GROUPS, own_files, shipped_names
from ...datasets import registry
from ...datasets.errors import InputError, unknown
from ...datasets.paths import expand_home
from ...datasets.reading.rating_scales import scales_of_option, scales_path
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
from ..options.declaration import Option, declarations
from ..options.shared import FILE, PROTOCOL, STATISTICS, STORED, statistics_of
from ..runs.results import find_missing_reason
from ..scoring.catalog import dataset_names, resolve_metrics, usual_protocol
from ..scoring.protocol import CHOICES, Protocol
from ..scoring.score_store import OWN
from ..statistics.coefficients.coefficient import coefficient_names
from .arguments import read_protocol_word
from .command import Command
from .overrides import EXPERIMENT, EXPERIMENT_GROUP, resolve_names
from .stored_options import check_programs

_STORED_KEYS = tuple(option.key for option in STORED)

# Values.


def _check_words(value: Any) -> Any:
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
    return value if isinstance(value, dict) else _check_words(value)


def _check_filled(value: Any) -> Any:
    """Check that a list or a mapping has an entry."""
    if not value:
        raise fault("it is empty; write at least one entry")
    return value


def _check_metrics(value: Any) -> Any:
    """Check metrics, without loading code that their specs name."""
    with refused():
        resolve_metrics(_as_typed(value), loads_code=False)
    return value


def _check_scales(value: Any) -> Any:
    with refused():
        scales_of_option(value, "scales")
    return value


def _as_typed(value: Any) -> Any:
    """Return the list that a text such as `bleu_1,cider` stands for; other values as they are."""
    parts = split_at_commas(value) if isinstance(value, str) else None
    if parts is None or len(parts) < 2:
        return value
    return [part.strip() for part in parts]


def _is_interpolation(value: Any) -> bool:
    """Tell whether a value refers to others (`${…}`), which Hydra knows."""
    return isinstance(value, str) and "${" in value


def _pass_interpolation(value: Any, check: Callable[[Any], Any]) -> Any:
    return value if _is_interpolation(value) else check(value)


_Words = Annotated[Any, AfterValidator(_check_words)]
_Metrics = Annotated[Any, AfterValidator(_check_words), AfterValidator(_check_metrics)]


def _type_of(option: Option) -> Any:
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


class _ComposedModel(YamlModel):
    """A mapping of a file that Hydra composes from its text, where a field without a value is null."""

    empty_is_missing: ClassVar[bool] = False


def _make_model(name: str, types: Mapping[str, Any], base: type[YamlModel] = _ComposedModel) -> Any:
    """Return a model with a field for each key, none of which has to be there."""
    fields: dict[str, Any] = {key: (kind, None) for key, kind in types.items()}
    return create_model(name, __base__=base, **fields)


class _ProtocolBase(_ComposedModel):
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
            if not _is_interpolation(value):
                changes[name] = _as_typed(value) if self.has_typed_lists else value

        # Choice by choice: the first after which the protocol is not valid is the wrong one. `k` needs `references`.
        resolved: dict[str, Any] = {}
        for name in sorted(changes, key=["references", "level", *CHOICES].index):
            resolved[name] = changes[name]
            if name == "references" and "k" in changes:
                resolved["k"] = changes["k"]
            with refused(below=name):
                Protocol.resolve(OWN, usual_protocol(OWN), resolved)
        return self


class _TypedProtocolBase(_ProtocolBase):
    has_typed_lists = True


_PROTOCOL_TYPES = {option.key.partition(".")[2]: _type_of(option) for option in PROTOCOL}


class OwnProtocol(_make_model("ProtocolChoices", _PROTOCOL_TYPES, _ProtocolBase)):
    """A file in `protocol/`, and the protocol of a dataset, a paper's table or a column."""


# The files.


class _FileBase(_ComposedModel):
    path: Text


def _types_of_file() -> dict[str, Any]:
    """Return the types of the options of `dataset=file` by name, but for its path, which is needed."""
    types: dict[str, Any] = {}
    for option in FILE:
        name = option.key.partition(".")[2]
        # The set is called as its file in `dataset/` is.
        if name not in ("path", "name"):
            types[name] = _type_of(option)
    return types


class OwnTable(_make_model("FileOptions", _types_of_file(), _FileBase)):
    """The options of `dataset=file` in a file in `dataset/`."""


class OwnDataset(_ComposedModel):
    """A file in `dataset/`."""

    file: OwnTable
    protocol: OwnProtocol = Field(default_factory=OwnProtocol)


class OwnSuite(_ComposedModel):
    """A file in `suite/`."""

    metrics: Annotated[list[Text], AfterValidator(_check_metrics)]


def _check_row(spec: Any) -> Any:
    """Check what fills a row of a paper's table: metrics, nothing, or why it cannot be computed."""
    if spec is None or find_missing_reason(str(spec)):
        return spec
    return _check_metrics(spec)


class PaperColumn(_ComposedModel):
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


class PaperTableModel(_ComposedModel):
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


class OwnPaper(_ComposedModel):
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
        if scales_path(table) == path:
            message = f"{path.name} would be its file of scales; rename {content.file.path}"
            raise document.error(("file", "path"), message)

    if isinstance(content, OwnPaper) and not path.with_suffix(".csv").is_file():
        raise InputError(f"{path}: the printed numbers are missing; put them into {path.stem}.csv")


# Experiments.


def read_experiments(command: Command, words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return one's own experiments by name, as Hydra composes them; those that words choose are checked.

    Raises:
        InputError: where a chosen experiment is not there, has an option that the command lacks or a value of another
            type, or names a program to run.
    """
    typed_keys = {word.partition("=")[0] for word in words}
    files = own_files(EXPERIMENT)
    experiment_names: list[str] = []
    for word in words:
        key, _, value = word.partition("=")
        if key.lstrip("+") in (EXPERIMENT, EXPERIMENT_GROUP):
            if value.startswith("glob("):
                experiment_names += _match_experiments(word, list(files))
                continue
            # Hydra's functions of a sweep stand around names.
            names = re.sub(r"^(choice|sort|shuffle|tag)\(", "", value)
            experiment_names += re.findall(r"[\w/-]+", names)

    has_other_folders = any(key.lstrip("+") == "hydra.searchpath" for key in typed_keys)
    model = _experiment_model(command)
    experiments: dict[str, dict[str, Any]] = {}
    for name in experiment_names:
        if name in files:
            experiments[name] = _read_experiment(command, model, files[name], typed_keys)
        elif not (has_other_folders or name == "null" or _is_in_subfolder(name)):
            listed_names = ", ".join(files) or "none; --config-dir=DIR says where they lie"
            raise InputError(f"unknown experiment '{name}'; known: {listed_names}")

    # Those that are named only in the defaults of others may be of another command.
    for name in files.keys() - experiments.keys():
        with contextlib.suppress(InputError):
            experiments[name] = _read_experiment(command, model, files[name], typed_keys)
    return experiments


def _match_experiments(word: str, names: list[str]) -> list[str]:
    """Return the experiments that a word such as `experiment=glob(a*)` means.

    Raises:
        InputError: where there is none, so that Hydra would start no job.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        pattern: Any = OverridesParser.create().parse_override(word).value()
    except HydraException:
        # Hydra meets the same error next, and says it.
        return []

    matched_names: list[str] = pattern.filter(names)
    if not matched_names:
        raise InputError(f"{word}: no experiment matches; known: {', '.join(names) or 'none'}")
    return matched_names


def _is_in_subfolder(name: str) -> bool:
    """Tell whether Hydra finds a name such as `deep/quick` in a folder below that of experiments."""
    folder = os.environ.get(CONFIG_DIR)
    return bool(folder) and "/" in name and Path(folder, EXPERIMENT, f"{name}.yaml").is_file()


def _experiment_model(command: Command) -> type[YamlModel]:
    """Return the model of an experiment of a command: its options, nested by the dots of their keys."""
    checks: dict[str, Callable[[Any], None]] = {}
    for declaration in declarations(command.options).values():
        # What is read into another form is checked when it is read.
        if declaration.has_one_key and declaration.read is None:
            checks[declaration.options[0].key] = declaration.check_value
    types: dict[str, Any] = {"defaults": list[Any], "hydra": dict[str, Any]}
    for option in command.declared():
        if option.key in _STORED_KEYS:
            continue
        if option.config_group:
            kind: Any = Annotated[Any, AfterValidator(partial(_check_names, command, option))]
        else:
            kind = _type_of(option)
        if option.key in checks:
            kind = Annotated[kind, AfterValidator(partial(_run_check, checks[option.key]))]
        if option in STATISTICS:
            kind = Annotated[kind, AfterValidator(partial(_check_statistic, option))]
        types[option.key] = Annotated[kind, WrapValidator(_pass_interpolation)]

    model = _nest(command.slug, types)
    model.field_label = f"option of captau {command.name}"
    model.fields_listed_by = f"captau {command.name} --help all"
    return model


def _nest(name: str, types: Mapping[str, Any]) -> Any:
    """Return a model of types by dotted key, with a model for each first part that several keys share."""
    fields_here: dict[str, Any] = {}
    fields_below: dict[str, dict[str, Any]] = {}
    for key, kind in types.items():
        first, dot, rest = key.partition(".")
        if dot:
            fields_below.setdefault(first, {})[rest] = kind
        else:
            fields_here[key] = kind

    for first, types_below in fields_below.items():
        base = _TypedProtocolBase if first == "protocol" else _ComposedModel
        fields = _make_model(first, types_below, base)
        has_names = first in fields_here
        fields_here[first] = _names_or_fields(fields_here[first], fields) if has_names else fields
    return _make_model(name, fields_here)


def _names_or_fields(names: Any, fields: Any) -> Any:
    """Return the type of a value that is names of a config group, or a mapping of its options."""
    of_names: Any = Annotated[names, Tag("names of a group")]
    of_fields: Any = Annotated[fields, Tag("fields of a group")]

    def choose(value: Any) -> str:
        return "fields of a group" if isinstance(value, dict) else "names of a group"

    return Annotated[of_names | of_fields, Discriminator(choose)]


def _run_check(check: Callable[[Any], None], value: Any) -> Any:
    with refused():
        check(value)
    return value


def _check_statistic(option: Option, value: Any) -> Any:
    with refused():
        statistics_of({option.key.partition(".")[2]: value})
    return value


def _check_names(command: Command, option: Option, value: Any) -> Any:
    """Check the names of a config group; options of a rater are left to it."""
    if option.config_group == "rater" and isinstance(value, dict):
        return value

    _check_words(value)
    if not all(str(name).strip() for name in _names_of(value)):
        raise fault("an empty name; take it out")
    with refused():
        _resolve(command, option, value)
    return value


def _names_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _resolve(command: Command, option: Option, value: Any) -> dict[str, Any]:
    """Return what the names of a config group mean, by the option that takes it: lists of names, or a choice.

    Raises:
        InputError: on an unknown name.
    """
    text = ",".join(map(str, _names_of(value)))
    if option.key == "protocol":
        key, _, choice = read_protocol_word(f"protocol={text}").partition("=")
        if key != "protocol":  # protocol: spearman
            return {key: _as_typed(choice)}
    return resolve_names(command, option.key, text)


def _read_experiment(
    command: Command, model: type[YamlModel], path: Path, typed_keys: Collection[str]
) -> dict[str, Any]:
    """Return an experiment's file as Hydra composes it: names of config groups stand among its defaults.

    Raises:
        InputError: where it has an option that the command lacks, a value of another type, or a program to run.
    """
    document = YamlDocument.read(path)
    _check_package(path)
    validate(document, model)
    options = {option.key: option for option in command.declared()}
    node = {key: value for key, value in document.plain.items() if key in ("defaults", "hydra")}
    defaults: list[Any] = list(node.get("defaults", []))
    values: dict[str, Any] = {}
    for key, value in _flatten(document.plain, options):
        if key in node:
            continue

        option = options[key]
        if not option.config_group or isinstance(value, Mapping) or _is_interpolation(value):
            is_list = get_origin(option.type) is list
            values[key] = value.split(",") if is_list and isinstance(value, str) else value
            continue

        for name, names in _resolve(command, option, value).items():
            if name == key:
                defaults.append({f"override /{name}": names if len(names) > 1 else names[0]})
            else:
                values[name] = names

    check_programs(values, typed_keys)
    for key, value in values.items():
        *parents, name = key.split(".")
        branch = node
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return {**node, "defaults": defaults}


def _check_package(path: Path) -> None:
    """Check that an experiment's file has no header that puts its keys below another one, which Hydra alone would read.

    Raises:
        InputError: where it has one.
    """
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        header = re.match(r"#\s*@package\s+(\S+)", line)
        if header is not None and header[1] != "_global_":
            raise InputError(
                f"{path}:{number}: the header '@package {header[1]}' is not read in an experiment; leave it out, and write "
                f"its keys below {header[1]}:"
            )


def _flatten(
    plain: Mapping[str, Any], options: Mapping[str, Option], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the values of an experiment by the dotted keys of options."""
    for name, value in plain.items():
        key = f"{prefix}{name}"
        is_section = any(option_key.startswith(f"{key}.") for option_key in options)
        if is_section and isinstance(value, Mapping):
            yield from _flatten(value, options, f"{key}.")
        elif key in options or value is not None:  # a section may be empty
            yield key, value
