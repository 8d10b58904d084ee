"""Bodies of HTTP: read up to a limit and within a time, and compressed or not."""

import asyncio
import re
import zlib
from collections.abc import Callable
from concurrent.futures import Executor

from starlette.requests import ClientDisconnect, Request

from onnxc.runtime.errors import InputError
from onnxc.serving.serving_errors import ServingError

__all__ = ["compressed", "decompressed", "received"]

# By the name of the encoding, the window of zlib that reads and writes it.
WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
# The level of zlib for answers: the fastest. Tensors of floats hardly get smaller at any.
_FAST = 1
_NO_WEIGHT = re.compile(r";\s*q=0(\.0*)?\s*$", re.IGNORECASE)
_READ_SECONDS = 60.0
"""For a body to come: 64 MiB take this long at 9 Mbit/s."""


async def received(request: Request, limit: int, hold: Callable[[int], None]) -> bytes:
    """The body as it is sent; `hold` is told of the bytes of each part.

    Raises ServingError where it is larger than the limit or slow, or its client has gone, and what `hold` raises.
    """
    stated = request.headers.get("Content-Length", "0")
    if stated.isdecimal() and int(stated) > limit:
        raise _too_large(limit)
    parts, size = [], 0
    try:
        async with asyncio.timeout(_READ_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                hold(len(part))
                parts.append(part)
    except TimeoutError as problem:
        raise ServingError(f"the body did not come within {_READ_SECONDS:.0f} s", code="slow-body") from problem
    except ClientDisconnect as problem:
        raise ServingError("the client has gone", code="client-gone") from problem
    return b"".join(parts)


async def decompressed(body: bytes, encoding: str, limit: int, threads: Executor) -> bytes:
    """The body without its Content-Encoding, which one of the threads undoes.

    Raises InputError where it is not in that encoding, ServingError where it gets larger than the limit.
    """
    if encoding == "identity":
        return body
    return await asyncio.get_running_loop().run_in_executor(threads, _decompressed, body, encoding, limit)


def _decompressed(data: bytes, encoding: str, limit: int) -> bytes:
    if encoding not in WINDOWS:
        listed = ", ".join(WINDOWS)
        raise InputError(f"Content-Encoding is {encoding[:40]!r}, expected one of {listed}", code="content-encoding")
    reader = zlib.decompressobj(WINDOWS[encoding])
    try:
        decompressed = reader.decompress(data, limit + 1)
    except zlib.error as problem:
        raise InputError(f"the body is no {encoding}: {problem}", code="content-encoding") from problem
    if len(decompressed) > limit:
        raise _too_large(limit)
    if not reader.eof:
        raise InputError(f"the body ends within its {encoding} stream", code="content-encoding")
    return decompressed


def _too_large(limit: int) -> ServingError:
    return ServingError(f"the body has more than {limit} bytes", code="body-size")


def compressed(data: bytes, accepted: str) -> tuple[bytes, str]:
    """The data in the first encoding of Accept-Encoding that is known, and its name; "" where none is.

    One with the weight 0 is not accepted (RFC 9110, 12.4.2 and 12.5.3).
    """
    names = (part.partition(";")[0].strip() for part in accepted.split(",") if not _NO_WEIGHT.search(part))
    name = next((name for name in names if name in WINDOWS), "")
    if not name:
        return data, ""
    writer = zlib.compressobj(_FAST, wbits=WINDOWS[name])
    return writer.compress(data) + writer.flush(), name
