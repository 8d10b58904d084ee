"""A plugin of pytest: ours in the place of onnx's functions while a suite runs, and a file of the outcomes."""

import functools
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.onnx_suites.inference import EXACTER
from tests.onnx_suites.suites import SUITES

OUTCOMES: dict[str, dict[str, str]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("onnx suites")
    group.addoption("--suite", default="", help="the suite whose functions are ours; none for onnx's own")
    group.addoption("--outcomes", default="", help="the file that gets the outcome of each test")


def pytest_configure(config: pytest.Config) -> None:
    suite = config.getoption("--suite")
    if suite:
        replace(SUITES[suite].counterparts)


def replace(counterparts: Mapping[str, Callable[..., object]]) -> None:
    """Puts ours where the tests find onnx's; while one of ours runs, all are onnx's, for ours may use those."""
    inside: list[str] = []
    for name, ours in counterparts.items():
        module_name, _, attribute = name.rpartition(".")
        module = importlib.import_module(module_name)
        setattr(module, attribute, _switched(getattr(module, attribute), ours, inside))


def _switched(theirs: Callable[..., object], ours: Callable[..., object], inside: list[str]) -> Callable[..., object]:
    @functools.wraps(ours)
    def call(*args: object, **options: object) -> object:
        if inside:
            return theirs(*args, **options)
        inside.append(ours.__name__)
        try:
            return ours(*args, **options)
        finally:
            inside.pop()

    return call


@pytest.fixture(autouse=True)
def _forget_names() -> None:
    EXACTER.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        detail = call.excinfo.exconly() if call.excinfo is not None else " ".join(sorted(set(EXACTER)))
        name = item.nodeid.rsplit("/", 1)[-1]
        OUTCOMES[name] = {"outcome": report.outcome, "detail": detail[:2000]}
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--outcomes")
    if path:
        Path(path).write_text(json.dumps(OUTCOMES))
