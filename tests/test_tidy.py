"""The shape of the code itself: lengths, banned calls, dead modules, what may stand at the top of the repository."""

import ast
import gc
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOFT_LINE_LIMIT = 400
HARD_LINE_LIMIT = 600
FUNCTION_LINE_LIMIT = 70
REASON = "Longer than 400 lines because"

PACKAGES = ("broker_core", "spark_streamlog")
ENTRY_MODULES = {
    "spark_streamlog.data_source",
    "spark_streamlog.functions",  # for users
    "spark_streamlog.foreach_batch",  # for users
    "spark_streamlog.lag_listener",  # for users
    "spark_streamlog.java_check",  # for the examples and the tests, before there is a session
    "broker_core.cli.main",
    "broker_core.object_cluster.open_objects",  # for users, as the other doors are
    "broker_core.server.pytest_plugin",  # for pytest, by its entry point
    "broker_core.replication.isr_request_queue",  # the simulation drives it; no broker does yet
}
TOP_LEVEL = {
    "pyproject.toml", "README.md", "LICENSE", "spark_streamlog", "broker_core", "tests", "examples", "conf", "docs",
    "pyspark_streamlog.py", ".ci", ".gitignore",
}  # fmt: skip

BANNED_BELOW_THE_DOORS = {"open", "print", "input", "exec", "eval", "breakpoint"}
FLOORS_WITHOUT_FILES = (
    *(
        "model",
        "record",
        "protocol",
        "log",
        "coordinator",
        "raft",
        "replication",
        "metadata",
        "group",
        "txn",
        "object_log",
        "storage",
    ),
)


def source_files(*suffixes):
    return sorted(
        path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in (suffixes or (".py",))
    )


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def syntax_tree(path):
    # The trees are kept. Collections while they grow would look at all of them again and again: 6 s instead of 1.
    gc.disable()
    try:
        return ast.parse(path.read_text(), str(path))
    finally:
        gc.enable()


def functions_of(path):
    return [n for n in ast.walk(syntax_tree(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_a_file_is_short_or_says_why_it_is_not():
    found = []
    for path in source_files(".py", ".pyx"):
        text = path.read_text()
        lines = text.count("\n")
        if lines > HARD_LINE_LIMIT:
            found.append(f"{path.relative_to(ROOT)} has {lines} lines: it is two things")
        elif lines > SOFT_LINE_LIMIT and REASON not in text:
            found.append(f"{path.relative_to(ROOT)} has {lines} lines and no line '{REASON} …'")
    assert not found


def test_a_function_fits_on_a_screen():
    found = [
        f"{path.relative_to(ROOT)}: {f.name} has {f.end_lineno - f.lineno + 1} lines"
        for path in source_files()
        for f in functions_of(path)
        if f.end_lineno - f.lineno + 1 > FUNCTION_LINE_LIMIT
    ]
    assert not found


def test_lower_floors_open_no_files_and_print_nothing():
    found = []
    for floor in FLOORS_WITHOUT_FILES:
        for path in sorted((ROOT / "broker_core" / floor).rglob("*.py")):
            for node in ast.walk(syntax_tree(path)):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in BANNED_BELOW_THE_DOORS
                ):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} calls {node.func.id}()")
    assert not found


def test_async_functions_stand_only_in_the_server():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in source_files()
        if "server" not in path.parts
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    ]
    assert not found


def test_every_module_is_used_by_another_one_or_is_an_entry():
    used = set(ENTRY_MODULES)
    for path in [*source_files(), ROOT / "pyspark_streamlog.py"]:
        here = module_name(path)
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.Import):
                used.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                used.add(node.module)
                used.update(f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                pytest.fail(f"{here} imports relatively: write the whole name")
    dead = [module_name(p) for p in source_files() if p.name != "__init__.py" and module_name(p) not in used]
    assert not dead


def test_every_module_says_what_it_is():
    assert not [str(p) for p in source_files() if p.stat().st_size and not ast.get_docstring(syntax_tree(p))]


def test_modules_are_named_after_what_they_hold():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
    assert not [str(p) for p in source_files(".py", ".pyx") if p.stem in vague or p.parent.name in vague]


def test_no_two_classes_have_the_same_name():
    places = defaultdict(list)
    for path in [*source_files(), *sorted((ROOT / "tests").rglob("*.py"))]:
        # Not by the syntax tree: parsing all the tests takes seconds.
        for name in re.findall(r"(?m)^ *class (\w+)[(:]", path.read_text()):
            places[name].append(str(path.relative_to(ROOT)))
    assert "WritablePartition" in places, "no classes were found"
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_each_unit_test_mirrors_a_module():
    orphans = []
    for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py")):
        folder = path.parent.relative_to(ROOT / "tests" / "unit")
        stem = path.stem.removeprefix("test_")
        owners = [p.stem for p in (ROOT / folder).glob("*.py*")]
        if not any(stem == owner or stem.startswith(owner + "_") for owner in owners):
            orphans.append(str(path.relative_to(ROOT)))
    assert not orphans


def test_nothing_is_left_unfinished():
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in source_files(".py", ".pyx")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert not found


def test_the_top_of_the_repository_holds_what_it_should():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout, so what belongs to the project cannot be told from what lies about")
    assert {name.split("/")[0] for name in listed.stdout.splitlines()} <= TOP_LEVEL
