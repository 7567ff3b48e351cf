"""What a command of the emulated phone's shell gives back."""


class CommandError(Exception):
    """Bad arguments: the message goes to standard error, `code` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Output:
    """Standard output, standard error and the exit code; `exits` = the line ended its shell (`exit`)."""

    def __init__(self, out: bytes = b"", err: bytes = b"", code: int = 0) -> None:
        self.out, self.err, self.code = bytearray(out), bytearray(err), code
        self.exits = False

    def fail(self, message: str, code: int = 1) -> "Output":
        """Adds a line to standard error and sets the exit code; itself."""
        self.err += message.encode() + b"\n"
        self.code = code
        return self
