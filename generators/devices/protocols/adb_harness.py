"""Names that the ADB driver and the emulated phone share, and that no protocol fixes."""

ADB_KEYBOARD = "com.android.adbkeyboard/.AdbIME"
"""The input method that types what a broadcast brings. Source: github.com/senzhk/ADBKeyBoard."""
HARNESS_RESET = "org.vesper.harness.RESET"
HARNESS_STATE = "org.vesper.harness.STATE"
"""Broadcasts that put an emulated phone back and read its truth; no stock phone has them."""
HARNESS_PROPERTY = "ro.vesper.harness"
"""`1` on a phone that has them."""
BAD_START = 65
"""Exit code of a reset whose start the phone can't make anything of (EX_DATAERR of sysexits.h)."""
