"""The pages of a model and of a profile in a real browser: no message in the console, and clicks do something."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest

from onnxc.inspecting.drawing import Box, drawing
from onnxc.inspecting.pages import model_page, view_page
from tests.inspecting.example_model import HOSTILE, example_model
from tests.runtime.profiling.test_page import PROFILE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which is not installed here")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--window-size=1400,900", "--enable-logging=stderr",
    "--virtual-time-budget=2000", "--dump-dom",
)  # fmt: skip

# What a person would do, and what is then on the page.
CLICKS = """
<script>
const shown = {};
const typed = text => { part("search").value = text; part("search").dispatchEvent(new Event("input")); };
typed("matmul");
shown.results = [...document.querySelectorAll("#results button")].map(b => b.textContent);
document.querySelector("#results button").click();
shown.chosen = part("chosen").textContent;
shown.link = part("chosen").querySelector("a").href;
part("colours").value = "stage tp2"; part("colours").dispatchEvent(new Event("change")); draw();
shown.fill = colouring(viewNow(), viewNow().boxes[camera.chosen]);
camera.colours = "devices constructor"; draw();
typed("twice"); document.querySelector("#results button").click(); draw();
const box = viewNow().boxes[camera.chosen], area = canvas.getBoundingClientRect();
const [x, y] = [(box[X] - camera.x) * camera.scale, (box[Y] + 20 - camera.y) * camera.scale];
const at = { clientX: area.left + x, clientY: area.top + y };
shown.name = box[NAME];
canvas.dispatchEvent(new MouseEvent("dblclick", at)); draw();
shown.opened = canvas.dataset.view; shown.drawn = canvas.dataset.boxes;
canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "+" })); draw();
shown.scale = Number(canvas.dataset.scale);
canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" })); draw();
shown.back = canvas.dataset.view;
document.body.dataset.shown = JSON.stringify(shown);
</script></body>
"""


def open_page(page: str, folder: Path) -> str:
    """The document of the page once its code has run; what is in the console fails."""
    assert CHROMIUM is not None
    (folder / "page.html").write_text(page)
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", (folder / "page.html").as_uri()]
    environment = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=True)
    assert re.findall(r".*CONSOLE.*", done.stderr) == []
    return done.stdout


def shown_of(document: str) -> object:
    """What the code of a test has left in the page."""
    recorded = re.search(r'data-shown="([^"]*)"', document)
    assert recorded is not None
    return json.loads(html.unescape(recorded[1]))  # type: ignore[no-any-return]


def test_the_page_of_a_model_searches_shows_and_opens(tmp_path: Path) -> None:
    onnx.save(example_model(), tmp_path / "m.onnx")
    document = open_page(model_page(tmp_path / "m.onnx").replace("</body>", CLICKS), tmp_path)
    shown = shown_of(document)
    assert isinstance(shown, dict)
    assert shown["results"] == ["MatMul /encoder/layer.0/MatMul"]
    assert "f32[2, 3]" in shown["chosen"]
    assert "axis 1 by 2" in shown["chosen"]
    assert shown["link"] == "https://onnx.ai/onnx/operators/onnx__MatMul.html"
    assert shown["fill"] == "hsl(67 62% 80%)"
    assert shown["name"] == HOSTILE.replace("\0", "\\u0000").replace("\u202e", "\\u202e")
    assert (shown["opened"], shown["drawn"], shown["back"]) == ("function own.Twice", "3", "main")
    assert shown["scale"] > 1.2
    assert "<title>onnxc inspect</title>" in document


def test_of_a_large_graph_only_what_can_be_seen_is_drawn(tmp_path: Path) -> None:
    chain = (Box("node", f"n{k}", (f"v{k}",), (f"v{k + 1}",), {"operator": "Relu"}) for k in range(4000))
    view = {"path": "main", "parent": None, "values": {}, **drawing([*chain])}
    counted = """<script>
    draw(); const first = canvas.dataset.boxes; lookAtAll(); draw();
    document.body.dataset.shown = JSON.stringify([first, canvas.dataset.boxes, indexOf(viewNow()).rows.length]);
    </script></body>"""
    document = open_page(view_page("large", {}, [view]).replace("</body>", counted), tmp_path)
    first, everything, rows = map(int, shown_of(document))  # type: ignore[call-overload]
    assert rows == 4000
    assert 5 <= first <= 20
    assert 100 <= everything <= 900


def test_the_page_of_a_profile_has_its_rows_and_plots(tmp_path: Path) -> None:
    document = open_page(PROFILE.html(), tmp_path)
    tables = {
        name: body.count("<tr") for name, body in re.findall(r'<table id="(\w+)">.*?<tbody>(.*?)</tbody>', document)
    }
    assert tables == {"kernels": 1, "operators": 2, "nodes": 2}
    assert (document.count("<rect"), document.count("<circle")) == (3, 1)
