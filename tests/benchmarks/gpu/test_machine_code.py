"""The machine code of models: which lines kernels and models break, what the table says, and a small model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx
import pytest

from benchmarks.gpu.machine_code import __main__ as command
from benchmarks.gpu.machine_code.code import MachineCode, code_of
from benchmarks.gpu.machine_code.compiled_model import CompiledModel, Request, TakenKernel
from benchmarks.gpu.machine_code.lines import broken_by_kernel, broken_by_model, is_large_product, is_stem, stages_of
from benchmarks.gpu.machine_code.table import HEAD, broken_text, row_of
from onnxc.compiler.codegen_gpu.compile.listing import Listing
from onnxc.compiler.ir.module import Module
from onnxc.compiler.planning.schedules import ContractionSchedule, Warps
from onnxc.compiler.target import Target
from tests.codegen_gpu.support import SM_80, SM_90, Device, make
from tests.support.fake_gpu import fake_kernels
from tests.support.models import model_from_text
from tests.support.window_forms import NONE, ONES, Convolution

REQUEST = Request("model", Path("model.onnx"), "cuda:sm_90", "bf16", {"batch": 32})


def product(type: str, rows: int = 8192, depth: int = 4096) -> Module:
    return make([f"{type}[{rows}, {depth}]", f"{type}[{depth}, 4096]"], lambda ir, a, b: ir.dot(a, b, "mk,kn->mn"))


def windows(channels: int) -> Module:
    case = Convolution("tiles", (8, channels, 64, 64), (64, channels, 3, 3), ONES, NONE, NONE, ONES)
    return make(
        [f"bf16[8, {channels}, 64, 64]", f"bf16[64, {channels}, 3, 3]"], lambda ir, x, w: case.build(ir, x, w, False)
    )


@cache
def planned(build: Callable[..., Module], *arguments: object, target: Target = SM_90) -> TakenKernel:
    """The first launch of the last kernel of a module, with code that breaks no line."""
    device = Device(build(*arguments), target)
    kernel = device.plan.kernels[-1]
    source = device.code(len(device.plan.kernels) - 1).steps[0].source
    made = replace(fake_kernels([source])[0], registers=168, stack_bytes=0, shared_bytes=192 << 10)
    return TakenKernel(kernel, source, made, MachineCode({"HGMMA": 8}, 6, 0, 0), ("a", "b"), frozenset())


def broken(kernel: TakenKernel, target: Target = SM_90) -> list[str]:
    return list(broken_by_kernel(kernel, target))


def coded(kernel: TakenKernel, **changes: object) -> TakenKernel:
    return replace(kernel, code=replace(kernel.code, **changes))  # type: ignore[arg-type]


def scheduled(kernel: TakenKernel, **changes: object) -> TakenKernel:
    schedule = replace(kernel.planned.scheduled(ContractionSchedule), **changes)  # type: ignore[arg-type]
    return replace(kernel, planned=replace(kernel.planned, schedule=schedule))


def test_code_is_what_is_looked_for_in_a_listing() -> None:
    names = (
        "LDG.E.U8", "UTMALDG.2D", "HGMMA.64x128x16.F32.BF16", "LDG.E.U16.CONSTANT", "LDG.E.S8", "LDG.E.128", "LDG.E",
        "LDS.U16", "USETMAXREG.DEALLOC.CTAPOOL", "BRA", "STG.E.U16", "HMMA.16816.F32",
    )  # fmt: skip
    code = code_of(Listing(names, (frozenset(range(1, 10)), frozenset((0,)))))
    assert code == MachineCode({"HGMMA": 1, "HMMA": 1}, 1, 1, 2)
    # Of two loops that multiply the one within counts.
    assert code_of(Listing(names, (frozenset(range(10)), frozenset((2, 9))))).narrow_loads == 0
    assert code_of(Listing(names, ())).narrow_loads == 0
    assert code_of(Listing((), ())) == MachineCode({}, 0, 0, 0)


@pytest.mark.parametrize("rows", [64, 8192])
def test_a_kernel_as_it_is_to_be_breaks_nothing(rows: int) -> None:
    kernel = planned(product, "bf16", rows)
    assert is_large_product(kernel)
    assert broken(kernel) == []


def test_a_stack_breaks_a_line() -> None:
    kernel = planned(product, "bf16")
    assert broken(replace(kernel, device=replace(kernel.device, stack_bytes=8))) == ["8 bytes of stack"]


@pytest.mark.parametrize(
    ("type", "wanted"), [("bf16", "HGMMA"), ("f16", "HGMMA"), ("f32", "HGMMA"), ("f8e4m3fn", "QGMMA")]
)
def test_large_products_are_of_what_groups_of_warps_multiply(type: str, wanted: str) -> None:
    kernel = coded(planned(product, type), block_copies=0)
    others = {"HMMA": 8, "IMMA": 8, **({"HGMMA": 8} if wanted != "HGMMA" else {})}
    assert f"a large product without {wanted}" not in broken(coded(kernel, matrix={wanted: 1}))
    assert f"a large product without {wanted}" in broken(coded(kernel, matrix=others))
    assert f"a large product without {wanted}" in broken(coded(kernel, matrix={}))


def test_other_cards_and_few_rows_may_multiply_by_single_warps() -> None:
    few = planned(product, "bf16", 16)
    assert not is_large_product(few)
    assert broken(coded(few, matrix={"HMMA": 8}, block_copies=0)) == []
    older = coded(planned(product, "bf16", target=SM_80), block_copies=0, matrix={"HMMA": 8})
    assert broken(older, SM_80) == []
    assert broken(coded(older, matrix={}), SM_80) == ["a large product without tensor cores"]


def test_blocks_are_copied_in_three_stages_that_there_is_memory_for() -> None:
    kernel = planned(product, "bf16")
    schedule = kernel.planned.scheduled(ContractionSchedule)
    assert schedule.block_copies
    assert broken(coded(kernel, block_copies=0)) == ["the plan has block copies, the code none"]
    two = scheduled(kernel, workers=Warps(4, 2))
    assert (stages_of(two), broken(two)) == (2, ["block copies in 2 stages"])
    stage = (schedule.tile.rows + schedule.tile.columns) * schedule.tile.depth * 2
    little = replace(kernel, device=replace(kernel.device, shared_bytes=2 * stage + 16))
    assert broken(little) == ["block copies in 2 stages"]
    assert stages_of(coded(kernel, block_copies=0)) is None
    # Of two blocks along k no third is under way.
    for blocks, stages in ((2, None), (3, 2)):
        depth = planned(product, "bf16", 8192, blocks * schedule.tile.depth)
        assert stages_of(scheduled(depth, tile=schedule.tile, workers=Warps(4, 2))) == stages


def test_registers_are_handed_over_where_the_plan_has_that() -> None:
    kernel = scheduled(planned(product, "bf16"), hands_over=True)
    assert broken(kernel) == ["no registers are handed over"]
    assert broken(coded(kernel, handings_over=2)) == []


def test_loads_of_a_byte_or_two_are_for_stems() -> None:
    (text,) = broken(coded(planned(product, "bf16"), narrow_loads=4))
    assert text == "4 loads of one byte or two in the loop that multiplies"
    stem, layer = (coded(planned(windows, channels), narrow_loads=4, block_copies=0) for channels in (3, 32))
    assert (is_stem(stem), is_stem(layer)) == (True, False)
    assert (broken(stem), broken(layer)) == ([], [text])


def model(*kernels: TakenKernel, **changes: float) -> CompiledModel:
    return replace(CompiledModel(kernels, 20.0, 10.0, 1.0, 0.1), **changes)  # type: ignore[arg-type]


def test_models_are_compiled_in_a_minute_and_again_in_two_seconds() -> None:
    kernel = planned(product, "bf16")
    assert list(broken_by_model(model(kernel))) == []
    assert list(broken_by_model(model(kernel, least_s=61.4))) == ["61 s to compile on two cores"]
    assert list(broken_by_model(model(kernel, warm_s=2.0))) == ["2.0 s to compile again"]
    assert list(broken_by_model(model())) == []


@pytest.mark.parametrize("kind", ["IGMMA", "IMMA", "QGMMA"])
def test_quantised_models_multiply_bytes(kind: str) -> None:
    kernel = replace(planned(product, "bf16"), operators=frozenset(("QuantizeLinear", "MatMul")))
    assert list(broken_by_model(model(kernel))) == ["a quantised model without products of bytes on tensor cores"]
    assert list(broken_by_model(model(kernel, coded(kernel, matrix={kind: 2})))) == []
    # What only keeps its weights in bytes multiplies floats.
    assert list(broken_by_model(model(replace(kernel, operators=frozenset(("DequantizeLinear",)))))) == []


def test_a_row_counts_kernels() -> None:
    kernel = planned(product, "bf16")
    two = scheduled(kernel, workers=Warps(4, 2))
    row = row_of(REQUEST, model(kernel, two, coded(planned(windows, 3), narrow_loads=1, block_copies=0)), SM_90)
    cells = dict(zip(HEAD, row.cells, strict=False))
    assert cells == {
        "model": "model", "precision": "bf16", "sizes": "batch=32", "kernels": "3", "registers": "168", "stack": "0",
        "multiplied by": "HGMMA 3", "large, not in groups": "0", "stages": "2", "narrow loads": "0", "of the stem": "1",
        "handed over": "0", "cold s": "20.0", "planned s": "1.0", "warm s": "0.1",
    }  # fmt: skip
    ((where, text),) = row.broken
    assert (where, text) == (two, "block copies in 2 stages")
    assert broken_text(where, text).endswith("of a, b: block copies in 2 stages")
    assert broken_text(None, "2.0 s to compile again") == "2.0 s to compile again"


def test_models_are_files_or_folders_of_them(tmp_path: Path) -> None:
    for name in ("b", "a"):
        onnx.save(
            model_from_text('<ir_version: 10, opset_import: ["" : 21]> m (float[n] x) => (float[n] y) { y = Exp (x) }'),
            tmp_path / f"{name}.onnx",
        )
    folder, file = str(tmp_path), str(tmp_path / "b.onnx")

    def asked(*arguments: str) -> list[tuple[str, str, Mapping[str, int]]]:
        requests = command.requests(command.parse_options(["--models", *arguments]))
        return [(request.name, request.precision, request.sizes) for request in requests]

    assert asked(folder, file) == [("a", "bf16", {}), ("b", "bf16", {}), ("b", "bf16", {})]
    assert asked(file, "--precision", "fp32", "fp16", "--sizes", "symbolic", "n=2,k=3") == [
        ("b", precision, sizes) for precision in ("fp32", "fp16") for sizes in ({}, {"n": 2, "k": 3})
    ]
    assert asked(folder, "--only", "a") == [("a", "bf16", {})]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """The exit code of the command, and the lines below the head of its table."""
    code = command.main(arguments)
    return code, capsys.readouterr().out.splitlines()[2:]


def product_of_rows(folder: Path, depth: int) -> str:
    """The file of a model that multiplies rows of so many elements, in f16."""
    text = f"""
    <ir_version: 10, opset_import: ["" : 21]>
    rows (float16[batch, {depth}] x, float16[{depth}, 128] w) => (float16[batch, 128] y) {{ [layer] y = MatMul (x, w) }}
    """
    onnx.save(model_from_text(text), folder / "rows.onnx")
    return str(folder / "rows.onnx")


def seconds_in(cache: Path) -> Mapping[str, bytes]:
    """What is kept of the seconds that kernels took, by the names of its files."""
    return {file.name: file.read_bytes() for file in cache.rglob("*.seconds")}


@pytest.mark.slow
def test_a_small_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "table.md"
    arguments = ("--models", product_of_rows(tmp_path, 256), "--cache", str(tmp_path / "cache"), "--out", str(out))
    # A model without the symbol has no row.
    sizes = ("--sizes", "batch=4096", "unknown=3")
    code, (row,) = run(capsys, *arguments, *sizes)
    taken = seconds_in(tmp_path / "cache")
    other_code, (same,) = run(capsys, *arguments, *sizes)
    assert code == other_code == 0
    cells = dict(zip(HEAD, row.strip("| ").split(" | "), strict=False))
    assert (cells["model"], cells["sizes"], cells["kernels"], cells["stack"]) == ("rows", "batch=4096", "1", "0")
    assert cells["multiplied by"] == "HGMMA 1"
    assert int(cells["stages"]) >= 3
    # No kernel was compiled again: what each took is still what it took then.
    assert taken
    assert seconds_in(tmp_path / "cache") == taken
    assert out.read_text().splitlines()[2:] == [same]


@pytest.mark.slow
def test_a_kernel_that_breaks_a_line_is_named_with_its_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of 195 elements of two bytes begin anywhere, and are loaded one element at a time."""
    code, (row, text) = run(capsys, "--models", product_of_rows(tmp_path, 195), "--sizes", "batch=4096")
    assert code == 1
    assert row.endswith(" | 1 |")
    assert "layer" in text
    assert "loads of one byte or two" in text


@pytest.mark.slow
def test_what_does_not_compile_is_a_row_and_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    code, (row,) = run(capsys, "--models", str(tmp_path / "bad.onnx"))
    assert code == 1
    assert row.startswith("| bad | bf16 | symbolic | does not compile: ")
