"""How a channel says that it knew the customer, in its own word. One that denies is no way of knowing.

The database has the same rule as the function `says_who`, for what it decides itself; a test holds the two together.
"""

import re
from typing import Final

_DENIES: Final = re.compile(
    r"(none|nobody|no|0|false|null|nil|n/?a|(no|not|non|never|self|customer)[_ ].*|failed.*|anonymous.*|guest.*"
    r"|un(verified|known|checked|identified|proven|confirmed|authenticated).*)?"
)


def says_who(way: str) -> bool:
    """Whether `customer_verified` says that the customer was known."""
    return _DENIES.fullmatch(way.strip(" ").lower()) is None
