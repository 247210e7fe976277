# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write docs/reference from the sources: playbooks, roles, modules and plugins with all that can be set.

What ansible-doc knows of the collection comes from there; the rest is read from playbooks and the defaults of roles.
The table of variables in docs/request.md, the same as an argument specification of the role launch, a README.md of
each role, and the pictures of docs/architecture.md (`diagrams.py`) are made as well. With --check nothing is written,
and it is an error if anything would be.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / ".collections"))

from ansible_collections.cluster_compute.session.plugins.module_utils._internal.core.model.fields import (  # noqa: E402
    KNOWN_VARIABLES,
    documented,
)
from ansible_collections.cluster_compute.session.tools import (  # noqa: E402
    cheat_sheet,
    diagrams,
    for_programs,
    matrix,
    session_schema,
)
from ansible_collections.cluster_compute.session.tools.markdown_text import marked, sentences, table  # noqa: E402
from ansible_collections.cluster_compute.session.tools.verb_facts import Verb, artifacts_of  # noqa: E402

FOLDER = CHECKOUT / "docs" / "reference"
ASSETS = CHECKOUT / "docs" / "assets"
COLLECTION = "cluster_compute.session"
LAB = "lab"
"""Playbooks, roles and modules that begin so belong to the lab."""
ALSO_OF_LAB = "image_archive"
OF_LAB = "of [the lab](../lab.md), and only in a clone of the repository."
PRIVATE = "This module is private."
"""How a note begins that marks a module as a step of the roles (fragment attributes.private). All others are for users'
own playbooks."""
PLUGIN_TYPES = ("inventory", "connection", "callback", "lookup", "filter", "test")
REMAKE = "make reference"
HEAD = f"""<!-- SPDX-FileCopyrightText: 2026 The cluster_compute.session authors -->
<!-- SPDX-License-Identifier: GPL-3.0-or-later -->
<!-- Made from the sources by '{REMAKE}'; change those. -->
"""
DESCRIPTION = CHECKOUT / "docs" / "request.md"
"""Written by hand but for the table of the variables, which follows from `core/model/fields`."""
SUPPORT = CHECKOUT / "docs" / "support_matrix.md"
"""Written by hand but for the table of what `make matrix` has run."""
MACHINES = CHECKOUT / "tests" / "machines.json"
"""What `make machines-test` has written."""
SPECIFICATION = CHECKOUT / "roles" / "launch" / "meta" / "argument_specs.yml"
"""Written by hand but for its last entry point, whose options are these variables."""
REQUEST_ENTRY = "request"
REPOSITORY = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["repository"]
DOCUMENTS = f"{REPOSITORY}/blob/main/docs"
"""Where readers who have no checkout find the documents."""
TABLES = {
    "session_jobs": ("jobs.md", "job_"),
    "session_logs": ("logs.md", "logs_"),
    "session_apps": ("apps.md", "app"),
    "login": ("login.md", "login_"),
}
"""Documents whose table has the variables that a module or role reads for a playbook, and how their names begin."""
SITE = re.compile(r"\bcluster_compute_[a-z_]+\b")
REQUEST = re.compile(r"\bsession_[a-z_]+\b")


def main() -> int:
    """Write the reference, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only tell whether the reference is up to date")
    check = parser.parse_args().check
    everything = known()
    wanted = {FOLDER / name: text for name, text in pages(everything).items()}
    wanted |= {readme_of(role): readme(role, everything["role"][role]) for role in everything["role"]}
    wanted[ASSETS / "packages.svg"] = diagrams.packages_picture(CHECKOUT)
    wanted[ASSETS / "launch_steps.svg"] = diagrams.launch_picture(CHECKOUT)
    wanted[ASSETS / "session.schema.json"] = session_schema.schema()
    wanted[DESCRIPTION] = description(DESCRIPTION.read_text(encoding="utf-8"))
    wanted[SUPPORT] = support(SUPPORT.read_text(encoding="utf-8"))
    wanted[SPECIFICATION] = specification(SPECIFICATION.read_text(encoding="utf-8"))
    found = {path: path.read_text(encoding="utf-8") for path in {*FOLDER.glob("*.md"), *wanted} if path.exists()}
    stale = sorted(path for path in {*wanted, *found} if wanted.get(path) != found.get(path))
    if check:
        if stale:
            print(f"This is not what the sources say: {', '.join(map(shown, stale))}.")
            print(f"Run '{REMAKE}' (python tools/make_reference.py) and commit what it changes.")
        return int(bool(stale))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
        print(shown(path))
    return 0


def shown(path: Path) -> str:
    """Return a path as people know it."""
    return os.path.relpath(path, CHECKOUT)


def description(text: str) -> str:
    """Return the document of the request with the table of its variables made anew."""
    rows = table(["variable", "type", "default", "meaning"], documented())
    before, after = re.split(r"^\| variable \|.*\n(?:\|.*\n)+\n", text, maxsplit=1, flags=re.MULTILINE)
    return before + "\n".join(rows) + "\n" + after


def support(text: str) -> str:
    """Return the support matrix with the table of what `make matrix` has run made anew."""
    made = table(["ansible-core", "Python", "`make matrix`", "its part on a lab"], matrix.rows(matrix.noted(CHECKOUT)))
    before, after = re.split(r"^\| ansible-core \|.*\n(?:\|.*\n)+\n", text, maxsplit=1, flags=re.MULTILINE)
    text = before + "\n".join(made) + "\n" + after
    before, after = re.split(r"^\| machine \|.*\n(?:\|.*\n)+\n(?:\|.*\n)+\n", text, maxsplit=1, flags=re.MULTILINE)
    return before + "\n".join(of_machines()) + "\n" + after


def of_machines() -> list[str]:
    """Return the tables of what `make machines-test` ran on, and what passed."""
    columns = ["release", "kernel", "systemd", "cgroup", "engine", "store"]
    if not MACHINES.exists():
        return [*table(["machine", *columns], []), *table(["`make machines-test`", ""], [["not run", ""]])]
    noted = json.loads(MACHINES.read_text(encoding="utf-8"))
    hosts = [[name, *(found[column] for column in columns)] for name, found in sorted(noted["machines"].items())]
    rows = [
        [name.partition("::")[2].removeprefix("test_").replace("_", " "), f"{how['ended']} on {how['date']}"]
        for name, how in sorted(noted["scenarios"].items())
    ]
    return [*table(["machine", *columns], hosts), *table(["`make machines-test`", ""], rows)]


def specification(text: str) -> str:
    """Return the argument specification of the role launch with the variables of a request made anew."""
    before = re.split(rf"^  {REQUEST_ENTRY}:\n", text, maxsplit=1, flags=re.MULTILINE)[0]
    options = {
        variable.strip("`"): {
            "description": [ansible_markup(meaning), ansible_markup(f"Given as {kind}. {default_of(default)}.")],
            "type": "raw",
        }
        for variable, kind, default, meaning in documented()
    }
    entry = {
        "short_description": "Check what a user asks for before any host is touched",
        "description": [
            "Reads these variables from wherever Ansible has them, checks them with the module session_request, and "
            "reports everything that is wrong with them at once. Text will do for numbers and truth values, as surveys "
            "deliver them; what is empty counts as not given.",
            "Runs on localhost, and ends with C(launch_checked), of use as C(launch_request).",
            f"L(The request,{DOCUMENTS}/request.md) tells more of each variable.",
        ],
        "author": ["The cluster_compute.session authors"],
        "options": options,
    }
    made = yaml.dump({REQUEST_ENTRY: entry}, Dumper=Indented, sort_keys=False, allow_unicode=True, width=110)
    return before + "".join(f"  {line}\n" for line in made.splitlines())


def default_of(default: str) -> str:
    """Return the default of a variable in a sentence."""
    return default.capitalize() if default.startswith("required") else f"By default {default}"


class Indented(yaml.SafeDumper):
    """Writes lists as this collection does: further in than what they are of."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Go one level further in."""
        super().increase_indent(flow, False)


def ansible_markup(text: str) -> str:
    """Return Markdown as Ansible's markup, without its references to what stands elsewhere."""
    text = re.sub(r",? see (?:below|\[[^]]+\]\([^)]+\))", "", text)
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"`([^`]+)`", r"C(\1)", text)


def known() -> dict[str, dict[str, Any]]:
    """Return what ansible-doc knows of the collection: by type and name."""
    command = ["ansible-doc", "--json", "--metadata-dump", COLLECTION]
    done = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    everything = json.loads(done.stdout)["all"]
    prefix = f"{COLLECTION}."
    found = {
        kind: {name[len(prefix) :]: facts for name, facts in sorted(plugins.items()) if name.startswith(prefix)}
        for kind, plugins in everything.items()
    }
    made = yaml.safe_load(specification(SPECIFICATION.read_text(encoding="utf-8")))["argument_specs"]
    found["role"]["launch"]["entry_points"][REQUEST_ENTRY] = made[REQUEST_ENTRY]
    return found


def pages(everything: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the files of the reference: name to text."""
    made = {
        "playbooks.md": playbooks(everything["role"]),
        "roles.md": roles(everything["role"]),
        "modules.md": modules(everything["module"]),
        "plugins.md": plugins(everything),
        "files.md": diagrams.files(CHECKOUT),
        **for_callers(everything),
    }
    return {name: f"{HEAD}\n{text.strip()}\n" for name, text in made.items()}


def options_table(options: Mapping[str, Mapping[str, Any]], defaults: Mapping[str, Any] | None = None) -> list[str]:
    """Return a table of options; defaults: those of a role, which its argument specification need not repeat."""
    if not options:
        return []
    rows = []
    for name, option in sorted(options.items(), key=lambda item: (not item[1].get("required"), item[0])):
        default = (defaults or {}).get(name, option.get("default"))
        standard = "required" if option.get("required") else "" if default is None else f"`{as_yaml(default)}`"
        kind = str(option.get("type", "str"))
        kind += f" of {option['elements']}" if option.get("elements") else ""
        choices = option.get("choices") or ()
        text = sentences(option["description"])
        if choices:
            text.append(f"One of {', '.join(f'`{choice}`' for choice in choices)}.")
        rows.append([f"`{name}`", kind, standard, " ".join(text)])
    return table(["variable" if defaults is not None else "option", "type", "default", "meaning"], rows)


def as_yaml(value: Any) -> str:
    """Return a default as it is written in YAML."""
    if value == "":
        return '""'
    return value if isinstance(value, str) else json.dumps(value)


# ---- callers ------------------------------------------------------------------------------------------------------


def for_callers(everything: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the pages for people who look up a command, and for programs that run one."""
    verbs = verbs_of(everything["role"])
    overview = everything["module"]["session_info"]["return"]["overview"]["contains"]
    programs = for_programs.page(verbs, cheat_sheet.purposes(), overview, CHECKOUT)
    return {"cheat_sheet.md": cheat_sheet.page(verbs), "programs.md": programs}


def verbs_of(known_roles: Mapping[str, Any]) -> dict[str, Verb]:
    """Return the playbooks that are not of the lab."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted((CHECKOUT / "playbooks").glob("*.yml"))}
    plays = {name: yaml.safe_load(text) for name, text in texts.items() if not is_of_lab(name)}
    roles = {name: roles_of(found) for name, found in plays.items()}
    made = {}
    for name, found in plays.items():
        own_rows = own_variables(texts[name], entries_of(found), known_roles)
        defaults = {row[0].strip("`"): row[1] for row in own_rows}
        command = usage(name, requests_of(found), own_rows)[0]
        made[name] = Verb(
            required=tuple(re.findall(r"-e (\w+)=", command)),
            reads=frozenset({*defaults, *KNOWN_VARIABLES, *re.findall(r"\w+", texts[name])}),
            defaults=defaults,
            artifacts=artifacts_of(CHECKOUT, name, roles),
        )
    return made


# ---- playbooks ----------------------------------------------------------------------------------------------------


def playbooks(known_roles: Mapping[str, Any]) -> str:
    """Return the page of the playbooks."""
    lines = [
        "# Playbooks",
        "",
        f"Each is run as `ansible-playbook {COLLECTION}.NAME`, from a checkout also as "
        "`ansible-playbook playbooks/NAME.yml`. Variables that begin with `session_` are those of "
        "[the request](../request.md), those that begin with `cluster_compute_` those of [the site](../site.md).",
        "",
        "Each ends with 0 if the verb succeeded and with 2 if it failed; "
        "[other exit codes](../operate.md#schedules) are Ansible's. Examples are those of the lab, in a checkout.",
        "",
        f"Playbooks that begin with `{LAB}_` are {OF_LAB}",
        "",
    ]
    names = sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))
    for name in sorted(names, key=is_of_lab):
        lines += playbook(name, known_roles)
    return "\n".join(lines)


def is_of_lab(name: str) -> bool:
    """Tell whether a playbook, a role or a module belongs to the lab."""
    return name in (LAB, ALSO_OF_LAB) or name.startswith((f"{LAB}_", "demo_"))


def playbook(name: str, known_roles: Mapping[str, Any]) -> list[str]:
    """Return what a playbook does, on which hosts, and what it reads."""
    text = (CHECKOUT / "playbooks" / f"{name}.yml").read_text(encoding="utf-8")
    comment = re.match(r"(?:# SPDX.*\n)*---\n((?:# .*\n)*)", text)
    comment_text = " ".join(line[2:] for line in comment.group(1).splitlines()) if comment else ""
    plays = yaml.safe_load(text)
    used = [role for role in roles_of(plays) if role in known_roles]
    requests = [str(only) for only in requests_of(plays)]
    own_rows = own_variables(text, entries_of(plays), known_roles)
    lines = [f"## {name}", "", f"{purpose_of(plays)}. {comment_text}".strip(), ""]
    lines += ["```text", *usage(name, requests, own_rows), "```", ""]
    lines += table(["variable", "default", "meaning"], own_rows) if own_rows else []
    lines += example(name)
    reads = {"launch": "all of the request", "name": "`session_name`, `session_resource_group`"}
    reads["group"] = "`session_resource_group`; `session_name`, to mean one session alone"
    rows = [["of the request", reads[only]] for only in requests]
    sites, others = set(SITE.findall(text)), set()
    for role, entry in entries_of(plays):
        entries = known_roles.get(role, {}).get("entry_points", {})
        options = entries.get(entry, entries.get("main", {})).get("options", {})
        defaults = " ".join(str(default) for name, default in defaults_of(role).items() if name in options)
        sites |= set(SITE.findall(defaults))
        others |= set(REQUEST.findall(defaults))
    own = sites & described("site.md")
    others = {name for name in others & set(KNOWN_VARIABLES) if name not in " ".join(reads[only] for only in requests)}
    if "launch" in requests:
        others = set()
    if others:
        rows.append(["of the request as well", ", ".join(f"`{name}`" for name in sorted(others))])
    if requests == ["launch"] or "schedule" in used:
        rows.append(["of the site", "all of it"])
    elif own:
        rows.append(["of the site", ", ".join(f"`{name}`" for name in sorted(own))])
    if used:
        rows.append(["roles", ", ".join(f"[{role}](roles.md#{role})" for role in used)])
    return [*lines, *(table(["reads", ""], rows) if rows else [])]


def own_variables(text: str, used: Iterable[tuple[str, str]], known_roles: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each variable that a playbook has for itself: of its roles, or of a table in the documents."""
    rows = {}
    for role, entry in used:
        entries = known_roles.get(role, {}).get("entry_points", {})
        for name, option in entries.get(entry, {}).get("options", {}).items():
            default = defaults_of(role).get(name, option.get("default"))
            is_filled_in = f"{name}:" in text or "earlier play of this run" in str(option["description"])
            if is_filled_in or "{{" in str(default):
                continue
            standard = "required" if option.get("required") else "none" if default in (None, "") else as_yaml(default)
            shown_default = standard if standard in ("required", "none") else f"`{standard}`"
            rows[name] = [f"`{name}`", shown_default, " ".join(sentences(option["description"]))]
    for module, (page, prefix) in TABLES.items():
        if re.search(rf"{re.escape(COLLECTION)}\.{module}\b", text):
            rows |= {row[0]: row for row in rows_of(page, prefix)}
    return list(rows.values())


def rows_of(page: str, prefix: str) -> list[list[str]]:
    """Return the rows of variables in a document whose names have a prefix, with links that lead there from here."""
    text = (CHECKOUT / "docs" / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if re.match(rf"\| `{prefix}[a-z_]*`", line)]
    lines = [re.sub(r"\]\(#", f"](../{page}#", re.sub(r"\]\((?!http|#)", "](../", line)) for line in lines]
    return [[part.strip() for part in line.strip("| ").split(" | ")] for line in lines]


def usage(name: str, requests: Iterable[str], own_rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the command with what it cannot do without, and the one of `ccs` if there is one."""
    words = [f"ansible-playbook {COLLECTION}.{name}"]
    asked = {"launch": ["session_name=NAME", "session_image=IMAGE"], "name": ["session_name=NAME"]}
    for only in dict.fromkeys([] if "group" in requests else requests):
        words += [f"-e {word}" for word in asked.get(only, ())]
    words += ["-e session_batch_command=COMMAND"] if name == "run" else []
    here = f"Required to {name.replace('_', ' ')}."
    for variable, default, meaning in own_rows:
        is_required = (default.startswith("required") and name not in default) or here in meaning
        words += [f"-e {variable.strip('`')}=…"] if is_required else []
    short = short_commands().get(name)
    return [" ".join(words), *([short] if short else [])]


@cache
def short_commands() -> dict[str, str]:
    """Return the command of `ccs` for playbooks, from its document."""
    text = (CHECKOUT / "docs" / "ccs.md").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for left, right in re.findall(r"^\| (`ccs .*?) \| (.*) \|$", text, re.MULTILINE):
        found |= dict(zip(re.findall(r"`([a-z_]+)`", right), re.findall(r"`(ccs [^`]+)`", left)))
    return found


@cache
def commands() -> list[tuple[str, str]]:
    """Return each command of the documents, its lines joined by NUL, and the page on which it stands."""
    found = []
    for path in sorted((CHECKOUT / "docs").glob("*.md")):
        for block in re.findall(r"^```sh\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            found += [(command, path.name) for command in re.sub(r"\\\n", "\0", block).splitlines()]
    return found


def example(name: str) -> list[str]:
    """Return the shortest command of the documents that runs a playbook, and where it stands; tests run them there."""
    found = [(command, page) for command, page in commands() if f"playbooks/{name}.yml" in command]
    if not found:
        return []
    command, page = min(found, key=lambda pair: (len(pair[0]), pair))
    return [
        f"Example, from [{page.removesuffix('.md')}](../{page}):",
        "",
        "```text",
        *command.replace("\0", "\\\n").splitlines(),
        "```",
        "",
    ]


def described(name: str) -> set[str]:
    """Return the variables that a document describes in a table."""
    text = (CHECKOUT / "docs" / name).read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))


def roles_of(plays: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the collection's roles that plays use."""
    return list(dict.fromkeys(role for role, _entry in entries_of(plays)))


def entries_of(plays: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the collection's roles that plays use, each with the entry point."""
    found = []
    for play in plays:
        found += [(role if isinstance(role, str) else role["role"], "main") for role in play.get("roles", ())]
        for task in play.get("tasks", ()):
            for way in ("ansible.builtin.import_role", "ansible.builtin.include_role"):
                found += [(task[way]["name"], task[way].get("tasks_from", "main"))] if way in task else []
    return list(dict.fromkeys((name.rpartition(".")[2], entry) for name, entry in found))


def purpose_of(plays: Iterable[Mapping[str, Any]]) -> str:
    """Return the names of the plays that do the work, those that only check the request left out."""
    return "; ".join(str(play["name"]) for play in plays if not requests_of([play]))


def requests_of(plays: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what of the request plays check."""
    module, role, entry = f"{COLLECTION}.session_request", "ansible.builtin.import_role", REQUEST_ENTRY
    tasks = [task for play in plays for task in play.get("tasks", ())]
    return [
        (task.get(module) or {}).get("only", "launch")
        for task in tasks
        if module in task or task.get(role, {}).get("tasks_from") == entry
    ]


# ---- roles --------------------------------------------------------------------------------------------------------


def defaults_of(role: str) -> dict[str, Any]:
    """Return the defaults of a role."""
    path = CHECKOUT / "roles" / role / "defaults" / "main.yml"
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.exists() else {}


def roles(known_roles: Mapping[str, Any]) -> str:
    """Return the page of the roles."""
    lines = [
        "# Roles",
        "",
        f"Used as `{COLLECTION}.NAME`. The playbooks fill in what is required; set the other variables in the "
        "inventory or with `-e`.",
        "",
        f"The role `{LAB}` is {OF_LAB}",
        "",
    ]
    for name in sorted(known_roles, key=lambda role: (is_of_lab(role), role)):
        lines += [f"## {name}", ""]
        lines += role_parts(name, known_roles[name], "../request.md")
    return "\n".join(lines)


def role_parts(name: str, facts: Mapping[str, Any], request: str) -> list[str]:
    """Return all that is known of a role; request: where the variables of a request are described."""
    lines: list[str] = []
    for entry, spec in facts["entry_points"].items():
        if len(facts["entry_points"]) > 1:
            lines += [f"### {name}, from {entry}", ""]
        lines += [f"{marked(spec['short_description'])}.", ""]
        lines += [f"- {text}" for text in sentences(spec.get("description", ()))] + [""]
        if (name, entry) == (SPECIFICATION.parents[1].name, REQUEST_ENTRY):
            lines += [f"Its variables are those of [the request]({request}).", ""]
        else:
            lines += options_table(spec.get("options", {}), defaults_of(name))
    return lines


def readme_of(name: str) -> Path:
    """Return where a role says what it is."""
    return CHECKOUT / "roles" / name / "README.md"


def readme(name: str, facts: Mapping[str, Any]) -> str:
    """Return what a role says of itself to readers who have no checkout."""
    users = [
        f"[{path.stem}]({DOCUMENTS}/reference/playbooks.md#{path.stem})"
        for path in sorted((CHECKOUT / "playbooks").glob("*.yml"))
        if name in roles_of(yaml.safe_load(path.read_text(encoding="utf-8")))
    ]
    lines = [f"# {COLLECTION}.{name}", "", *role_parts(name, facts, f"{DOCUMENTS}/request.md")]
    if users:
        lines += [f"Playbooks that use it, and fill in what is required: {', '.join(users)}.", ""]
    return "\n".join([HEAD, *lines, f"[All roles]({DOCUMENTS}/reference/roles.md). GPL-3.0-or-later.", ""])


# ---- modules and plugins ------------------------------------------------------------------------------------------


def modules(known_modules: Mapping[str, Any]) -> str:
    """Return the page of the modules."""
    lines = ["# Modules", "", f"Used as `{COLLECTION}.NAME`. First the public ones, for your own playbooks.", ""]
    others = [name for name, facts in known_modules.items() if is_private(facts["doc"])]
    for name in sorted(set(known_modules) - set(others)):
        lines += plugin(name, known_modules[name])
    lines += [
        "## Private modules",
        "",
        "These are steps of the roles, and their options and results can change with them in any release. "
        f"`ansible-doc {COLLECTION}.NAME` describes them. "
        f"`{ALSO_OF_LAB}` and modules that begin with `{LAB}_` are {OF_LAB}",
        "",
    ]
    others.sort(key=lambda name: (is_of_lab(name), name))
    lines += table(
        ["module", "purpose"],
        [[f"`{name}`", marked(known_modules[name]["doc"]["short_description"])] for name in others],
    )
    return "\n".join(lines)


def is_private(doc: Mapping[str, Any]) -> bool:
    """Tell whether a module is a step of the roles, by its documentation."""
    return any(note.startswith(PRIVATE) for note in doc.get("notes", ()))


def plugins(everything: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of the other plugins."""
    lines = ["# Plugins", "", f"Named `{COLLECTION}.NAME`.", ""]
    for kind in PLUGIN_TYPES:
        for name, known in everything.get(kind, {}).items():
            lines += plugin(name, known, kind)
    return "\n".join(lines)


def plugin(name: str, known: Mapping[str, Any], kind: str = "") -> list[str]:
    """Return all that is known of a module or a plugin."""
    doc = known["doc"]
    lines = [f"## {name}{f' ({kind})' if kind else ''}", "", f"{marked(doc['short_description'])}.", ""]
    lines += [f"- {text}" for text in sentences(doc.get("description", ()))] + [""]
    lines += options_table(doc.get("options", {}))
    lines += set_by(doc.get("options", {}))
    if known.get("examples"):
        lines += ["```yaml", str(known["examples"]).strip(), "```", ""]
    returned = known.get("return") or {}
    rows = [
        [f"`{key}`", str(value.get("type", "")), " ".join(sentences(value["description"]))]
        for key, value in returned.items()
    ]
    return [*lines, *(table(["returned", "type", "meaning"], rows) if rows else [])]


def set_by(options: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return by which variables of the environment and entries of ansible.cfg options are set."""
    rows = []
    for name, option in options.items():
        ways = [f"`{way['name']}`" for way in option.get("env", ())]
        ways += [f"`{way['key']}` in `[{way['section']}]` of `ansible.cfg`" for way in option.get("ini", ())]
        if ways:
            rows.append([f"`{name}`", ", ".join(ways)])
    return table(["option", "set by"], rows) if rows else []


if __name__ == "__main__":
    sys.exit(main())
