"""The decoders that tests share: one whose values can be said, and one with attention."""

import pytest

import onnxc
from onnxc.runtime.decoding.decoder import Decoder
from tests.decoding.models import positioned, summing
from tests.models import builders
from tests.support.models import model_from_text


@pytest.fixture(scope="session")
def sums() -> Decoder:
    return onnxc.compile_decoder(model_from_text(summing()), threads=1)


@pytest.fixture(scope="session")
def places() -> Decoder:
    return onnxc.compile_decoder(model_from_text(positioned()), threads=1)


@pytest.fixture(scope="session")
def gpt() -> Decoder:
    return onnxc.compile_decoder(builders.decoder("dynamo").model, threads=1)
