"""README.md and docs/: links lead somewhere, and every example at least parses. tests/spark runs the examples."""

import ast
import re
import shlex
import subprocess

import pytest
from support.documents.page_examples import LANGUAGES, PAGES, ROOT, examples_of, page_id

from broker_core.cli.command_line import run

LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")
README_LINE_LIMIT = 200
EXAMPLES = [example for page in PAGES for example in examples_of(page)]


def anchors_of(page):
    """GitHub's: headings in lower case, without punctuation, spaces as hyphens."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_link_leads_to_a_file_and_a_heading_that_are_there(page):
    dead = []
    for link in LINK.findall(page.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            dead.append(link)
    assert not dead


def test_the_readme_is_short_and_names_each_page():
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= README_LINE_LIMIT
    assert not [page.name for page in PAGES if page.parent.name == "docs" and f"](docs/{page.name})" not in text]


def test_there_are_examples_of_each_kind_to_look_at():
    assert {example.language for example in EXAMPLES} >= {"python", "bash", "sql"}
    assert any(example.not_run for example in EXAMPLES)
    assert any(example.is_stopped for example in EXAMPLES)
    assert any(example.is_beside for example in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.place)
def test_an_example_is_written_in_a_language_and_parses(example):
    assert example.language in LANGUAGES, "say python, bash, sql or text behind the three backquotes"
    if example.language == "python":
        ast.parse(example.text)
    elif example.language == "bash":
        checked = subprocess.run(["bash", "-n"], input=example.text, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


def streamlog_calls():
    """(place, arguments) of each call of the command in the examples, whether it is run or not."""
    for example in EXAMPLES:
        if example.language != "bash":
            continue
        for line in example.text.replace("\\\n", " ").splitlines():
            for part in re.split(r"\||&&|;", line):
                if part.split()[:1] == ["streamlog"]:
                    words = shlex.split(part.split("<")[0].split(">")[0], comments=True)
                    yield pytest.param(words[1:], id=f"{example.place} {' '.join(words[1:])}")


@pytest.mark.parametrize("words", list(streamlog_calls()))
def test_a_call_of_streamlog_has_only_options_that_the_command_takes(words, capsys):
    # Every option is parsed before the help is shown.
    assert run([*words, "--help"]) == 0, capsys.readouterr().err
