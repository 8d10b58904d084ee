"""One server for all tests of the session that harm nobody."""

from collections.abc import Iterator

import pytest

from tests.decoding.models import summing
from tests.serving.live_server import LiveServer, centred, every_type, live_server, scaled, write_decoder, write_version


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Models: scaled (versions 1 and 2, the latest being served), centred, types, and summing, which generates."""
    repository, cache = (tmp_path_factory.mktemp(name) for name in ("repository", "cache"))
    write_version(repository, "scaled", 1, scaled(2))
    write_version(repository, "scaled", 2, scaled(3))
    write_version(repository, "centred", 1, centred())
    write_version(repository, "types", 1, every_type())
    write_decoder(repository, "summing", summing())
    with live_server(repository, cache) as running:
        yield running
