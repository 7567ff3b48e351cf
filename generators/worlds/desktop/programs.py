"""The programs of a desktop session, by name. Add one here: a descriptor, and a line where its tasks are."""

from collections.abc import Iterable, Sequence

from generators.devices.desktop.home_folder import HIDDEN
from generators.worlds.desktop.program import DesktopProgram
from pipelines.extensions import find_part

_XFCE = "xfce4-settings"
_TERMINAL = {
    ".config/bashrc": "PS1='$ '\nunset HISTFILE\n",
    ".config/xfce4/terminal/accels.scm": '(gtk_accel_path "<Actions>/terminal-window/paste" "<Primary>v")\n',
    ".config/xfce4/terminal/terminalrc": "[Configuration]\nMiscShowUnsafePasteDialog=FALSE\n",
}
"""The prompt names no host; Ctrl+V pastes, as everywhere (text is typed by the clipboard), and no dialog asks first."""
_VIEWER = {
    ".config/xfce4/xfconf/xfce-perchannel-xml/ristretto.xml": """<?xml version="1.0" encoding="UTF-8"?>
<channel name="ristretto" version="1.0">
  <property name="errors" type="empty"><property name="missing-thumbnailer" type="bool" value="false"/></property>
</channel>
"""
}
"""Without a dialog about thumbnails, which need a service of their own."""
_MAIL = {
    ".claws-mail/accountrc": "[Account: 1]\naccount_name=ada@example.org\nis_default=1\nname=Ada\n"
    "address=ada@example.org\nprotocol=5\nreceive_at_get_all=0\nsmtp_server=localhost\n",
    ".claws-mail/clawsrc": "[Common]\nenable_aspell=0\n",
    ".claws-mail/folderlist.xml": """<?xml version="1.0" encoding="UTF-8"?>
<folderlist><folder type="mh" name="Mail" path="Mail">
<folderitem type="normal" name="archive" path="archive"/>
<folderitem type="inbox" name="inbox" path="inbox"/>
<folderitem type="outbox" name="sent" path="sent"/>
<folderitem type="draft" name="draft" path="draft"/>
<folderitem type="queue" name="queue" path="queue"/>
<folderitem type="trash" name="trash" path="trash"/>
</folder></folderlist>
""",
}
"""An account that asks no server, and a mailbox in the folder Mail; no spelling, whose dictionaries may be missing."""
_LISTED = (
    DesktopProgram(
        "galculator",
        "galculator",
        ("galculator",),
        also=("calculator",),
        settings={"galculator": ".config/galculator/galculator.conf"},
    ),
    DesktopProgram("mousepad", "mousepad", ("mousepad",), also=("text editor", "editor")),
    DesktopProgram("thunar", "thunar", ("thunar",), also=("file manager", "files"), channels=("thunar",)),
    DesktopProgram("appearance settings", _XFCE, ("xfce4-appearance-settings",), channels=("xsettings",)),
    DesktopProgram("accessibility settings", _XFCE, ("xfce4-accessibility-settings",), channels=("accessibility",)),
    DesktopProgram(
        "keyboard settings", _XFCE, ("xfce4-keyboard-settings",), channels=("keyboards", "keyboard-layout", "xsettings")
    ),
    DesktopProgram("mouse settings", _XFCE, ("xfce4-mouse-settings",), channels=("pointers", "xsettings")),
    DesktopProgram(
        "gnumeric",
        "gnumeric",
        ("gnumeric",),
        also=("spreadsheet",),
        files={".config/glib-2.0/settings/keyfile": "[org/gnome/gnumeric/core/xml]\ncompression-level=0\n"},
    ),
    DesktopProgram("abiword", "abiword", ("abiword",), also=("word processor",)),
    DesktopProgram(
        "xfce4-terminal",
        "xfce4-terminal",
        ("xfce4-terminal", "-x", "bash", "--rcfile", ".config/bashrc"),
        also=("terminal",),
        settings={"terminal": ".config/xfce4/terminal/terminalrc"},
        files=_TERMINAL,
    ),
    DesktopProgram("engrampa", "engrampa", ("engrampa",), also=("archives", "archive tool")),
    DesktopProgram(
        "ristretto", "ristretto", ("ristretto",), also=("picture viewer",), channels=("ristretto",), files=_VIEWER
    ),
    DesktopProgram("mtpaint", "mtpaint", ("mtpaint",), also=("picture editor",), tree=False, keeps=(".mtpaint",)),
    DesktopProgram("atril", "atril", ("atril",), also=("document viewer",)),
    DesktopProgram("gtkhash", "gtkhash", ("gtkhash",), also=("checksums",)),
    DesktopProgram(
        "claws-mail",
        "claws-mail",
        ("claws-mail", "--select", "#mh/Mail/inbox"),
        also=("mail program", "mail"),
        keeps=(".claws-mail",),
        files=_MAIL,
    ),
)

PROGRAMS: dict[str, DesktopProgram] = {program.name: program for program in _LISTED}
"""By name. One outside this tree is found by its path, see `find_program`."""


def find_program(name: str) -> DesktopProgram:
    """A program by its name, or by the path of one outside this tree ("notes.py:notes"). Raises `ValueError` where it
    leads nowhere or to something else."""
    found = find_part("desktop program", name, PROGRAMS)
    if not isinstance(found, DesktopProgram):
        raise ValueError(f"desktop program {name!r}: expected a DesktopProgram, found {type(found).__name__}")
    return found


def called(name: str) -> DesktopProgram | None:
    """The program that goes by this name, be it `name` or one of `also`."""
    # Case and blanks don't matter: tasks and recordings write names in many ways.
    wanted = name.strip().casefold()
    return next((program for program in PROGRAMS.values() if wanted in program.names), None)


def missing_packages(programs: Iterable[DesktopProgram]) -> list[str]:
    """Debian packages of those that aren't installed here, sorted."""
    return sorted({program.package for program in programs if not program.installed()})


def driver_options(programs: Sequence[DesktopProgram]) -> dict[str, object]:
    # By every name, since tasks launch programs by any of them.
    """What the SSH driver is told of programs, as its options."""
    return {
        "programs": {name: list(program.command) for program in programs for name in program.names},
        "packages": {program.command[0]: program.package for program in programs},
        "treeless": tuple(sorted({program.command[0] for program in programs if not program.tree})),
        "settings": {key: path for program in programs for key, path in program.settings.items()},
        "hidden": (*HIDDEN, *sorted({name for program in programs for name in program.keeps})),
        "channels": tuple(sorted({channel for program in programs for channel in program.channels})),
    }
