"""What a request can be told instead of a result, each with its HTTP status and its gRPC code."""

from __future__ import annotations

from typing import ClassVar

from dy2st_runtime.errors import ServingError, SignatureError, StepLimitError


class RequestError(ServingError):
    """Base of what a request is told; the message is for the client.

    Attributes:
        status: of HTTP.
        code: the name of the code of gRPC.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "INTERNAL"


class BadRequestError(RequestError):
    """The request is wrong; the message says what was wanted."""

    status, code = 400, "INVALID_ARGUMENT"


class UnauthorizedError(RequestError):
    """The API key is missing or wrong."""

    status, code = 401, "UNAUTHENTICATED"


class ForbiddenError(RequestError):
    """The server is told not to do this for clients, or the request comes from the page of another site."""

    status, code = 403, "PERMISSION_DENIED"


class NotFoundError(RequestError):
    """There is no such model, version or page."""

    status, code = 404, "NOT_FOUND"


class SlowRequestError(RequestError):
    """The body of a request did not come in time."""

    status, code = 408, "DEADLINE_EXCEEDED"


class TooLargeError(RequestError):
    """The body of a request has more bytes than the server takes."""

    status, code = 413, "RESOURCE_EXHAUSTED"


class EncodingError(RequestError):
    """The body is compressed, or of another type."""

    status, code = 415, "UNIMPLEMENTED"


class StepsError(RequestError):
    """The loops of the call make more iterations than the server allows."""

    status, code = 422, "INVALID_ARGUMENT"


class QueueFullError(RequestError):
    """So many requests wait already that this one is not taken."""

    status, code = 429, "RESOURCE_EXHAUSTED"


class GoneError(RequestError):
    """The client has cut the connection; nobody is told."""

    status, code = 499, "CANCELLED"


class ModelError(RequestError):
    """The model itself raised, or gave what the protocol cannot say."""

    status, code = 500, "INTERNAL"


class UnavailableError(RequestError):
    """The model is not loaded, or the server ends."""

    status, code = 503, "UNAVAILABLE"


class DeadlineError(RequestError):
    """The time that the client gave has passed."""

    status, code = 504, "DEADLINE_EXCEEDED"


def failure_of(error: BaseException) -> RequestError:
    """Return what a client is told of an error: its own message where it is about the request, one line of any other.

    Example:
        >>> failure_of(ValueError("negative")).status
        500
        >>> str(failure_of(ValueError("negative")))
        'the model raised ValueError: negative'
    """
    if isinstance(error, RequestError):
        return error
    if isinstance(error, SignatureError):
        return BadRequestError(str(error))
    if isinstance(error, StepLimitError):
        return StepsError(str(error))
    text = str(error).strip().partition("\n")[0][:500]
    return ModelError(f"the model raised {type(error).__name__}" + (f": {text}" if text else ""))
