"""What ties an image to its program: a digest, behind its last byte, of all that native code relies on unseen.

Native code takes arrays, constants and an arena for as large as they were when it was compiled: with another program it
would read and write wherever that leads. So an image runs only with the program that it was compiled for. Who can
change native code can change this too; no check helps there.
"""

import hashlib

__all__ = ["is_tied", "program_digest", "tie_image"]

_MARK = b"onnxc program "


def program_digest(program: bytes, kernels: bytes, weights_bytes: int) -> bytes:
    """The digest of a program, of the list of its kernels, both as they are written, and of the size of its weights."""
    digest = hashlib.sha256(weights_bytes.to_bytes(8, "little"))
    for part in (program, kernels):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def tie_image(image: bytes, digest: bytes) -> bytes:
    """The image with the digest of its program; what loads shared libraries does not look behind their end."""
    return image + _MARK + digest


def is_tied(image: bytes, digest: bytes) -> bool:
    """Whether the image was compiled for the program of this digest."""
    return image.endswith(_MARK + digest)
