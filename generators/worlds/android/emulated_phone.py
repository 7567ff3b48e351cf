"""The emulated phone beside its screen: files, properties, settings and input methods, as its shell shows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from generators.devices.protocols.adb_harness import ADB_KEYBOARD, HARNESS_PROPERTY
from generators.worlds.android.backend import PhoneBackend
from generators.worlds.android.virtual_files import VirtualFiles

LATIN_KEYBOARD = "com.android.inputmethod.latin/.LatinIME"
INPUT_METHODS = (LATIN_KEYBOARD, ADB_KEYBOARD)


@dataclass
class EmulatedPhone:
    """Everything that the shell and the file service act on. `harness` allows the two harness broadcasts."""

    backend: PhoneBackend
    model: str = "Vesper Phone"
    serial: str = "vesper0"
    harness: bool = True
    files: VirtualFiles = field(default_factory=VirtualFiles)
    input_method: str = LATIN_KEYBOARD
    settings: dict[tuple[str, str], str] = field(default_factory=dict)

    def properties(self) -> dict[str, str]:
        """`getprop`'s names and values."""
        name = self.model.lower().replace(" ", "_")
        return {
            "dev.bootcomplete": "1",
            "persist.sys.locale": "en-GB",
            "ro.boot.serialno": self.serial,
            "ro.build.version.release": "13",
            "ro.build.version.sdk": "33",
            "ro.product.brand": "vesper",
            "ro.product.cpu.abi": "x86_64",
            "ro.product.device": name,
            "ro.product.manufacturer": "Vesper",
            "ro.product.model": self.model,
            "ro.product.name": name,
            "ro.serialno": self.serial,
            "ro.sf.lcd_density": str(self.backend.density),
            HARNESS_PROPERTY: "1" if self.harness else "0",
            "sys.boot_completed": "1",
        }
