"""The page at ``/`` in a real browser: models, a call by hand, an error, unloading, occupancy; and nothing asked of other hosts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.serving.clients import soon, tensor
from tests.serving.conftest import Serve

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def page() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        result = browser.new_page()
        result.said = []
        result.on("console", lambda message: result.said.append(message.text) if message.type == "error" else None)
        result.on("pageerror", lambda error: result.said.append(str(error)))
        result.asked = []
        result.on("request", lambda request: result.asked.append(request.url))
        yield result
        browser.close()


def test_the_page_tries_models(serve: Serve, page: Any):
    server = serve("halve", "picky")
    base = f"http://127.0.0.1:{server.port}"
    page.goto(f"{base}/")
    expect = playwright.expect
    rows = page.locator("#models tr")
    expect(rows).to_have_count(3)
    expect(page.locator("#state")).to_have_text("ready")
    rows.filter(has_text="halve").first.click()
    page.get_by_label("shape of x").fill("[1, 3]")
    page.get_by_label("data of x").fill("[4, -2, 1]")
    page.get_by_label("data of limit").fill("[1]")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#answer")).to_contain_text("result: FP32[1,3]\n[1,-0.5,0.25]")
    expect(page.locator("#took")).to_contain_text("s")
    page.get_by_label("data of x").fill("[4]")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#answer")).to_contain_text("takes 3 values, but has 1")
    expect(rows.filter(has_text="halve").first.locator("td").nth(7)).to_have_text("2")
    expect(rows.filter(has_text="halve").first.locator("td").nth(8)).to_have_text("1")
    page.get_by_role("button", name="Unload").click()
    expect(rows.filter(has_text="halve").first).to_contain_text("unavailable")
    page.get_by_role("button", name="Load again").click()
    expect(rows.filter(has_text="halve").first).to_contain_text("ready")
    assert all(url.startswith(base) for url in page.asked)
    assert all("400 (Bad Request)" in text for text in page.said), page.said


def test_the_page_wants_the_key_and_shows_what_runs(serve: Serve, page: Any):
    server = serve("spin", api_key="secret", threads=1)
    page.goto(f"http://127.0.0.1:{server.port}/")
    expect = playwright.expect
    expect(page.locator("#state")).to_contain_text("this server wants its API key")
    page.locator("#key").fill("secret")
    page.locator("#key").press("Tab")
    expect(page.locator("#models tr")).to_have_count(1)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as threads:
        trips = tensor("trips", torch.tensor(600_000))
        calls = [threads.submit(lambda: server.http(X_API_Key="secret").infer("spin", trips)) for _ in range(3)]
        expect(page.locator("#models td").nth(3)).to_have_text("2", timeout=15_000)
        expect(page.locator("#models td").nth(4)).to_contain_text("1")
        assert [call.result()[0] for call in calls] == [200] * 3
    soon(lambda: page.locator("#models td").nth(7).text_content() == "3")
