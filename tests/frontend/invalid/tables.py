"""All models that break a rule of the IR, by family and name."""

from tests.frontend.invalid.attributes import ATTRIBUTES
from tests.frontend.invalid.case import Cases
from tests.frontend.invalid.devices import DEVICES
from tests.frontend.invalid.functions import FUNCTIONS
from tests.frontend.invalid.headers import HEADERS
from tests.frontend.invalid.interfaces import INTERFACES
from tests.frontend.invalid.limits import LIMITED
from tests.frontend.invalid.names import NAMES
from tests.frontend.invalid.tensors import TENSORS
from tests.frontend.invalid.training import TRAINING

FAMILIES: dict[str, Cases] = {
    "headers": HEADERS,
    "names": NAMES,
    "interfaces": INTERFACES,
    "tensors": TENSORS,
    "attributes": ATTRIBUTES,
    "functions": FUNCTIONS,
    "training": TRAINING,
    "devices": DEVICES,
    "limits": LIMITED,
}
ALL = {f"{family}: {name}": case for family, cases in FAMILIES.items() for name, case in cases.items()}
