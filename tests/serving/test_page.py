"""The page of a server in a real browser: models, live figures, and the form that tries a model."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import onnxc
from tests.inspecting.browser import Page, needs_chromium, open_browser
from tests.serving.live_server import LiveServer, live_server, scaled, write_version
from tests.support.models import model_from_text

pytestmark = needs_chromium

TRIED = "document.querySelector('[data-model=scaled] pre').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(browser: Page, server: LiveServer) -> Page:
    """The page of the server, with its models."""
    browser.resize(1400, 900)
    browser.open(f"http://{server.http}/")
    browser.wait_until("document.querySelectorAll('section[data-model] .figures span').length >= 20")
    return browser


def try_scaled(page: Page, request: str | None = None) -> str:
    """Opens the form of the model, puts a request there unless it is to stay what it is, and sends it."""
    if not page.evaluate("document.querySelector('[data-model=scaled] details').open"):
        page.click("[data-model=scaled] summary")
    page.wait_until("document.querySelector('[data-model=scaled] textarea').value")
    if request is not None:
        page.evaluate(f"document.querySelector('[data-model=scaled] textarea').value = {json.dumps(request)}")
    before = page.evaluate(TRIED)
    page.click("[data-model=scaled] button")
    page.wait_until(f"{TRIED} !== {json.dumps(before)}")
    return str(page.evaluate(TRIED))


def test_the_page_has_models_with_their_signatures_and_asks_no_other_host(page: Page, server: LiveServer) -> None:
    shown = str(page.evaluate("document.body.innerText"))
    assert "scaled, version 2" in shown
    assert "FP32 [?, 4]" in shown
    assert "requests/s" in shown
    assert {address.split("/")[2] for address in page.requests()} == {server.http}
    assert page.complaints() == []


def test_the_form_tries_a_model_and_its_figures_follow(page: Page) -> None:
    first = try_scaled(page)
    assert json.loads(first.partition("\n")[2])["outputs"][0]["data"] == [0, 0, 0, 0]
    data = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    second = try_scaled(page, json.dumps({"inputs": [data]}))
    assert json.loads(second.partition("\n")[2])["outputs"][0]["data"] == [3, 6, 9, 12]
    page.wait_until("/latency, up to [0-9.]+ ms/.test(document.querySelector('[data-model=scaled]').innerText)")
    page.wait_until("document.querySelector('[data-model=scaled] path').getAttribute('d').includes('L')")
    assert page.complaints() == []


@pytest.mark.parametrize(("request_text", "said"), [("{", "JSON"), ('{"inputs": []}', "missing-input")])
def test_what_is_wrong_with_a_request_stands_below_the_form(page: Page, request_text: str, said: str) -> None:
    assert said in try_scaled(page, request_text)
    assert page.evaluate("document.querySelector('[data-model=scaled] pre').className") == "bad"


@pytest.mark.parametrize("width", [1400, 420])
def test_the_page_is_not_wider_than_the_screen(page: Page, width: int) -> None:
    page.resize(width, 800)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_model_that_failed_says_why_and_names_are_text(browser: Page, tmp_path: Path) -> None:
    name = "<img src=x onerror=document.title='broken'>"
    (tmp_path / "models" / "named" / "1").mkdir(parents=True)
    model = model_from_text(scaled(2))
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    onnxc.compile(model).save(tmp_path / "models" / "named" / "1" / "model.onnxc")
    (tmp_path / "models" / "broken" / "1").mkdir(parents=True)
    (tmp_path / "models" / "broken" / "1" / "model.onnx").write_text("nothing")
    with live_server(tmp_path / "models", tmp_path / "cache") as server:
        browser.open(f"http://{server.http}/")
        browser.wait_until("document.querySelectorAll('section').length === 2")
        assert "error[not-a-model]" in str(browser.evaluate("document.body.innerText"))
        assert name in str(browser.evaluate("document.body.innerText"))
        assert browser.evaluate("document.title") == "onnxc serve"
        assert browser.complaints() == []


def test_a_server_with_a_token_wants_it_and_shows_its_models_then(browser: Page, tmp_path: Path) -> None:
    write_version(tmp_path / "models", "scaled", 1, scaled(2))
    (tmp_path / "token").write_text("open sesame")
    with live_server(tmp_path / "models", tmp_path / "cache", ("--token-file", str(tmp_path / "token"))) as server:
        browser.open(f"http://{server.http}/")
        browser.wait_until("document.getElementById('state').className === 'bad'")
        assert browser.evaluate("document.querySelectorAll('section').length") == 0
        browser.click("#token")
        browser.type("open sesame")
        browser.wait_until("document.querySelectorAll('section[data-model]').length === 1")
        browser.wait_until("document.getElementById('state').textContent === ''")
