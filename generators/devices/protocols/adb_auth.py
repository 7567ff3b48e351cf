"""ADB's authentication: the device sends 20 random bytes, the host signs them with its RSA key (2048 bits).

The public key travels as Android's own structure in base64: words, -1/n mod 2^32, n, 2^4096 mod n (little-endian), e.
Source: `libcrypto_utils/android_pubkey.cpp` and adb's `protocol.txt` of the Android Open Source Project.
"""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

TOKEN, SIGNATURE, PUBLIC_KEY = 1, 2, 3
"""arg0 of an AUTH message."""
TOKEN_BYTES = 20
_BYTES = 256  # of a 2048-bit number
_STRUCT = struct.Struct(f"<II{_BYTES}s{_BYTES}sI")


class BadKey(ValueError):
    """A key that is no RSA key of 2048 bits; the message says where it came from."""


def load_key(path: str | Path) -> RSAPrivateKey:
    """The private key of a host, PEM as in `~/.android/adbkey`. Raises `BadKey`."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(Path(path).read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise BadKey(f"ADB key {path}: expected a private key in PEM, found none ({error})") from error
    if not isinstance(key, RSAPrivateKey) or key.key_size != 8 * _BYTES:
        raise BadKey(f"ADB key {path}: expected RSA of {8 * _BYTES} bits; make one with `adb keygen`")
    return key


def sign(key: RSAPrivateKey, token: bytes) -> bytes:
    """Signature of a device's token, which stands where a SHA-1 digest would."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, utils

    # the token is signed as it is: adb takes its 20 bytes for a digest
    return key.sign(token, padding.PKCS1v15(), utils.Prehashed(hashes.SHA1()))


def verify(key: RSAPublicKey, token: bytes, signature: bytes) -> bool:
    """Whether a signature of a token is from the owner of a key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, utils

    try:
        key.verify(signature, token, padding.PKCS1v15(), utils.Prehashed(hashes.SHA1()))
    except InvalidSignature:
        return False
    return True


def write_public(key: RSAPublicKey, owner: str) -> bytes:
    """A public key as a host sends it: base64, a blank, `owner`, a zero."""
    numbers = key.public_numbers()
    word = 1 << 32
    inverse = (-pow(numbers.n, -1, word)) % word
    # 2^4096: (2^2048)^2 mod n, which Android's verifier multiplies with instead of dividing
    square = pow(2, 16 * _BYTES, numbers.n)
    body = _STRUCT.pack(
        _BYTES // 4, inverse, numbers.n.to_bytes(_BYTES, "little"), square.to_bytes(_BYTES, "little"), numbers.e
    )
    return base64.b64encode(body) + b" " + owner.encode() + b"\0"


def read_public(data: bytes) -> RSAPublicKey:
    """What `write_public` wrote (a line of `adbkey.pub` too). Raises `BadKey`."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    try:
        words, _, modulus, _, exponent = _STRUCT.unpack(
            base64.b64decode(data.split(b" ")[0].rstrip(b"\0\n"), validate=True)
        )
        if words != _BYTES // 4:
            raise ValueError(f"{words} words")
        return RSAPublicNumbers(exponent, int.from_bytes(modulus, "little")).public_key()
    except (ValueError, struct.error) as error:
        raise BadKey(
            f"ADB public key: expected Android's structure in base64, found {data[:24]!r} ({error})"
        ) from error
