"""Programs that are one native call as shared libraries with an interface in C."""
