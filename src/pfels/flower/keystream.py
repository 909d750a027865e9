"""Random bytes for exact noise: ChaCha20 under a key of 256 bits from the operating system, for one use.

The operating system's own generator is as good and takes eight times as long, which devices would notice. Here each
call has a new key, which nothing keeps, so that no noise follows from other noise or from what is left in memory.
"""

import os

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

KEY_BYTES = 32
NONCE = bytes(16)  # counter and nonce: a key is used once, so they need not differ


def keystream(size: int) -> bytes:
    """`size` random bytes, never the same twice."""
    stream: bytes = Cipher(ChaCha20(os.urandom(KEY_BYTES), NONCE), mode=None).encryptor().update(bytes(size))
    return stream
