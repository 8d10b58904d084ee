"""What a report says of memory: what launches read and write, lifetimes, and names across loops and the host."""

from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.planning.reported_launches import host_ops
from onnxc.compiler.planning.reported_memory import ReportedMemory, reported_memory, size_text
from tests.planning.plans import plan

CHAIN = """module "m" {
function main(%x: f32[N, 8], %w: f32[8, 8]) -> ("y", "z") where N in [0, ...] {
  %0 = dot %x, %w {dtype = f32, equation = "mk,kn->mn"} : f32[N, 8]
  %1 = dot %0, %w {dtype = f32, equation = "mk,kn->mn"} : f32[N, 8]
  %2 = dot %1, %w {dtype = f32, equation = "mk,kn->mn"} : f32[N, 8]
  return %2, %0
}
}"""

COUNTED = """module "m" {
function main(%x: f32[N]) -> ("where", "y") where N in [0, ...] {
  %0 = neg %x : f32[N]
  %1 = non_zero %0 {symbol = "k"} : i64[1, k]
  %2 = abs %1 : i64[1, k]
  %3 = mul %0, %0 : f32[N]
  return %2, %3
}
}"""

LOOP = """module "m" {
function main(%x: f32[N], %n: i64[], %c: bool[]) -> ("y") where N in [0, ...] {
  %0 = neg %x : f32[N]
  %1 = while %n, %c, %0, %x {carried = 1, scans = 0, symbol = "k"} : f32[N]
    block(%i: i64[], %p: f32[N], %t: f32[N]) {
      %going = constant {value = bool[] true} : bool[]
      %next = mul %p, %t : f32[N]
      return %going, %next
    }
  %2 = abs %1 : f32[N]
  return %2
}
}"""


def reported(text: str) -> ReportedMemory:
    return reported_memory(plan(parse_module(text)))


def test_launches_read_and_write_inputs_outputs_and_slots() -> None:
    memory = reported(CHAIN)
    assert memory.launches == (
        {"reads": ["x", "w"], "writes": ["z"]},
        {"reads": ["z", "w"], "writes": ["slot 0"]},
        {"reads": ["slot 0", "w"], "writes": ["y"]},
    )
    assert memory.json["segments"] == [
        {
            "prefix": "",
            "slots": ["64*floordiv(32*s[0] + 63, 64)"],
            "lives": [{"slot": 0, "bytes": "32*s[0]", "first": 1, "last": 2}],
        }
    ]
    assert memory.json["values"] == {"x": "32*s[0]", "w": "256", "z": "32*s[0]", "y": "32*s[0]"}


def test_what_goes_to_the_host_and_back_has_a_name_and_a_size_unless_data_decides() -> None:
    made = plan(parse_module(COUNTED))
    memory = reported_memory(made)
    (counted,) = [op for op in host_ops(made.body) if op.name == "non_zero"]
    written = memory.launches[0]["writes"]
    assert memory.hosts[id(counted)] == {"reads": written, "writes": ["value 1"], "before": 2}
    assert written == ["value 0"]
    assert memory.json["values"] == {
        "x": "4*s[0]", "value 0": "4*s[0]", "value 1": None, "where": None, "y": "4*s[0]",
    }  # fmt: skip


def test_a_loop_reads_and_writes_what_goes_in_and_comes_out_by_their_names_outside() -> None:
    first, inside, last = reported(LOOP).launches
    assert inside == {"reads": [*first["writes"], "x"], "writes": last["reads"]}
    assert last["writes"] == ["y"]


def test_a_size_that_data_decides_has_no_text() -> None:
    values = reported(COUNTED).json["values"]
    assert isinstance(values, dict)
    assert values["value 1"] is None
    assert size_text(12, []) == "12"
