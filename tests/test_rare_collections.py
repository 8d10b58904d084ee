"""Searches for garbage are rare while models are compiled, and as before behind it."""

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import onnxc
from onnxc.compiler import driver
from onnxc.compiler.jobs.rare_collections import RARE, import_for_good, rare_collections
from onnxc.compiler.options import make_options
from tests.support.models import model_from_text

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    """Those of the process, which are put back."""
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_they_are_rare_within_and_as_before_behind(thresholds: tuple[int, int, int]) -> None:
    with rare_collections():
        assert gc.get_threshold() == (*RARE, thresholds[2])
        with pytest.raises(ValueError, match="x"), rare_collections():
            raise ValueError("x")
        assert gc.get_threshold()[:2] == RARE
    assert gc.get_threshold() == thresholds


def test_compilations_may_end_in_any_order(thresholds: tuple[int, int, int]) -> None:
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[:2] == RARE
    second.__exit__(None, None, None)
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("own", [(0, 10), (700, 1_000), (50_000, 10)])
def test_a_process_that_has_none_or_rarer_ones_keeps_them(own: tuple[int, int]) -> None:
    gc.set_threshold(*own)
    with rare_collections():
        assert gc.get_threshold()[:2] == own
    assert gc.get_threshold()[:2] == own


def test_what_is_set_in_the_meantime_stays() -> None:
    with rare_collections():
        gc.set_threshold(9)
    assert gc.get_threshold()[0] == 9


def test_a_model_is_compiled_with_rare_ones(monkeypatch: pytest.MonkeyPatch, thresholds: tuple[int, int, int]) -> None:
    seen: list[tuple[int, ...]] = []
    optimize = driver.optimize

    def watched(*arguments: object) -> object:
        seen.append(gc.get_threshold()[:2])
        return optimize(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(driver, "optimize", watched)
    driver.compile_model(model_from_text(MODEL), make_options(cache=None))
    assert (seen, gc.get_threshold()) == ([RARE], thresholds)


def test_what_is_imported_for_compiling_is_not_searched_either(
    monkeypatch: pytest.MonkeyPatch, thresholds: tuple[int, int, int]
) -> None:
    seen: list[tuple[int, ...]] = []
    import_module = importlib.import_module

    def watched(name: str) -> object:
        if name == "onnxc.compiler.options":
            seen.append(gc.get_threshold()[:2])
        return import_module(name)

    monkeypatch.setattr(importlib, "import_module", watched)
    onnxc.compile(model_from_text(MODEL), cache=False)
    assert (seen, gc.get_threshold()) == ([RARE], thresholds)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that is not imported yet, with a list of its own; what a server has frozen is so no more."""
    gc.unfreeze()
    (tmp_path / "for_good.py").write_text("held = [[]]")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "for_good"
    sys.modules.pop("for_good", None)


def test_what_is_imported_for_good_is_old_at_once_and_can_still_become_garbage(module: str) -> None:
    held = import_for_good(module).held
    assert any(each is held for each in gc.get_objects(generation=2))
    assert gc.get_freeze_count() == 0


def test_only_the_first_import_makes_objects_old(module: str) -> None:
    import_for_good(module)
    gc.disable()
    try:
        young: list[list[object]] = [[]]
        import_for_good(module)
        assert not any(each is young for each in gc.get_objects(generation=2))
    finally:
        gc.enable()


def test_what_the_process_has_frozen_stays_so(module: str) -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        import_for_good(module)
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
