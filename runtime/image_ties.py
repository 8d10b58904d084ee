"""What ties an image to its program: a digest, behind its last byte, of all that native code relies on unseen.

Native code takes arrays, constants and an arena for as large as they were when it was compiled: with another program it
would read and write wherever that leads. So an image runs only with the program that it was compiled for. Who can
change native code can change this too; no check helps there.
"""

import hashlib

__all__ = ["is_tied", "program_digest", "tie_image"]

_MARK = b"onnxc program "


def program_digest(program: bytes, kernels: bytes, division: bytes, weights_bytes: int) -> bytes:
    """The digest of a program, of the list of its kernels, of how it is divided over devices, all as they are written
    and empty where there is none, and of the size of its weights.
    """
    digest = hashlib.sha256(weights_bytes.to_bytes(8, "little"))
    for part in (program, kernels, *filter(None, (division,))):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def tie_image(image: bytes, digest: bytes) -> bytes:
    """The image with the digest of its program, and of no other before; loaders do not look behind its end."""
    end = len(image) - len(_MARK) - len(digest)
    return (image[:end] if image[end:].startswith(_MARK) else image) + _MARK + digest


def is_tied(image: bytes, digest: bytes) -> bool:
    """Whether the image was compiled for the program of this digest."""
    return image.endswith(_MARK + digest)
