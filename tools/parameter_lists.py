"""For the site: docstrings whose lines say `name: what it is` get a list of these, as Markdown has lists."""

import re

import griffe

# One or several names at the beginning of a line; the text behind goes on over the lines below.
PARAMETERS = re.compile(r"^((?:\w+, )*\w+): ", re.MULTILINE)


class ParameterLists(griffe.Extension):
    """Rewrites docstrings as they are read; the files stay as they are."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Makes a list of the parameters in the docstring of `obj`, if it has any."""
        if obj.docstring is not None:
            obj.docstring.value = PARAMETERS.sub(r"\n* **\1**: ", obj.docstring.value)
