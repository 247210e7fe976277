# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw from the sources which packages import which, and the steps of a launch with their calls to hosts.

`make_reference.py` writes the pictures, and the list of all files, to docs/reference. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

INTERNAL = Path("plugins/module_utils/_internal")
COLLECTION = "ansible_collections.cluster_compute.session."
PACKAGES: dict[str, str] = {
    "core/values": "single values, and the errors that all decisions raise",
    "core/model": "what is requested, kept and handed on: requests, plans, records, facts and answers of hosts",
    "core/rules": "what is decided about one session and its hosts",
    "core/cluster": "all hosts of a run together",
    "core/planning": "the plan of a session, and the change of one that runs",
    "core/preflight": "what is checked before the first launch",
    "core/show": "what people and other programs read",
    "core/verbs": "the state machines, one file a verb; the steps of a launch are in `launch_flow`",
    "adapters": "one outside thing each: the engine, the kernel's network, the firewall, the state directory",
    "host": "what one host does; `session` has a file for each kind of thing, `calls` one for each call",
    "replica": "what runs inside replicas",
    "lab": "hosts of the lab on one machine",
    "plugin_utils": "what the controller reads of Ansible, shows to people, and writes for owners",
    "action": "the modules' part on the controller",
    "modules": "arguments and documentation of each module",
    "callback": "the progress of a run on the terminal; what an interrupted launch gives back",
    "connection": "the connection to replicas",
    "inventory": "replicas as hosts of Ansible",
    "filter": "filters for playbooks and templates",
    "doc_fragments": "documentation that modules share",
}
"""What each package of plugins holds. Names of `_internal` are those below it."""
SKIPPED = frozenset({"__init__"})
VERBS = INTERNAL / "core" / "verbs"
USUAL = ("look", "hold", "start")
"""The steps of a launch to which nothing rare happens."""
LINE = 15
FONT = "font-family=\"system-ui, 'DejaVu Sans', sans-serif\""
COMMENT = """<!-- SPDX-FileCopyrightText: 2026 The cluster_compute.session authors -->
<!-- SPDX-License-Identifier: GPL-3.0-or-later -->
<!-- Made from the sources by 'make reference'; change those. -->"""


# ---- packages -------------------------------------------------------------------------------------------------------


def sources(root: Path) -> list[Path]:
    """Return the Python files of plugins, relative to the tree at *root*."""
    found = sorted((root / "plugins").rglob("*.py"))
    return [path.relative_to(root) for path in found if path.stem not in SKIPPED]


def package_of(path: Path) -> str:
    """Return the package of a file, or of what is imported, by a path relative to the tree."""
    if not path.is_relative_to(INTERNAL):
        return path.parts[1]
    parts = path.relative_to(INTERNAL).parts
    return "/".join(parts[:2]) if parts[0] == "core" else parts[0]


def imported(path: Path, text: str) -> Iterator[Path]:
    """Return what a file imports of plugins, as paths without suffix, modules or names in one."""
    for node in ast.walk(ast.parse(text)):
        names: list[Path] = []
        if isinstance(node, ast.ImportFrom):
            base = Path(*path.parts[: -node.level]) if node.level else Path()
            package = base.joinpath(*(node.module or "").replace(COLLECTION, "", 1).split("."))
            names = [package / alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [Path(*alias.name.replace(COLLECTION, "", 1).split(".")) for alias in node.names]
        yield from (name for name in names if name.parts[:1] == ("plugins",) and len(name.parts) > 2)


def package_imports(root: Path) -> dict[str, set[str]]:
    """Return for each package those that its files import."""
    found: dict[str, set[str]] = {}
    for path in sources(root):
        own = package_of(path)
        others = {package_of(name) for name in imported(path, (root / path).read_text(encoding="utf-8"))}
        found.setdefault(own, set()).update(others - {own})
    return found


def layers(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return packages in layers, of which each imports only those below; the lowest comes first.

    Raises ValueError if packages import each other.
    """
    left, result = dict(imports), list[list[str]]()
    while left:
        layer = [name for name, others in left.items() if not others & left.keys()]
        if not layer:
            raise ValueError(f"These packages import each other: {', '.join(sorted(left))}.")
        result.append(sorted(layer))
        left = {name: others for name, others in left.items() if name not in layer}
    return result


def raised(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the layers with what imports nothing next to its users, and without what has no part in any import."""
    found = layers(imports)
    lowest = {name: number for number, layer in reversed(list(enumerate(found))) for name in layer}
    for name in [name for name in found[0] if not name.startswith("core/")]:
        users = [lowest[other] for other, others in imports.items() if name in others]
        found[0].remove(name)
        if users:
            found[min(users) - 1].append(name)
    return found


def reduced(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports without those of a package that one of the others imports as well."""

    def below(name: str) -> set[str]:
        return set(imports.get(name, ())).union(*(below(other) for other in imports.get(name, ())))

    return {
        name: {other for other in others if not any(other in below(third) for third in others)}
        for name, others in imports.items()
    }


def packages_picture(root: Path) -> str:
    """Return the picture of the packages: each above those that it imports."""
    imports = package_imports(root)
    rows = raised(imports)[::-1]
    width, high, wide, across, down = 1000, 34, 132, 150, 72
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        start = (width - across * (len(row) - 1)) / 2
        places.update({name: (start + across * at, 40 + down * number) for at, name in enumerate(row)})
    parts = []
    for name, others in sorted(reduced(imports).items()):
        for other in sorted(others):
            (x, y), (to_x, to_y) = places[name], places[other]
            y, to_y = y + high / 2, to_y - high / 2
            middle = min(30.0, (to_y - y) / 2)
            parts.append(
                f'<path d="M{x:g} {y:g}C{x:g} {y + middle:g} {to_x:g} {to_y - middle:g} {to_x:g} {to_y:g}" '
                'fill="none" stroke="#8a99a8" stroke-width="1.5"/>'
            )
    for name, (x, y) in sorted(places.items()):
        fill = "#d7ece8" if name.startswith("core/") else "#e8e3f3" if name in ("adapters", "host") else "#eef1f4"
        parts.append(box(x - wide / 2, y - high / 2, wide, high, fill))
        parts.append(label(x, y + 5, name, "bold", "middle"))
    height = 40 + down * (len(rows) - 1) + 40
    return picture(width, height, "The packages of the collection, each above those that it imports", parts)


# ---- files ----------------------------------------------------------------------------------------------------------


def purpose(text: str) -> str:
    """Return the first paragraph of a file's documentation in one line; of a module its short description."""
    tree = ast.parse(text)
    documented = ast.get_docstring(tree)
    if documented is None:
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOCUMENTATION":
                found = re.search(r"^short_description: *(.+)$", ast.literal_eval(node.value), re.MULTILINE)
                documented = found[1].strip("\"'") + "." if found else None
    if not documented:
        raise ValueError("A file has neither a docstring nor a short description.")
    return " ".join(documented.split("\n\n")[0].split())


def files(root: Path) -> str:
    """Return the page that names every file of plugins and tools, with the first lines of its documentation."""
    by_package: dict[str, list[Path]] = {name: [] for name in PACKAGES}
    for path in sources(root):
        by_package[package_of(path)].append(path)
    lines = ["# Files", "", "Each file of the plugins and tools, and what it says of itself.", ""]
    for name, paths in by_package.items():
        folder = INTERNAL / name if (root / INTERNAL / name).is_dir() else Path("plugins") / name
        lines += [f"## {name}", "", f"`{folder}`: {PACKAGES[name]}.", "", "| file | |", "|---|---|"]
        lines += [_row(root, path, folder) for path in sorted(paths)]
        lines.append("")
    lines += ["## tools", "", "`tools`: what the targets of `make` run.", "", "| file | |", "|---|---|"]
    lines += [_row(root, path.relative_to(root), Path("tools")) for path in sorted((root / "tools").glob("*.py"))]
    return "\n".join(lines)


def _row(root: Path, path: Path, folder: Path) -> str:
    said = purpose((root / path).read_text(encoding="utf-8")).replace("|", "\\|")
    return f"| `{path.relative_to(folder).with_suffix('')}` | {said} |"


# ---- the way of a launch --------------------------------------------------------------------------------------------


def _call_classes(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the classes of calls, each with its name on the wire and its state."""
    for path in sorted(folder.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            own = node.body if isinstance(node, ast.ClassDef) else []
            given = {
                ast.unparse(part.target): str(part.value.value)
                for part in own
                if isinstance(part, ast.AnnAssign) and isinstance(part.value, ast.Constant)
            }
            if isinstance(node, ast.ClassDef) and given.get("call"):
                yield node.name, ": ".join(filter(None, [given["call"], given.get("state")]))


def _imported_names(file: Path, tree: ast.Module) -> Iterator[tuple[str, Path]]:
    """Return the names that a file imports by relative paths, and what each is: a file, or a file and a name in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            yield from ((alias.asname or alias.name, folder / alias.name) for alias in node.names)


@dataclass
class Step:
    """A step of a launch: the file that names it, the calls to hosts, and the steps that may follow."""

    name: str
    file: str
    calls: list[str] = field(default_factory=list)
    followed_by: list[str] = field(default_factory=list)


class Flow:
    """The functions of the launch, read without running them: which steps each names, and which calls it makes."""

    def __init__(self, root: Path) -> None:
        folder = root / VERBS
        paths = [folder / "launch.py", folder / "cleanup.py", folder / "teardown.py"]
        paths += sorted((folder / "launch_flow").glob("*.py"))
        self.trees = {path.with_suffix(""): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
        self.launch = folder / "launch"
        self.classes = dict(_call_classes(root / VERBS.parent / "model" / "call"))
        self.names = {file: dict(_imported_names(file, tree)) for file, tree in self.trees.items()}
        self._naming: set[tuple[Path, str]] = set()
        self.functions: dict[tuple[Path, str], ast.FunctionDef] = {}
        self.methods: dict[str, tuple[Path, str]] = {}
        for path, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    self.functions[path, node.name] = node
                for method in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(method, ast.FunctionDef):
                        self.functions[path, method.name] = method
                        self.methods[method.name] = (path, method.name)

        self.nodes = {key: list(ast.walk(function)) for key, function in self.functions.items()}
        self._used: dict[str, list[tuple[tuple[Path, str], dict[str, str]]]] = {}

    def resolve(self, file: Path, node: ast.AST) -> tuple[Path, str] | None:
        """Return the function of the launch that an expression in a file names."""
        if isinstance(node, ast.Name):
            found = self.names[file].get(node.id, file)
            key = (file, node.id) if found == file else (found.parent, found.name)
            return key if key in self.functions else None
        if isinstance(node, ast.Attribute):
            module = self.names[file].get(node.value.id) if isinstance(node.value, ast.Name) else None
            other = (module, node.attr) if module is not None and module in self.trees else self.methods.get(node.attr)
            return other if other in self.functions else None
        return None

    def constant(self, file: Path, node: ast.AST | None, bound: Mapping[str, str]) -> str | None:
        """Return the text that an expression is, if that is known: a parameter's, or a name's of the file."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Starred):
            # Name and title of a step in one constant, perhaps of another file.
            owner, _dot, name = ast.unparse(node.value).rpartition(".")
            module = self.names[file].get(owner) if owner else file
            if module is None or module not in self.trees:
                return None
            both = self._assigned(module, name)
            return self.constant(module, both.elts[0], {}) if isinstance(both, ast.Tuple) else None
        if isinstance(node, ast.Name):
            if node.id in bound:
                return bound[node.id]
            return self.constant(file, self._assigned(file, node.id), {})
        return None

    def used(self, key: tuple[Path, str], bound: Mapping[str, str]) -> list[tuple[tuple[Path, str], dict[str, str]]]:
        """Return the functions that one names, with what is known of the arguments of those that it calls."""
        known = repr((key, sorted(bound.items())))
        if known not in self._used:
            self._used[known] = list(self._find_used(key, bound))
        return self._used[known]

    def _find_used(
        self, key: tuple[Path, str], bound: Mapping[str, str]
    ) -> Iterator[tuple[tuple[Path, str], dict[str, str]]]:
        called = {id(node.func): node for node in self.nodes[key] if isinstance(node, ast.Call)}
        only_calls = {
            id(node.value.func)
            for node in self.nodes[key]
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call)
        }
        for node in self.nodes[key]:
            found = self.resolve(key[0], node)
            if found is None or found == key or id(node) in only_calls:
                continue
            if isinstance(node, ast.Attribute) and found in self.methods.values() and id(node) not in called:
                continue  # a field of the same name
            arguments = called[id(node)].args if id(node) in called else []
            names = [argument.arg for argument in self.functions[found].args.args]
            if names[:1] == ["self"]:
                names = names[1:]
            given = {name: self.constant(key[0], value, bound) for name, value in zip(names, arguments)}
            yield found, {name: text for name, text in given.items() if text is not None}

    def own_steps(self, key: tuple[Path, str], bound: Mapping[str, str]) -> list[str]:
        """Return the steps that a function names itself."""
        found = []
        for node in self.nodes[key]:
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "step" and node.args:
                found.append(self.constant(key[0], node.args[0], bound))
        return [name for name in found if name]

    def own_calls(self, key: tuple[Path, str]) -> list[str]:
        """Return the calls to hosts that a function makes itself: the classes of calls that it names."""
        constants = [self._assigned(key[0], node.id) for node in self.nodes[key] if isinstance(node, ast.Name)]
        return self._named([*self.nodes[key], *(value for value in constants if isinstance(value, ast.Call))])

    def _named(self, nodes: Iterable[ast.AST]) -> list[str]:
        """Return the calls whose classes are made in a part of the code."""
        made = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
        return [self.classes[name] for name in made if name in self.classes]

    def given_calls(self, key: tuple[Path, str]) -> Iterator[tuple[str, list[str]]]:
        """Yield the steps that a function has another one name, and the calls that it gives it for them."""
        values = {ast.unparse(node.targets[0]): node.value for node in self.nodes[key] if isinstance(node, ast.Assign)}
        for node in self.nodes[key]:
            words = node.args if isinstance(node, ast.Call) else []
            names = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            value = values.get(words[-1].id) if words and isinstance(words[-1], ast.Name) else None
            if names and value is not None:
                yield names[0], self._named(ast.walk(value))

    def _assigned(self, file: Path, name: str) -> ast.AST | None:
        """Return the value of a constant of a file."""
        for part in self.trees[file].body:
            if not isinstance(part, (ast.Assign, ast.AnnAssign)):
                continue
            for target in part.targets if isinstance(part, ast.Assign) else [part.target]:
                pairs: list[tuple[ast.AST, ast.AST | None]] = [(target, part.value)]
                if isinstance(target, ast.Tuple) and isinstance(part.value, ast.Tuple):
                    pairs = list(zip(target.elts, part.value.elts))
                for one, value in pairs:
                    if ast.unparse(one) == name:
                        return value
        return None

    def leads_to(self, key: tuple[Path, str]) -> list[str]:
        """Return the steps that a function names, or one that it uses."""
        seen: set[str] = set()
        found: list[str] = []
        todo: list[tuple[tuple[Path, str], dict[str, str]]] = [(key, {})]
        while todo:
            one, bound = todo.pop(0)
            if repr((one, bound)) not in seen:
                seen.add(repr((one, bound)))
                found += self.own_steps(one, bound)
                todo += self.used(one, bound)
        return list(dict.fromkeys(found))

    def calls(self, key: tuple[Path, str], bound: Mapping[str, str]) -> list[str]:
        """Return the calls to hosts that a function makes, also by functions that name no step of their own."""
        seen: set[str] = set()
        found: list[str] = []
        todo: list[tuple[tuple[Path, str], Mapping[str, str]]] = [(key, bound)]
        while todo:
            one, given = todo.pop(0)
            if repr((one, given)) in seen:
                continue
            seen.add(repr((one, given)))
            found += self.own_calls(one)
            todo += [(other, more) for other, more in self.used(one, given) if other not in self._naming]
        return found

    def steps(self) -> list[Step]:
        """Return the steps of a launch in the order of the verb's table."""
        table = self._assigned(self.launch, "AFTER")
        followers = {
            name.value: self.resolve(self.launch, value)
            for name, value in (zip(table.keys, table.values) if isinstance(table, ast.Dict) else ())
            if isinstance(name, ast.Constant) and isinstance(name.value, str)
        }
        if unknown := [name for name, key in followers.items() if key is None]:
            raise ValueError(f"The functions that follow these steps were not found: {', '.join(unknown)}.")
        self._naming = {key for key in self.functions if self.leads_to(key)}
        steps = {name: Step(name, "", [], self.leads_to(key)) for name, key in followers.items() if key is not None}
        for step in steps.values():
            step.followed_by = [known for known in steps if known in step.followed_by]
        for key in self.functions:
            if "launch_flow" not in key[0].parts and key[0].name != "cleanup":
                continue
            for helper, bound in [(key, {}), *self.used(key, {})]:
                for name in self.own_steps(helper, bound):
                    if name in steps and (helper == key or bound):
                        own = self.own_calls(helper) if helper != key else self.calls(key, bound)
                        steps[name].calls = list(dict.fromkeys([*steps[name].calls, *own]))
                        steps[name].file = steps[name].file or key[0].name
            for name, given in self.given_calls(key):
                if name in steps:
                    steps[name].calls = list(dict.fromkeys([*steps[name].calls, *given]))
        return list(steps.values())


def launch_picture(root: Path) -> str:
    """Return the picture of the way of one launch: its steps, the calls to hosts, and what may follow each."""
    steps = Flow(root).steps()
    columns, gap, wide = 4, 12, 236
    width = gap + columns * (wide + gap)
    parts = [label(gap, 26, "The usual way", "bold")]
    y = 40.0
    usual = [step for name in USUAL for step in steps if step.name == name]
    height = max(map(len, (step.calls for step in usual))) * LINE + 34
    for number, step in enumerate(usual):
        x = gap + number * (wide + 60)
        parts += _card(step, x, y, (wide, height), step.calls)
        if number:
            arrow = f"M{x - 56:g} {y + height / 2:g}H{x - 8:g}m-8 -5l8 5l-8 5"
            parts.append(f'<path d="{arrow}" fill="none" stroke="#4d5b69" stroke-width="2"/>')
    y += height + 38
    parts.append(label(gap, y - 12, "All steps, the calls to hosts in each, and the steps that may follow", "bold"))
    for first in range(0, len(steps), columns):
        row = [(step, _lines(step)) for step in steps[first : first + columns]]
        height = max(len(lines) for _step, lines in row) * LINE + 34
        for at, (step, lines) in enumerate(row):
            parts += _card(step, gap + at * (wide + gap), y, (wide, height), lines)
        y += height + gap
    return picture(width, y, "The steps of a launch, the calls to hosts in each, and the steps that may follow", parts)


def _lines(step: Step) -> list[str]:
    return [*(step.calls or ["no call"]), *wrapped(f"→ {', '.join(step.followed_by) or 'the end'}", 36)]


def _card(step: Step, x: float, y: float, size: tuple[float, float], lines: Sequence[str]) -> list[str]:
    fill = "#d7ece8" if step.name in USUAL else "#eef1f4"
    parts = [box(x, y, *size, fill), label(x + 10, y + 19, step.name, "bold")]
    parts.append(label(x + size[0] - 10, y + 19, f"{step.file}.py", "grey", "end"))
    return parts + [label(x + 10, y + 37 + LINE * number, text) for number, text in enumerate(lines)]


# ---- drawing --------------------------------------------------------------------------------------------------------


def wrapped(text: str, most: int) -> list[str]:
    """Return text in lines of at most so many letters, words whole."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def box(x: float, y: float, wide: float, high: float, fill: str) -> str:
    """Return a rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="6" fill="{fill}" stroke="#8a99a8"/>'


def label(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """Return text: bold, grey, or neither."""
    look = {"bold": 'font-size="13" font-weight="bold"', "grey": 'font-size="12" fill="#5f6b77"'}.get(
        kind, 'font-size="12"'
    )
    return f'<text x="{x:g}" y="{y:g}" {look} text-anchor="{anchor}">{escape(text)}</text>'


def picture(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return a picture of these parts, on white, so that it can be read in dark pages as well."""
    lines: Sequence[str] = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        COMMENT,
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#ffffff"/>',
        f'<g {FONT} fill="#1f2933">',
        *parts,
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
