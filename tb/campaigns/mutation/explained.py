"""Changes that cannot be noticed, with the reasons: the table ``explained.toml``.

An entry has the file, the line of source and the change, so that it survives moved lines. An entry
whose line or change no longer exists is stale, and reported.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path

from mutation.sites import ROOT, Site, sites_of

Key = tuple[str, str, str]

TABLE = Path(__file__).with_suffix(".toml")


def read(path: Path = TABLE) -> dict[Key, str]:
    """Return the reasons by the key of a site.

    Raises ``ValueError`` if an entry is incomplete or duplicate.
    """
    reasons: dict[Key, str] = {}
    for entry in tomllib.loads(path.read_text()).get("explained", []):
        try:
            changes = entry["change"]
            for change in [changes] if isinstance(changes, str) else changes:
                key = (entry["file"], entry["line"], change)
                if key in reasons or not entry["why"]:
                    raise ValueError(f"{path.name}: twice, or without a reason: {key}")
                reasons[key] = entry["why"]
        except KeyError as missing:
            raise ValueError(f"{path.name}: no {missing} in {entry}") from None
    return reasons


def stale(reasons: Iterable[Key]) -> list[Key]:
    """Return the entries that no site has."""

    def there(file: str) -> set[Key]:
        found: tuple[Site, ...] = sites_of(file) if (ROOT / file).is_file() else ()
        return {site.key for site in found}

    return [key for key in reasons if key not in there(key[0])]
