"""The pages of a model, an artifact and a profile in a real browser, offline: what a person does there has its effect.

No page says anything in the console or asks for anything but itself.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import onnxc
from onnxc.inspecting.pages import artifact_page, model_page, view_page
from onnxc.runtime.pages.drawing import Box, drawing
from onnxc.runtime.profiling.memory_plan import memory_plan
from onnxc.runtime.profiling.profile import Compiled
from tests.inspecting.browser import Page, needs_chromium, open_browser
from tests.inspecting.example_model import HOSTILE, example_model
from tests.runtime.profiling.test_page import KERNEL, PROFILE

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
    colours = frame(model, "viewNow().boxes.filter(b => b[KIND] === 'node').map(b => colouring(b))")
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
    launches = page.evaluate(column)
    assert len(launches) > 5
    assert launches == [*range(len(launches))]
    page.click("#table0 th")
    assert page.evaluate(column) == launches[::-1]
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


# For a box of a graph of a profile, by side and index: where its middle is on the screen.
BOX = """((side, k) => {
const graph = graphs[side], view = graph.viewNow(), canvas = part(["kernelGraph", "nodeGraph"][side]);
canvas.scrollIntoView({ block: "center" });
const box = view.boxes[k], area = canvas.getBoundingClientRect(), { x, y, scale } = graph.camera;
return [area.left + (box[X] - x) * scale, area.top + (box[Y] + 20 - y) * scale];
})"""
MARKED = "graphs.map(graph => graph.viewNow().boxes.flatMap((box, k) => graph.isMarked(k) ? [titleOf(box)] : []))"
ROWS = "[...document.querySelectorAll('#kernels tr.chosen')].map(row => Number(row.dataset.launch))"


def test_a_click_on_a_kernel_marks_its_nodes_and_one_on_a_node_its_kernels(profile: Page) -> None:
    profile.click(frame(profile, f"{BOX}(0, 1)"))  # type: ignore[arg-type]
    assert frame(profile, MARKED) == [["k0 contraction"], ["MatMul", "Relu"]]
    assert profile.evaluate(ROWS) == [0]
    profile.click(frame(profile, f"{BOX}(1, 3)"))  # type: ignore[arg-type]
    assert frame(profile, MARKED) == [["TopK on the host"], ["TopK"]]
    assert "TopK" in str(profile.evaluate("part('linked').textContent"))
    profile.click(frame(profile, f"{BOX}(1, 5)"))  # type: ignore[arg-type]
    assert frame(profile, MARKED) == [[], ["Constant"]]
    assert "No kernel" in str(profile.evaluate("part('linked').textContent"))
    profile.press("Escape")
    assert frame(profile, MARKED) == [[], []]


def test_kernels_and_nodes_of_a_profile_are_searched_together(profile: Page) -> None:
    profile.click("#graphSearch")
    profile.type("relu")
    listed = "[...document.querySelectorAll('#graphResults button')].map(b => b.textContent)"
    assert profile.evaluate(listed) == ["node: Relu products/rectify"]
    profile.click("#graphResults button")
    assert frame(profile, MARKED) == [["k0 contraction"], ["Relu"]]
    assert profile.evaluate(listed) == []


def test_the_graphs_of_a_profile_zoom_each_by_itself(profile: Page) -> None:
    scales = "['kernelGraph', 'nodeGraph'].map(id => Number(part(id).dataset.scale))"
    kernels, nodes = frame(profile, scales)  # type: ignore[misc]
    profile.click("#kernelButtons button")
    assert frame(profile, scales) == [pytest.approx(kernels * 1.3, rel=0.01), nodes]
    profile.wheel(profile.centre_of("#nodeGraph"), 200)
    profile.wait_until(f"({scales})[1] < {nodes}")
    profile.click("#kernelButtons button:nth-child(3)")
    assert frame(profile, scales) == [pytest.approx(kernels), pytest.approx(float(nodes) * 0.67, rel=0.01)]


def memory_point(page: Page, launch: float, share: float) -> tuple[float, float]:
    """The point of the arena in the middle of a launch, so far from its bottom to its top."""
    page.evaluate("part('memory').scrollIntoView({ block: 'center' })")
    x, y = page.evaluate(
        f"(r => [r.left + 104 + ({launch} + .5) / 2 * (r.width - 112), r.top + 18 + 250 * {1 - share}])"
        "(part('memory').getBoundingClientRect())"
    )  # type: ignore[misc]
    return x, y


def test_what_lies_in_the_arena_is_told_where_the_mouse_is(profile: Page) -> None:
    profile.mouse("mouseMoved", *memory_point(profile, 1, 0.5))
    told = str(frame(profile, "part('memoryHovered').textContent"))
    for text in ("products/rectify", "launch 0 (k0 contraction)", "192 B (192 bytes) at offset 0", "launches 0 to 1"):
        assert text in told
    # The slot has 256 bytes.
    profile.mouse("mouseMoved", *memory_point(profile, 1, 0.9))
    assert str(frame(profile, "part('memoryHovered').textContent")).strip() == ""
    assert "192 B of 256 B are in use at most, in launch 0" in str(profile.evaluate("part('memoryNote').textContent"))


def test_a_click_on_a_value_marks_the_kernel_that_makes_it(profile: Page) -> None:
    profile.click(memory_point(profile, 0, 0.5))
    assert frame(profile, MARKED) == [["k0 contraction"], ["MatMul", "Relu"]]
    assert profile.evaluate(ROWS) == [0]


def test_the_memory_of_a_profile_zooms_along_the_launches(profile: Page) -> None:
    drawn = frame(profile, "[part('memory').dataset.drawn, part('memory').dataset.to]")
    assert drawn == ["5", "2.000"]
    at = memory_point(profile, 0, 0.5)
    for _ in range(8):
        profile.wheel(at, -120)
    profile.wait_until("Number(part('memory').dataset.to) < 1")
    # What only the second launch uses is out of view.
    assert frame(profile, "part('memory').dataset.drawn") == "3"
    profile.click(at, times=2)
    assert frame(profile, "part('memory').dataset.drawn") == "5"


def test_a_profile_without_a_report_has_neither_memory_nor_graphs(page: Page, tmp_path: Path) -> None:
    show(page, replace(PROFILE, memory=None, compiled=Compiled()).html(), tmp_path)
    assert page.evaluate("['memorySection', 'graphsSection'].map(id => part(id).hidden)") == [True, True]
    page.click("#timeline rect")
    assert page.evaluate(ROWS) == [0]


def large_profile(count: int) -> str:
    """The page of a profile of so many launches, each with three nodes and a value for the next two."""
    launches, nodes, lives = [], [], []
    for k in range(count):
        names = [f'graph "main", node {3 * k + j} "layers.{k}/{j}" (ai.onnx.Add-14)' for j in range(3)]
        reads = [f"slot {(k - j) % 3}" for j in (1, 2) if k >= j] or ["x"]
        launches.append({"kind": "pointwise", "node": names[2], "nodes": names, "steps": [{"kernel": "k0"}],
                         "reads": reads, "writes": [f"slot {k % 3}"]})  # fmt: skip
        nodes += [
            {"node": name, "reads": [f"v{3 * k + j}"], "writes": [f"v{3 * k + j + 1}"]} for j, name in enumerate(names)
        ]
        lives.append({"slot": k % 3, "bytes": "64", "first": k, "last": min(k + 2, count - 1)})
    segment = {"prefix": "", "slots": ["64"] * 3, "lives": lives}
    memory = {"segments": [segment], "values": {}, "weights": []}
    report = {"launches": launches, "nodes": nodes, "memory": memory}
    kernels = tuple(replace(KERNEL, launch=k, nodes=tuple(launches[k]["nodes"])) for k in range(count))  # type: ignore[arg-type]
    plan = memory_plan(report, (), (), ())
    return replace(PROFILE, kernels=kernels, memory=plan, compiled=Compiled(report)).html()


@pytest.mark.slow
def test_frames_of_a_profile_of_5_000_launches_are_drawn_within_a_tenth_of_a_second(page: Page, tmp_path: Path) -> None:
    show(page, large_profile(5000), tmp_path)
    page.evaluate("""{ window.spent = []; const request = requestAnimationFrame;
        requestAnimationFrame = act => request(() => {
            const at = performance.now(); act(); spent.push(performance.now() - at); }); }""")
    at = memory_point(page, 0, 0.5)
    for turn in (-120, -120, -120, 120, 120):
        page.wheel(at, turn)
    page.drag(at, (at[0] + 200, at[1]))
    page.click("#kernelButtons button:nth-child(3)")
    page.click("#nodeButtons button:nth-child(3)")
    page.click("#graphSearch")
    page.type("layers.3210/")
    page.click("#graphResults button")
    spent = frame(page, "spent")
    assert isinstance(spent, list)
    assert len(spent) > 8
    assert sorted(spent)[len(spent) // 2] < 100


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
