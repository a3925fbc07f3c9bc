"""What the tests of both packages share: one hypothesis profile, the cores, marks of slow tests, and a browser."""

import os
import shutil

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("default")

SLOW_FIXTURES = {"browser", "finished", "reproduced", "site", "wheels"}  # a browser, whole experiments, what is built


def pytest_configure() -> None:
    """Share the cores among the processes that test: threads that wait for a core slow down all the others."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for a slow fixture is slow."""
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser():
    """Chromium; tests that need it are skipped where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no browser here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        launched = playwright.chromium.launch(executable_path=path, args=options)
        yield launched
        launched.close()
