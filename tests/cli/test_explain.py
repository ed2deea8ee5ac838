"""The page of ``dy2st explain``: what is on it, and how a browser shows it."""

import html.parser
import os
import re
import shutil
import subprocess

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from dy2st.cli.explaining import spec
from dy2st.errors import SignatureError
from dy2st.input_spec import InputSpec
from tests.cli.test_commands import bad, good

MODELS = "tests.cli.models"


class Parsed(html.parser.HTMLParser):
    """A page as a reader meets it: the lines of each section with the user's line and the classes that they have."""

    VOID = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.section, self.lines, self.depth, self.deepest, self.links = [], "", {}, 0, 0, []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.links += [attrs[name] for name in ("src", "href") if name in attrs]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = attrs["id"]
            self.lines[self.section] = []
        if tag == "div":
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
        if tag == "span" and "line" in attrs.get("class", "").split():
            self.lines[self.section].append([attrs.get("data-at"), attrs["class"].split()[1:], ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.depth -= tag == "div"

    def handle_data(self, data):
        if self.section and self.lines[self.section] and self.open[-1] == "span":
            self.lines[self.section][-1][2] += data


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "net.html"
    assert "wrote" in good("explain", f"{MODELS}:net", "--spec", "f32[n, 4]", "--output", path)
    return path


def test_the_parts_of_a_page(net):
    page = Parsed(net.read_text(encoding="utf-8"))
    assert page.links == [] and set(page.lines) == {"source", "transformed", "program"}
    assert page.deepest == 3  # the program, the loop, and the branches in it
    (loop,) = [line for line in page.lines["source"] if "while x.sum()" in line[2]]
    (branch,) = [line for line in page.lines["source"] if "if x[0, 0] > 0" in line[2]]
    (unrolled,) = [line for line in page.lines["source"] if "for step in range(2)" in line[2]]
    assert loop[1] == branch[1] == ["captured"] and unrolled[1] in (["plain"], ["unrolled"])
    for at, kind in ((loop[0], "while"), (branch[0], "if")):
        assert any(line[0] == at and f"{kind}_stmt" in line[2] for line in page.lines["transformed"])
        assert any(line[0] == at and f"= {kind} " in line[2] for line in page.lines["program"])
    text = net.read_text(encoding="utf-8")
    assert "http" not in text.replace("http-equiv", "")
    assert re.search(r'<table id="sites">.*captured', text)


def test_the_page_of_a_function(tmp_path):
    good("explain", f"{MODELS}:halve", "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Parsed(text)
    assert "<b>" not in text and "&lt;b&gt;" in text
    assert any("while" in line[2] for line in page.lines["program"])


def test_without_arguments_there_is_no_program(tmp_path):
    good("explain", f"{MODELS}:fails", "-o", tmp_path / "page.html")
    assert "Give the arguments with --spec" in (tmp_path / "page.html").read_text()
    good("explain", f"{MODELS}:fails", "-s", "f32[2]", "-o", tmp_path / "page.html")
    assert "numpy" in (tmp_path / "page.html").read_text()
    good("explain", f"{MODELS}:nothing", "-o", tmp_path / "page.html")
    assert "aten.ones.default" in (tmp_path / "page.html").read_text()
    good("explain", f"{MODELS}:Net", "-s", "f32[n, 4]", "-s", "5.25", "-o", tmp_path / "page.html")
    assert "5.25" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (MODELS, "does not name a function as package.module:function"),
        ("no.such.module:f", "cannot be imported"),
        (f"{MODELS}:missing", "has no missing"),
        (f"{MODELS}:not_a_function", "takes an nn.Module"),
        (f"{MODELS}:NeedsArguments", "cannot be made without arguments"),
    ],
)
def test_names_that_lead_nowhere(name, message, tmp_path):
    assert message in bad("explain", name, "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_specifications_are_read_from_text_or_refused():
    assert spec("f32[n, 4]") == InputSpec([None, 4], "float32")
    assert spec(" i64[] ") == InputSpec([], "int64")
    assert spec("bool[3]") == InputSpec([3], "bool")
    assert spec("int") is int and spec(" float ") is float
    assert spec("'sum'") == "sum" and spec("[1, None]") == [1, None] and spec("-2.5") == -2.5
    for wrong in ("f33[2]", "x", "", "f32[2", "__import__('os')"):
        with pytest.raises(SignatureError, match="neither a tensor"):
            spec(wrong)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_a_browser_draws_the_page_and_runs_its_script(net, tmp_path):
    """It is drawn, its parts stand side by side, and its script runs: pointing at a line marks those that belong to it."""
    page = tmp_path / "page.html"
    probe = """<script>
const loop = [...document.querySelectorAll("#source .line")].find(line => line.textContent.includes("while x.sum()"));
loop.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
const hot = id => document.querySelectorAll(`#${id} .hot`).length;
const box = id => document.getElementById(id).getBoundingClientRect();
document.title = JSON.stringify([hot("source"), hot("transformed"), hot("program"),
  box("source").right <= box("transformed").left, box("transformed").right <= box("program").left, box("program").width > 200]);
</script></body>"""
    page.write_text(net.read_text(encoding="utf-8").replace("</body>", probe), encoding="utf-8")
    common = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=1600,900",
    ]
    environment = os.environ | {"HOME": str(tmp_path)}
    done = subprocess.run([*common, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=600, env=environment)
    title = re.search(r"<title>\[(.*?)\]</title>", done.stdout)
    assert title is not None, done.stderr[-2000:]
    source, transformed, program, *beside = title[1].split(",")
    assert int(source) == 1 and int(transformed) >= 1 and int(program) >= 1 and beside == ["true"] * 3
    picture = tmp_path / "page.png"
    subprocess.run([*common, f"--screenshot={picture}", net.as_uri()], capture_output=True, timeout=600, env=environment)
    assert picture.stat().st_size > 20_000
