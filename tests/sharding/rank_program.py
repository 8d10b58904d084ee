"""What a rank does in the tests of MPI: `mpirun -n N python -m tests.sharding.rank_program ACTION FOLDER`.

`ACTION FOLDER MODEL RANK` ends one rank in the middle of a call of a model.
It writes what it found to rankN.json in the folder; errors of ours end it as they would end any program.
"""

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

import onnxc
from onnxc.runtime.devices.shards import Shard, Shards
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.executable import Executable
from onnxc.runtime.ranks.world import connect


def bits(exe: Executable, folder: Path, name: str) -> bool:
    """Whether the outputs are those of threads, whole or the blocks of this rank."""
    feed, expected = (dict(np.load(folder / f"{name}.{side}.npz")) for side in ("x", "y"))
    return all(_same(made, expected[key]) for key, made in exe.run(feed).items())


def _same(made: object, expected: np.ndarray) -> bool:
    if not isinstance(made, Shards):
        return np.asarray(made).tobytes() == expected.tobytes()
    (shard,) = made.shards
    is_refused = refusal(made.whole).startswith("shards-elsewhere")
    return is_refused and shard.device == connect().rank and bool((shard.host() == expected[shard.index]).all())


def refusal(act: object) -> str:
    """The code and text of the error that an action raises."""
    try:
        assert callable(act)
        act()
    except OnnxcError as problem:
        return f"{problem.code}: {problem}"
    return "none"


def parity(folder: Path, rank: int) -> dict[str, object]:
    """Which models give the bits of threads, from their files, twice."""
    found: dict[str, object] = {}
    for path in sorted(folder.glob("*.onnxc")):
        exe = onnxc.load(path, devices="mpi", weights="resident" if path.stem in ("mlp", "grid") else "mapped")
        found[path.stem] = [bits(exe, folder, path.stem) for _ in range(2)]
    return found


def errors(folder: Path, rank: int) -> dict[str, object]:
    """What ranks say where one of them is wrong, and that they go on together."""
    exe = onnxc.load(folder / "gather.onnxc", devices="mpi")
    right = np.array([0, 1, 4, 3])
    wrong = np.array([0, 1, 9, 3])
    found: dict[str, object] = {
        "an index on device 2": refusal(lambda: exe(wrong)),
        "an input of device 1": refusal(lambda: exe(right if rank != 1 else right.astype(np.float32))),
        "a file of device 3": refusal(
            lambda: onnxc.load(folder / ("none" if rank == 3 else "gather.onnxc"), devices="mpi")
        ),
        "another artifact": refusal(lambda: onnxc.load(folder / f"{'mlp' if rank else 'gather'}.onnxc", devices="mpi")),
        "another count": refusal(lambda: onnxc.load(folder / "two.onnxc", devices="mpi")),
    }
    found |= of_shards(folder, rank) | of_state(folder)
    with connect().call():
        found["two threads"] = from_another_thread(lambda: exe(right))
    found["after all"] = (
        np.asarray(exe(right)).tolist() == np.asarray(onnxc.load(folder / "gather.onnxc")(right)).tolist()
    )
    return found


def of_shards(folder: Path, rank: int) -> dict[str, object]:
    """What a call gives for an input of which each rank has its shard, by position and by name, and what is refused."""
    exe, (x,) = onnxc.load(folder / "local.onnxc", devices="mpi"), np.load(folder / "local.x.npz").values()
    expected = exe(x)
    assert isinstance(expected, Shards)
    (own,) = expected.shards
    divided = replace(expected, shards=(replace(own, data=x[own.index]),))
    longer = replace(divided, shape=(8, 6))
    found = [exe(divided), exe.run({"x": divided})["y"], exe.run({"x": divided}, seed=1)["y"]]
    return {
        "shards": [isinstance(each, Shards) and bool((each.shards[0].data == own.data).all()) for each in found],
        "shards of other types": refusal(lambda: exe(replace(divided, shards=(_as_f64(own),)))),
        "shards of different outputs": refusal(lambda: exe(longer if rank == 2 else divided)),
        "the whole on device 1": refusal(lambda: exe(x if rank == 1 else divided)),
    }


def of_state(folder: Path) -> dict[str, object]:
    """A loop of calls whose state stays divided: whether it is right, and how many bytes this rank sends in it."""
    exe, feed = onnxc.load(folder / "state.onnxc", devices="mpi"), dict(np.load(folder / "state.x.npz"))
    link, sent = connect().exchanges._link, list[int]()
    send = link.send

    def counted(target: int, data: np.ndarray) -> Callable[[], bool]:
        sent.append(data.nbytes)
        return send(target, data)

    state, expected = exe(feed["s"], feed["x"]), feed["s"] + feed["x"]
    with mock.patch.object(link, "send", counted):
        for _ in range(3):
            state, expected = exe(state, feed["x"]), expected + feed["x"]
    assert isinstance(state, Shards)
    (own,) = state.shards
    return {"state": [bool((own.data == expected[own.index]).all()), sum(sent)]}


def _as_f64(shard: Shard) -> Shard:
    return replace(shard, data=shard.data.astype(np.float64))


def from_another_thread(act: object) -> str:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(refusal(act)))
    thread.start()
    thread.join()
    return said[0]


def ends(how: str, folder: Path, rank: int) -> None:
    """Calls until the last device is killed, stopped, or leaves; the error of the others is theirs to print."""
    is_last = rank == connect().size - 1
    exe = onnxc.load(folder / "mlp.onnxc", devices="mpi")
    feed = dict(np.load(folder / "mlp.x.npz"))
    for call in range(100_000):
        if is_last and call == 20:
            leave(how)
        if how == "compute" and not is_last and call == 20:
            compute()
        exe.run(feed)


def ends_within_a_call(how: str, folder: Path, name: str, leaver: int) -> None:
    """Calls twice; in the second call one rank is killed or stopped when a part of its work is done."""
    exe = onnxc.load(folder / f"{name}.onnxc", devices="mpi")
    feed = dict(np.load(folder / f"{name}.x.npz"))
    exe.run(feed)
    if connect().rank == leaver:
        leave_at_exchange(how, 1)
    exe.run(feed)


def leave_at_exchange(how: str, ordinal: int) -> None:
    """From here on this rank leaves before the exchange of this ordinal: a send, a receive or a collective."""
    exchanges, count = connect().exchanges, itertools.count()

    def leaving(act: Callable[..., object]) -> Callable[..., object]:
        def acted(*arguments: object) -> object:
            if next(count) == ordinal:
                leave(how)
            return act(*arguments)

        return acted

    for name in ("send", "receive", "started"):
        setattr(exchanges, name, leaving(getattr(exchanges, name)))


def leave(how: str) -> None:
    if how == "exit":
        raise SystemExit(0)
    if how == "compute":
        # The others have begun to compute.
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)


def compute() -> None:
    """A call that computes, and meets nobody for a long time."""
    with connect().call():
        time.sleep(60)


def main() -> None:
    action, folder = sys.argv[1], Path(sys.argv[2])
    if action not in ("parity", "errors"):
        rank = connect().rank
        try:
            if len(sys.argv) > 3:
                ends_within_a_call(action, folder, sys.argv[3], int(sys.argv[4]))
            else:
                ends(action, folder, rank)
        except OnnxcError as problem:
            print(f"rank {rank} says {problem}", file=sys.stderr, flush=True)
            raise SystemExit(1) from None
        return
    rank = connect().rank
    found = parity(folder, rank) if action == "parity" else errors(folder, rank)
    (folder / f"rank{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
