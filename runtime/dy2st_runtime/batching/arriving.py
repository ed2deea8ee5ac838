"""Continuous batching of examples that arrive at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from dy2st_runtime.batching.stream import Finished, Lanes


async def as_they_arrive(lanes: Lanes, examples: AsyncIterable[Any], most: int) -> AsyncIterator[Finished]:
    """Yield what becomes of examples, in the order in which they are done.

    Args:
        lanes: what runs them, in a thread of its own so that the event loop goes on.
        examples: of each the tuple of its arguments, or its only argument.
        most: how many run at a time.
    """
    arriving, number = aiter(examples), 0
    following: asyncio.Future[Any] | None = _next(arriving)
    try:
        while lanes.active or following is not None:
            entering: list[tuple[int, Any]] = []
            while following is not None and lanes.active + len(entering) < most:
                if not following.done() and (lanes.active or entering):
                    await asyncio.sleep(0)
                    if not following.done():
                        break
                try:
                    example = await following
                except StopAsyncIteration:
                    following = None
                    break
                entering.append((number, (example if isinstance(example, tuple) else (example,), {})))
                number, following = number + 1, _next(arriving)
            if entering:
                for finished in await asyncio.to_thread(lanes.admit, entering):
                    yield finished
            for finished in await asyncio.to_thread(lanes.step):
                yield finished
    finally:
        if following is not None:
            following.cancel()


def _next(arriving: AsyncIterator[Any]) -> asyncio.Future[Any]:
    return asyncio.ensure_future(anext(arriving))
