"""The page and the trace of a profile: whole, self-contained, and safe whatever a model's names are."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

from onnxc.runtime.profiling.limits import Bandwidth, Limits
from onnxc.runtime.profiling.memory_plan import memory_plan
from onnxc.runtime.profiling.profile import BetweenTime, Compiled, HostTime, KernelTime, Profile
from onnxc.runtime.profiling.trace import Event

NODES = (
    'graph "main", node 0 "products/first" (ai.onnx.MatMul-13)',
    'graph "main", node 1 "products/rectify" (ai.onnx.Relu-14)',
    'graph "main", node 2 "order" (ai.onnx.TopK-11)', 'graph "main", node 3 "sum" (ai.onnx.Add-14)',
    'graph "main", node 4 "unused" (ai.onnx.Constant-25)',
)  # fmt: skip
KERNEL = KernelTime(
    launch=0, kernel="k0", kind="contraction", algorithm="panels", schedule="96 x 64", why="B is packed",
    nodes=("node 0 (MatMul)", "node 1 (Relu)"), operators=("MatMul", "Relu"), executions=1, seconds=3e-6,
    least_seconds=2e-6, share=0.6, flops=3e5, bytes=3e3, flops_per_second=1e11, bytes_per_second=1e9,
    roofline_share=0.5, bound="operations",
)  # fmt: skip
# Two launches, of which the first is that of KERNEL, and a step on the host between them; a node that has no kernel.
REPORT = {
    "launches": [
        {
            "kind": "contraction", "node": NODES[1], "nodes": [*NODES[:2]], "steps": [{"kernel": "k0"}],
            "reads": ["x", "weight 0"], "writes": ["slot 0"],
        },
        {
            "kind": "pointwise", "node": NODES[3], "nodes": [NODES[3]], "steps": [{"kernel": "k1"}],
            "reads": ["slot 0", "value 0"], "writes": ["y"],
        },
    ],
    "host_steps": [{"op": "sort", "node": NODES[2], "reads": ["x"], "writes": ["value 0"], "before": 1}],
    "nodes": [
        {"node": NODES[0], "reads": ["x"], "writes": ["p"]},
        {"node": NODES[1], "reads": ["p"], "writes": ["r"]},
        {"node": NODES[2], "reads": ["x"], "writes": ["s"]},
        {"node": NODES[3], "reads": ["r", "s"], "writes": ["y"]},
        {"node": NODES[4], "reads": [], "writes": ["c"]},
    ],
    "memory": {
        "segments": [
            {"prefix": "", "slots": ["64*s[0]"], "lives": [{"slot": 0, "bytes": "48*s[0]", "first": 0, "last": 1}]},
        ],
        "values": {"x": "16*s[0]", "value 0": "16*s[0]", "y": "48*s[0]"},
        "weights": [1024],
    },
}  # fmt: skip
PROFILE = Profile(
    model="m", threads=2, calls=5, sizes={"N": 4}, call_seconds=5e-6, recorded_seconds=5e-6, kernel_seconds=3e-6,
    host_seconds=1e-6, between_seconds=1e-6, limits=Limits(2, 2e11, (Bandwidth(1000, 1e10), Bandwidth(10**8, 2e9))),
    kernels=(KERNEL,), host=(HostTime("sort", "node 2", 1, 1e-6, 0.2),),
    between=(BetweenTime("entering the call", 1, 5e-7, 0.1), BetweenTime("leaving the call", 1, 5e-7, 0.1)),
    events=(
        Event("launch", "k0 contraction", 0, 0.5, 3.0, 0),
        Event("chunk", "k0 contraction", 1, 0.75, 2.0, 0),
        Event("host", "sort node 2", 0, 3.5, 1.0, -1),
    ),
    memory=memory_plan(REPORT, [4], ["x"], ["y"]), compiled=Compiled(REPORT, ("x",), ("y",)),
)  # fmt: skip


class Page(HTMLParser):
    """The ids, the attributes that could load something, and the texts of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.scripts: dict[str, str] = {}
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.ids |= {str(given["id"])} if "id" in given else set()
        self.loaded += [str(given[name]) for name in ("src", "href", "action", "data") if name in given]
        self._script = (given.get("type") or "code") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._script = None


def test_the_page_holds_the_profile_and_asks_nothing_of_a_network() -> None:
    page = Page(PROFILE.html())
    data = json.loads(page.scripts["application/json"])
    assert len(data.pop("graphs")["links"]) == 5
    assert data == json.loads(json.dumps(PROFILE.to_json()))
    assert page.loaded == []
    code = page.scripts["code"]
    assert re.findall(r"fetch|XMLHttpRequest|WebSocket|import\(|innerHTML|eval\(", code) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", PROFILE.html()) == []
    assert PROFILE.html().isascii()


def test_the_code_of_the_page_names_elements_and_fields_that_are_there() -> None:
    page = Page(PROFILE.html())
    code = page.scripts["code"]
    named = set(re.findall(r'(?:getElementById|makeTable|part)\("(\w+)"', code))
    assert named <= page.ids
    data = PROFILE.to_json()
    assert set(re.findall(r"\bprofile\.(\w+)", code)) - {"graphs"} <= set(data)
    assert set(re.findall(r"\bmemory\.(\w+)", code)) <= set(data["memory"])  # type: ignore[arg-type]
    assert set(re.findall(r"\buse\.(\w+)", code)) <= set(data["memory"]["uses"][0])  # type: ignore[call-overload, index, arg-type]
    assert set(re.findall(r"\bk\.(\w+)", code)) <= set(data["kernels"][0])  # type: ignore[call-overload, index, arg-type]
    of_mouse = {"target", "clientX", "clientY", "key"}
    assert set(re.findall(r"\bevent\.(\w+)", code)) - of_mouse <= set(data["events"][0])  # type: ignore[call-overload, index, arg-type]
    assert set(re.findall(r"\bt\.(\w+)", code)) <= set(data["nodes"][0])  # type: ignore[call-overload, index, arg-type]
    assert set(re.findall(r"\bt\.(\w+)", code)) <= set(data["between"][0])  # type: ignore[call-overload, index, arg-type]


def test_names_cannot_leave_the_data() -> None:
    hostile = "</script><script>alert(1)</script><!-- /*DATA*/ \u2028"
    page = Page(replace(PROFILE, model=hostile, kernels=(replace(KERNEL, nodes=(hostile,)),)).html())
    assert page.tags.count("script") == 2
    assert json.loads(page.scripts["application/json"])["model"] == hostile


def test_a_notebook_shows_the_page_within_a_frame() -> None:
    shown = Page(PROFILE._repr_html_())
    assert shown.tags == ["iframe"]


def test_seconds_go_to_the_node_that_a_kernel_was_built_around() -> None:
    assert [(total.name, total.seconds) for total in PROFILE.by_node()] == [
        ("node 0 (MatMul)", 3e-6),
        ("sort on the host", 1e-6),
    ]
    assert [total.name for total in PROFILE.by_operator()] == ["MatMul", "sort on the host"]
    unnamed = replace(PROFILE, kernels=(replace(KERNEL, nodes=(), operators=()),), host=())
    assert [total.name for total in unnamed.by_node()] == ["(made by the compiler)"]


def test_a_trace_has_a_line_for_launches_and_one_for_each_thread() -> None:
    events = PROFILE.trace()["traceEvents"]
    assert isinstance(events, list)
    lines = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert lines == {0: "launches", 1: "caller", 2: "helper 1"}
    spans = [(event["name"], event["tid"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"]
    assert spans == [
        ("k0 contraction", 0, 0.5, 3.0), ("k0 contraction", 2, 0.75, 2.0), ("sort node 2", 0, 3.5, 1.0),
    ]  # fmt: skip
