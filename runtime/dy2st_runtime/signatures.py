"""Signatures of archives, by the specification of OpenSSF Model Signing: a bundle beside the file, which stays as it is.

The package ``model_signing``, of the extra ``sign``, does it; it is imported when a signature is made or checked.
"""

from __future__ import annotations

import os
from typing import Any

from dy2st_runtime.errors import Dy2stError, LoadError, SaveError

Path = str | os.PathLike[str]

SUFFIX = ".sig"
"""What the name of a signature has behind that of its archive."""


def sign(path: Path, key: Path, signature: Path | None = None) -> str:
    """Write the signature of an archive.

    Args:
        path: the archive.
        key: a file with a private key for elliptic curves, in PEM.
        signature: where to; beside the archive if left out.

    Returns:
        Where it is.

    Raises:
        SaveError: the package is missing, the key is none, or the file cannot be written.

    Example:
        >>> from dy2st_runtime import signatures
        >>> signatures.sign("model.dy2st", "private.pem")
        Traceback (most recent call last):
        dy2st_runtime.errors.SaveError: cannot sign model.dy2st: ...
        See docs/errors.md#saveerror
    """
    target = os.fspath(signature or os.fspath(path) + SUFFIX)
    try:
        _check_there(path, key)
        _tools("signing").Config().use_elliptic_key_signer(private_key=os.fspath(key)).sign(os.fspath(path), target)
    except Exception as error:  # the package has no class of its own for what it raises
        raise SaveError(f"cannot sign {os.fspath(path)}: {_told(error)}") from None
    return target


def verify(path: Path, key: Path, signature: Path | None = None) -> None:
    """Check that an archive is what the owner of a key has signed, to the last bit.

    Args:
        path: the archive; another name than when it was signed does not matter.
        key: a file with the public key, in PEM.
        signature: the signature; the one beside the archive if left out.

    Raises:
        LoadError: it is not, or there is no signature, or the package is missing.

    Example:
        >>> from dy2st_runtime import signatures
        >>> signatures.verify("model.dy2st", "public.pem")
        Traceback (most recent call last):
        dy2st_runtime.errors.LoadError: the signature of model.dy2st cannot be accepted: ...
        See docs/errors.md#loaderror
    """
    bundle = os.fspath(signature or os.fspath(path) + SUFFIX)
    try:
        _check_there(path, key, bundle)
        _tools("verifying").Config().use_elliptic_key_verifier(public_key=os.fspath(key)).verify(os.fspath(path), bundle)
    except Exception as error:  # whatever it is, the signature is not good
        raise LoadError(f"the signature of {os.fspath(path)} cannot be accepted: {_told(error)}") from None


def _check_there(*paths: Path) -> None:
    for path in paths:
        if not os.path.isfile(path):
            raise FileNotFoundError(f"there is no file {os.fspath(path)}")


def _tools(module: str) -> Any:
    try:
        import model_signing
        from model_signing import signing, verifying  # noqa: F401  # they are attributes of the package then
    except ModuleNotFoundError as error:
        raise Dy2stError(f"it needs {error.name}: pip install 'dy2st[sign]'") from None
    return getattr(model_signing, module)


def _told(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    if text.startswith("Signature mismatch"):
        return "the file is another one than was signed"
    return text[:300] or type(error).__name__
