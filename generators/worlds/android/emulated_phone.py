"""The emulated phone beside its screen: files, properties, settings and input methods, as its shell shows them."""

from dataclasses import dataclass, field

from generators.devices.protocols.adb_harness import ADB_KEYBOARD, HARNESS_PROPERTY
from generators.worlds.android.backend import PhoneBackend
from generators.worlds.android.virtual_files import VirtualFiles

LATIN_KEYBOARD = "com.android.inputmethod.latin/.LatinIME"
INPUT_METHODS = (LATIN_KEYBOARD, ADB_KEYBOARD)
SETTINGS = {
    ("global", "airplane_mode_on"): "0",
    ("system", "accelerometer_rotation"): "0",
    ("system", "screen_brightness"): "128",
    ("system", "screen_brightness_mode"): "0",
    ("system", "user_rotation"): "0",
}


@dataclass
class EmulatedPhone:
    """Everything that the shell and the file service act on. `harness` allows the two harness broadcasts."""

    backend: PhoneBackend
    model: str = "Vesper Phone"
    serial: str = "vesper0"
    harness: bool = True
    files: VirtualFiles = field(default_factory=VirtualFiles)
    input_method: str = LATIN_KEYBOARD
    settings: dict[tuple[str, str], str] = field(default_factory=lambda: dict(SETTINGS))
    reversed: dict[str, str] = field(default_factory=dict)
    """Addresses on the phone that should lead to the host's: listed, and used by no app."""

    finger: tuple[list[str], float] | None = None
    """Where a finger went down by `input motionevent`, and when (seconds of the loop's clock)."""

    boots: int = 0
    """How often it was started again; the daemon drops its connections each time."""

    async def reboot(self) -> None:
        """Start again: the home screen, no reversed ports; files, settings and the keyboard stay. Raises
        `BackendError`."""
        # Connections are dropped by the daemon, which compares the count.
        self.boots += 1
        self.reversed.clear()
        await self.backend.key("KEYCODE_HOME")

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
