"""The pages of a model, an artifact and a profile in a real browser, offline: what a person does there has its effect.

No page says anything in the console or asks for anything but itself.
"""

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import onnxc
from onnxc.inspecting.pages import artifact_page, model_page, view_page
from onnxc.runtime.pages.drawing import Box, drawing
from tests.inspecting.browser import Page, needs_chromium, open_browser
from tests.inspecting.example_model import HOSTILE, example_model
from tests.runtime.profiling.test_page import PROFILE

pytestmark = needs_chromium

SIZES = ((1400, 900), (420, 800))

# Where the middle of the box that was found last is on the screen.
CHOSEN = """(() => {
const box = viewNow().boxes[camera.chosen], area = canvas.getBoundingClientRect();
return [area.left + (box[X] - camera.x) * camera.scale, area.top + (box[Y] + 20 - camera.y) * camera.scale];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("browser")) as page:
        page.go_offline()
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The browser; at the end of the test the page must have been silent, and have asked for nothing but itself."""
    browser.resize(*SIZES[0])
    yield browser
    assert browser.complaints() == []
    assert len(browser.requests()) == 1


def show(page: Page, text: str, folder: Path) -> None:
    """Opens the text as a page, from a file."""
    (folder / "page.html").write_text(text)
    page.open((folder / "page.html").as_uri())


def search(page: Page, text: str) -> list[str]:
    """Types into the search; what is found."""
    page.evaluate("document.getElementById('search').value = ''")
    page.click("#search")
    page.type(text)
    return page.evaluate("[...document.querySelectorAll('#results button')].map(b => b.textContent)")  # type: ignore[return-value]


def frame(page: Page, value: str) -> object:
    """The value of an expression once the next frame is drawn."""
    return page.evaluate(f"new Promise(done => requestAnimationFrame(() => setTimeout(() => done({value}))))")


@pytest.fixture
def model(page: Page, tmp_path: Path) -> Page:
    """The page of the example model."""
    onnx.save(example_model(), tmp_path / "m.onnx")
    show(page, model_page(tmp_path / "m.onnx"), tmp_path)
    return page


def test_a_node_that_is_searched_for_is_shown_with_its_types_and_devices(model: Page) -> None:
    assert model.evaluate("document.title") == "onnxc inspect"
    assert search(model, "matmul") == ["MatMul /encoder/layer.0/MatMul"]
    model.click("#results button")
    chosen = str(model.evaluate("part('chosen').textContent"))
    assert "f32[2, 3]" in chosen
    assert "axis 1 by 2" in chosen
    link = model.evaluate("document.querySelector('#chosen a').href")
    assert link == "https://onnx.ai/onnx/operators/onnx__MatMul.html"
    assert search(model, "no such node") == []
    assert model.evaluate("part('results').textContent") == "0 found"


def test_names_of_a_model_are_text(model: Page) -> None:
    search(model, "twice")
    model.click("#results button")
    shown = HOSTILE.replace("\0", "\\u0000").replace("\u202e", "\\u202e")
    assert model.evaluate("viewNow().boxes[camera.chosen][NAME]") == shown
    assert shown in str(model.evaluate("part('chosen').textContent"))


def test_a_double_click_opens_a_function_and_escape_leads_back(model: Page) -> None:
    search(model, "twice")
    model.click("#results button")
    x, y = frame(model, CHOSEN)  # type: ignore[misc]
    model.click((x, y), times=2)
    assert frame(model, "[canvas.dataset.view, canvas.dataset.boxes]") == ["function own.Twice", "3"]
    assert model.evaluate("part('path').textContent") == "function own.Twice"
    model.press("Escape")
    assert frame(model, "canvas.dataset.view") == "main"


def test_the_graphs_of_an_if_are_listed_and_open_by_a_click(model: Page) -> None:
    listed = model.evaluate("[...document.querySelectorAll('#views button')].map(b => b.textContent)")
    assert isinstance(listed, list)
    assert len(listed) == 4
    model.click("#views button:last-of-type")
    assert frame(model, "canvas.dataset.view") == listed[-1].rpartition(" (")[0]


def test_keys_buttons_and_the_wheel_zoom_and_dragging_moves(model: Page) -> None:
    model.click((300, 850))
    scales = [float(str(frame(model, "canvas.dataset.scale")))]
    for act in (lambda: model.press("+"), lambda: model.click("#closer"), lambda: model.wheel((300, 300), -120)):
        act()
        scales.append(float(str(frame(model, "canvas.dataset.scale"))))
    assert scales == sorted(set(scales))
    x, y = model.evaluate("[camera.x, camera.y]")  # type: ignore[misc]
    model.drag((500, 500), (400, 450))
    moved = model.evaluate(f"[(camera.x - {x}) * camera.scale, (camera.y - {y}) * camera.scale]")
    assert moved == pytest.approx([100, 50])
    for _ in range(60):
        model.wheel((300, 300), 200)
    model.click("#all")
    whole = frame(model, "canvas.dataset.boxes")
    assert whole == str(model.evaluate("viewNow().boxes.length"))


def test_colours_are_by_stage_where_the_reader_says_so(model: Page) -> None:
    search(model, "matmul")
    model.click("#results button")
    model.evaluate("part('colours').value = 'stage tp2'; part('colours').dispatchEvent(new Event('change'))")
    assert frame(model, "colouring(viewNow().boxes[camera.chosen])") == "hsl(67 62% 80%)"
    model.evaluate("part('colours').value = 'operator'; part('colours').dispatchEvent(new Event('change'))")
    colours = frame(model, "viewNow().boxes.filter(b => b[KIND] === 'node').map(colouring)")
    assert isinstance(colours, list)
    assert len(set(colours)) == len(colours)


@pytest.mark.parametrize("size", SIZES)
def test_neither_side_of_the_page_of_a_model_is_squeezed(model: Page, size: tuple[int, int], tmp_path: Path) -> None:
    model.resize(*size)
    widths = frame(model, "['stage', 'panel'].map(id => part(id).clientWidth)")
    assert isinstance(widths, list)
    assert min(widths) >= 340
    assert model.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_of_an_artifact_sorts_its_launches(page: Page, tmp_path: Path) -> None:
    onnxc.compile("onnxc/data/digits.onnx").save(tmp_path / "m.onnxc")
    show(page, artifact_page(tmp_path / "m.onnxc"), tmp_path)
    column = "[...document.querySelectorAll('#table0 tbody tr')].map(row => Number(row.cells[0].textContent))"
    assert page.evaluate(column) == [*range(8)]
    page.click("#table0 th")
    assert page.evaluate(column) == [*reversed(range(8))]
    assert page.evaluate("viewNow().boxes.length") == 3


def chain(count: int) -> str:
    """The page of a chain of so many residual blocks of three nodes."""
    boxes = []
    for k in range(count):
        boxes.append(Box("node", f"layers.{k}/a", (f"v{k}",), (f"a{k}",), {"operator": "MatMul"}))
        boxes.append(Box("node", f"layers.{k}/b", (f"a{k}",), (f"b{k}",), {"operator": "Gelu"}))
        boxes.append(Box("node", f"layers.{k}/c", (f"b{k}", f"v{k}"), (f"v{k + 1}",), {"operator": "Add"}))
    return view_page("large", {}, [{"path": "main", "parent": None, "values": {}, **drawing(boxes)}])


def test_of_a_large_graph_only_what_can_be_seen_is_drawn(page: Page, tmp_path: Path) -> None:
    show(page, chain(3000), tmp_path)
    assert 5 <= int(str(frame(page, "canvas.dataset.boxes"))) <= 40
    page.click("#all")
    assert 100 <= int(str(frame(page, "canvas.dataset.boxes"))) <= 1800
    # Something is seen of it, though a box is a fraction of a pixel.
    painted = "context.getImageData(0, 0, canvas.width, canvas.height).data.filter((v, k) => k % 4 === 3 && v > 99)"
    assert int(str(page.evaluate(f"{painted}.length"))) > 300
    assert len(search(page, "layers.2999/")) == 3


@pytest.mark.slow
def test_frames_of_50_000_nodes_are_drawn_within_a_tenth_of_a_second(page: Page, tmp_path: Path) -> None:
    show(page, chain(16_667), tmp_path)
    page.evaluate("""{ const inner = graph.draw; window.spent = [];
        graph.draw = () => { const at = performance.now(); inner(); spent.push(performance.now() - at); }; }""")
    for _ in range(30):
        page.wheel((500, 400), 120)
    page.drag((500, 200), (500, 600))
    for _ in range(30):
        page.wheel((500, 400), -150)
    search(page, "layers.12345/c")
    page.click("#results button")
    spent = frame(page, "spent")
    assert isinstance(spent, list)
    assert len(spent) > 30
    assert sorted(spent)[len(spent) // 2] < 100


@pytest.fixture
def profile(page: Page, tmp_path: Path) -> Page:
    """The page of a profile."""
    show(page, PROFILE.html(), tmp_path)
    return page


def test_the_page_of_a_profile_has_its_rows_and_plots(profile: Page) -> None:
    rows = "id => document.querySelectorAll(`#${id} tbody tr`).length"
    assert profile.evaluate(f"['kernels', 'between', 'operators', 'nodes'].map({rows})") == [1, 2, 2, 2]
    assert profile.evaluate("document.querySelectorAll('#timeline rect').length") == 3
    assert profile.evaluate("document.querySelectorAll('#roofline circle').length") == 1


def test_kernels_of_a_profile_are_searched_and_found_by_a_click_on_their_launch(profile: Page) -> None:
    profile.click("#search")
    profile.type("nothing like it")
    assert profile.evaluate("document.querySelectorAll('#kernels tbody tr').length") == 0
    profile.evaluate("document.getElementById('search').value = ''")
    profile.type("relu")
    profile.press("Backspace")
    assert profile.evaluate("document.querySelectorAll('#kernels tbody tr').length") == 1
    profile.click("#timeline rect")
    assert profile.evaluate("document.querySelectorAll('#kernels tr.chosen').length") == 1


def test_the_timeline_of_a_profile_zooms_and_shows_all_again(profile: Page) -> None:
    width = "Number(document.querySelector('#timeline rect').getAttribute('width'))"
    before = float(str(profile.evaluate(width)))
    at = profile.centre_of("#timeline rect")
    for _ in range(3):
        profile.wheel(at, -120)
    profile.wait_until(f"{width} > {before} * 1.2")
    profile.click(at, times=2)
    assert float(str(profile.evaluate(width))) == pytest.approx(before)


@pytest.mark.parametrize("size", SIZES)
def test_words_of_a_profile_stay_whole_and_the_page_is_not_wider_than_the_screen(
    profile: Page, size: tuple[int, int]
) -> None:
    profile.resize(*size)
    # A word that is broken makes two lines of its cell.
    lines = """[...document.querySelectorAll('#kernels td')].slice(0, 9).map(cell => {
        const text = document.createRange(); text.selectNodeContents(cell); return text.getClientRects().length; })"""
    assert frame(profile, lines) == [1] * 9
    assert profile.evaluate("document.documentElement.scrollWidth <= innerWidth")
