"""Files of NumPy's arrays that are damaged, in each way that another library finds."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

__all__ = ["broken_archives"]

_METHOD = 10
"""Where an entry of the directory of an archive says how its member is packed."""


def broken_archives(folder: Path, arrays: Mapping[str, np.ndarray]) -> Mapping[Path, str]:
    """Archives of the arrays that cannot be read, each with what the error begins with."""
    np.savez(folder / "whole.npz", **arrays)
    whole = (folder / "whole.npz").read_bytes()
    first, *_ = arrays
    start = whole.index(arrays[first].tobytes())
    directory = whole.index(b"PK\1\2") + _METHOD
    made = {
        "short.npz": (whole[: len(whole) // 2], "File is not a zip file"),
        "other_bits.npz": (_changed(whole, start, whole[start] ^ 255), "Bad CRC-32"),
        "unknown_packing.npz": (_changed(whole, directory, 99), "That compression method is not supported"),
    }
    np.savez_compressed(folder / "packed.npz", **arrays)
    packed = (folder / "packed.npz").read_bytes()
    name = f"{first}.npy".encode()
    # Behind the name, and 20 bytes of sizes, the packed member begins.
    made["damaged_packing.npz"] = (_changed(packed, packed.index(name) + len(name) + 20, 255), "Error -3")
    for file, (data, _) in made.items():
        (folder / file).write_bytes(data)
    with zipfile.ZipFile(folder / "no_array.npz", "w") as archive:
        archive.writestr(f"{first}.npy", b"text")
    return {folder / file: reason for file, (_, reason) in made.items()} | {
        folder / "no_array.npz": f"{first} is no array"
    }


def _changed(data: bytes, position: int, byte: int) -> bytes:
    return data[:position] + bytes([byte]) + data[position + 1 :]
