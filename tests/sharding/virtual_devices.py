"""Divided modules on virtual devices: the interpreter runs the program of each in a thread."""

from collections.abc import Mapping

import numpy as np

from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.sharding import Mesh
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.sharding.partition import Partition, partition
from onnxc.runtime.devices.device_threads import run_on_devices
from onnxc.runtime.host.values import HostValue

SECONDS = 60.0


def run_partition(divided: Partition, mesh: Mesh, inputs: Mapping[str, HostValue]) -> list[tuple[HostValue, ...]]:
    """The results on each device."""
    parameters = divided.module.main.body.parameters
    ordinal, *shares = [
        parameter.producer.name for parameter in parameters[len(parameters) - len(divided.shares) - 1 :]
    ]

    def run(device: int) -> tuple[HostValue, ...]:
        held = {name: s.of_device(mesh, device) for name, s in zip(shares, divided.shares, strict=True)}
        return interpret(divided.module, {**inputs, ordinal: np.array(device), **held})

    return run_on_devices(mesh.devices, run, SECONDS)


def divide(module: Module, mesh: Mesh) -> Partition:
    """The partition of a module; both are valid."""
    verify_module(module)
    divided = partition(module, mesh)
    verify_module(divided.module)
    return divided
