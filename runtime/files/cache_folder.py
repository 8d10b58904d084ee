"""Where artifacts and machine code are kept between compilations, unless a caller says otherwise."""

import os
from pathlib import Path

__all__ = ["default_cache_folder"]


def default_cache_folder() -> Path | None:
    """$ONNXC_CACHE, else onnxc in $XDG_CACHE_HOME or ~/.cache; None where there is no home either."""
    if own := os.environ.get("ONNXC_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "onnxc"
    try:
        return Path.home() / ".cache" / "onnxc"
    except RuntimeError:
        return None
