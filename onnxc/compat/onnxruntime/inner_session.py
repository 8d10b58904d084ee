"""Sessions and bindings of the extension module, for programs that reach for them: `session._sess`, SessionIOBinding.

They are those of the package, with other arguments.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from onnxc.compat.onnxruntime.io_binding import IOBinding
from onnxc.compat.onnxruntime.node_args import ModelMetadata, NodeArg
from onnxc.compat.onnxruntime.options import RunOptions, SessionOptions
from onnxc.compat.onnxruntime.ort_values import (
    ElementTypeLike,
    OrtDevice,
    OrtValue,
    OrtValueVector,
    array_at,
    expect_cpu,
    ort_outputs,
)

__all__ = ["InnerSession", "SessionIOBinding"]


class Session(Protocol):
    """What is asked of the session."""

    def get_inputs(self) -> list[NodeArg]: ...
    def get_outputs(self) -> list[NodeArg]: ...
    def get_overridable_initializers(self) -> list[NodeArg]: ...
    def get_modelmeta(self) -> ModelMetadata: ...
    def get_session_options(self) -> SessionOptions: ...
    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, object], run_options: RunOptions | None
    ) -> list[object]: ...
    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None) -> None: ...


class InnerSession:
    """What the extension module has in place of methods that ask are attributes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def inputs_meta(self) -> list[NodeArg]:
        return self._session.get_inputs()

    @property
    def outputs_meta(self) -> list[NodeArg]:
        return self._session.get_outputs()

    @property
    def overridable_initializers(self) -> list[NodeArg]:
        return self._session.get_overridable_initializers()

    @property
    def model_meta(self) -> ModelMetadata:
        return self._session.get_modelmeta()

    @property
    def session_options(self) -> SessionOptions:
        return self._session.get_session_options()

    def run_with_ort_values(
        self, feed: Mapping[str, OrtValue], names: Sequence[str], run_options: RunOptions | None = None
    ) -> OrtValueVector:
        """As the session's, but that the feed is first."""
        return ort_outputs(self._session.run(names, feed, run_options))

    def run_with_iobinding(self, binding: "SessionIOBinding", run_options: RunOptions | None = None) -> None:
        self._session.run_with_iobinding(binding.binding, run_options)

    def get_inputs(self) -> list[NodeArg]:
        """For bindings."""
        return self._session.get_inputs()

    def get_overridable_initializers(self) -> list[NodeArg]:
        """For bindings."""
        return self._session.get_overridable_initializers()

    def __getattr__(self, name: str) -> object:
        """What both have alike: `run`, `run_async`, `end_profiling`, ..."""
        return getattr(self._session, name)


class SessionIOBinding:
    """A binding that is told a device in place of the device's name and index."""

    def __init__(self, session: InnerSession) -> None:
        self.binding = IOBinding(session)

    def bind_input(
        self,
        name: str,
        source: OrtDevice | np.ndarray,
        element_type: ElementTypeLike = None,
        shape: Sequence[int] = (),
        buffer_ptr: int = 0,
    ) -> None:
        """An array, or memory of the device by its address."""
        if isinstance(source, OrtDevice):
            expect_cpu(source)
            source = array_at(buffer_ptr, shape, element_type)
        self.binding.bind_cpu_input(name, source)

    def bind_output(
        self,
        name: str,
        device: OrtDevice,
        element_type: ElementTypeLike = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Memory of the device by its address, or new memory."""
        expect_cpu(device)
        self.binding.bind_output(name, "cpu", 0, element_type, shape, buffer_ptr)

    def get_outputs(self) -> OrtValueVector:
        """The outputs of the last run."""
        return self.binding.get_outputs_as_ortvaluevector()

    def __getattr__(self, name: str) -> object:
        """What both have alike: `bind_ortvalue_input`, `copy_outputs_to_cpu`, ..."""
        return getattr(self.binding, name)
