"""Extension of Griffe: sections ``Members`` of components are read as ``Attributes``."""

import re
from typing import Any

from griffe import Extension, Object


class Members(Extension):
    """Lets the ports of a component show as a list."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Rename the section before it is parsed."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^Members\n-+$", "Attributes\n----------", obj.docstring.value, flags=re.MULTILINE
            )
