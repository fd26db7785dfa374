"""The site's pages of commands: schemas for what options there are, `conf/command/` for what they mean."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import Any

from docs_text import ROOT, code, escaped, linked, plain, table
from omegaconf import OmegaConf

from captau.benchmarks.cli.main import COMMANDS, _options
from captau.benchmarks.scoring.catalog import read_config
from captau.conf import group
from captau.conf.schema import OPTIONS


def slug(command: str) -> str:
    return command.replace(" ", "_")


def commands_index() -> str:
    rows = [(f"[`captau {name}`]({slug(name)}.md)", what) for name, what in COMMANDS.items()]
    return (
        "# Commands\n\nOne program, one grammar: `captau <command> [key=value …]`, Hydra's override grammar "
        "throughout. Quote what has brackets or blanks for the shell: `'metrics=[\"cider(df=FILE)\"]'`.\n\n"
        + table(("command", "does"), rows)
        + "\n"
        + table(
            ("flag", "does"),
            [
                ("`--help`", "explains a command"),
                ("`--cfg job`", "shows the resolved options and runs nothing"),
                ("`--multirun`", "runs every combination of comma-separated values, a folder each"),
                ("`--shell-completion install=bash`", "completes in bash, zsh or fish"),
                ("`--version`", "captau's version"),
            ],
        )
        + "\nStatus 0: done. 1: a check failed, or a fault of ours. 2: what was typed or read cannot be used, "
        "which one line on stderr explains. 130: stopped by Ctrl-C.\n"
    )


@dataclasses.dataclass(frozen=True)
class Help:
    """What `conf/command/NAME.yaml` says of a command."""

    what: str
    examples: list[str]
    options: dict[str, dict[str, str]]  # heading → option → text
    rest: list[str]

    def said_of(self, option: str) -> str:
        return next((o[option] for o in self.options.values() if option in o), "")


@cache
def help_of(command: str) -> Help:
    """The help of a command, taken apart."""
    config = read_config("command", slug(command))
    text = config["hydra"]["help"]["template"].partition("== Defaults ==")[0].replace("$$", "$")
    first, *blocks = re.split(r"\n\s*\n", text.strip("\n"))
    examples: list[str] = []
    options: dict[str, dict[str, str]] = {}
    heading, rest = "", []
    for block in blocks:
        lines = block.splitlines()
        if not block.startswith("  "):
            match = re.fullmatch(r"(Options.*):", lines[0])
            heading = match[1] if match else ""
            lines = lines[1:] if match else lines
        if heading:
            options.setdefault(heading, {}).update(options_in(lines))
        elif lines[0].lstrip().startswith("captau ") and block.startswith("  "):
            examples += [line.strip() for line in lines]
        else:
            rest.append(" ".join(block.split()))
    what = " ".join(first.split()).partition(": ")[2]
    return Help(what, examples, options, rest)


def options_in(lines: list[str]) -> dict[str, str]:
    """`a=X, b=Y   text` with its continuation lines → the text of each option, in order."""
    out: dict[str, str] = {}
    joined: list[str] = []
    for line in lines:
        opens = re.match(r"  [\w.]+=", line) and not (joined and joined[-1].endswith(","))
        if opens or not joined:
            joined.append(line.strip())
        else:
            joined[-1] += " " + line.strip()
    for entry in joined:
        keys: list[str] = []
        words = entry.split()
        while words and re.match(r"[\w.]+=", words[0]):
            word = words.pop(0)
            keys.append(word.rstrip(","))
            if not word.endswith(","):
                break
        said = " ".join(words)
        for key in keys:
            name, _, value = key.partition("=")
            text = f"{value}: {said}" if value in ("true", "false") else said
            out[name] = f"{out[name]} – {value}: {said}" if name in out and value else text
        # An option may be told of within another's text: "…; cache.use=false keeps no scores".
        for clause in re.split(r";\s+", said):
            if match := re.match(r"([a-z_.]+)=(\S*) (.*)", clause):
                out.setdefault(match[1], f"{match[2]}: {match[3]}" if match[2] else match[3])
    return out


def command_page(command: str) -> str:
    told = help_of(command)
    parts = [f"# captau {command}", f"{told.what[:1].upper()}{told.what[1:]}"]
    if told.examples:
        parts.append(code("\n".join(map(example, told.examples))))
    rows = [
        (
            f"`{option}`",
            default_of(command, option),
            linked(meaning(command, option)),
        )
        for option in listed_options(command)
    ]
    if rows:
        parts.append("## Options\n\n" + table(("option", "default", "meaning"), rows))
    if command == "train":
        parts.append(rater_options())
    parts += [
        linked(escaped(text))
        for text in told.rest
        if not text.startswith(("Flags (Hydra's)", "captau --help"))
    ]
    return "\n\n".join(parts)


def example(line: str) -> str:
    """A command with what is said of it, which stands behind two blanks, as a comment before it."""
    command, _, said = line.partition("  ")
    return f"# {said.strip()}\n{command}" if said else command


def listed_options(command: str) -> list[str]:
    """Every option of a command, in the order of its help."""
    known = _options(command)
    helped = [o for options in help_of(command).options.values() for o in options]
    order = {name: i for i, name in enumerate(helped)}
    return sorted(known, key=lambda name: order.get(name, len(order)))


def meaning(command: str, option: str) -> str:
    """What the help says of an option; what it refers to elsewhere is fetched from there."""
    said = help_of(command).said_of(option)
    match = re.search(r"as in captau (data \w+|\w+)", said)
    if match and match[1] in COMMANDS and match[1] != command:
        there = help_of(match[1]).said_of(option)
        return escaped(there or said)
    return escaped(said)


@cache
def defaults_of(command: str) -> tuple[dict[str, Any], Any]:
    """A command's config groups with what is chosen of each, and its other options as they stand."""
    config = dict(read_config("command", slug(command)))
    groups = {
        key.lstrip("/"): value
        for default in config.pop("defaults")
        if isinstance(default, dict)
        for key, value in default.items()
    }
    del config["hydra"]
    return groups, OmegaConf.merge(OmegaConf.structured(OPTIONS[command]), config)


def default_of(command: str, option: str) -> str:
    """An option's default, from its schema and the command's own file."""
    groups, config = defaults_of(command)
    if option in groups:
        return plain(groups[option]) if groups[option] else "needed"
    if OmegaConf.is_missing(
        OmegaConf.select(config, option.rpartition(".")[0]) if "." in option else config,
        option.rpartition(".")[2],
    ):
        return "needed"
    value = OmegaConf.select(config, option)
    value = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    return "–" if value is None else plain(value)


def rater_options() -> str:
    """The options of each rater, from its file."""
    parts = ["## Raters\n\n`rater.OPTION=` of the chosen rater; on the demo, what `demo` says."]
    for name in group("rater"):
        options = read_config("rater", name)
        on_demo = options.pop("demo", {})
        text = (ROOT / "conf" / "rater" / f"{name}.yaml").read_text(encoding="utf-8")
        said = " ".join(
            line.removeprefix("#").strip()
            for line in text.split("\nname:")[0].splitlines()
            if "@package" not in line
        )
        rows = [
            (f"`rater.{k}`", plain(v), plain(on_demo[k]) if k in on_demo else "")
            for k, v in options.items()
            if k != "name"
        ]
        parts.append(
            f"### {name}\n\n{linked(said)}\n\n{table(('option', 'default', 'demo'), rows)}"
        )
    return "\n\n".join(parts)
