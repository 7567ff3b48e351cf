"""A machine that has bubblewrap and lets it make no namespaces is told from one where a session fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from generators.worlds.desktop import sealing, session
from generators.worlds.desktop.session import DesktopMissing, open_desktop


def test_a_machine_without_namespaces_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(sealing, "PROGRAM", str(refusing))
    monkeypatch.setattr(session, "find_base_missing", list)
    sealing.why_not_sealed.cache_clear()
    try:
        told = "namespaces, found 'bwrap: No permissions.*; allow user namespaces"
        with pytest.raises(DesktopMissing, match=told), open_desktop(sealed=True):
            pytest.fail("it opened")
    finally:
        sealing.why_not_sealed.cache_clear()
