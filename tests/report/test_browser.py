"""The page in a headless Chromium. Skipped where Playwright or a Chromium is not installed."""

import os
import shutil
import threading
from dataclasses import replace

import pytest

from cairn.recipes import find
from cairn.report.live import Server
from cairn.report.page import write
from tests.report.folders import film, remark, write_run

sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright, to open the page in a browser")
pytest.importorskip("imageio_ffmpeg")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LONG = "a-run-of-a-very-long-name-without-any-place-to-break-it-" * 3


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """The system's Chromium, one that CHROMIUM names, or Playwright's own. One that is named must start."""
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    home = str(tmp_path_factory.mktemp("home"))  # the user's own may be read-only
    with sync_api.sync_playwright() as playwright:
        try:
            browser = started(playwright, found, {**os.environ, "HOME": home})
        except sync_api.Error as error:
            if named:
                raise
            pytest.skip(f"no Chromium could be started ({str(error).splitlines()[0]})")
        yield browser
        browser.close()


def started(playwright, found, env):
    """Without its sandbox where that is refused: to root, and in most containers. It opens our own pages only."""
    flags = ["--disable-background-networking"]
    try:
        return playwright.chromium.launch(executable_path=found, args=flags, env=env, chromium_sandbox=True)
    except sync_api.Error:
        return playwright.chromium.launch(executable_path=found, args=[*flags, "--no-sandbox"], env=env)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    agent = replace(find("cartpole-ppo").agent, gamma=0.9)
    runs = [write_run(root / f"s{k}", [100 * k, 300, 500, 500, 500, 500], seed=k) for k in (1, 2, 3)]
    runs += [write_run(root / "other", [50, 60, 70], seed=1, agent=agent), write_run(root / LONG, [5], name=LONG)]
    remark(runs[0], what="<script>document.title = 'taken'</script>")
    film(runs[0] / "video.mp4")
    write([*runs, root / "nowhere"], root / "page.html", episodes=0)
    return root / "page.html"


@pytest.fixture
def visit(browser, report):
    """Opens the page in a context; whatever it says to the console or asks of the network is kept."""
    opened = []

    def go(**context):
        page = browser.new_context(**context).new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(report.as_uri())
        opened.append(page)
        return page

    yield go
    for page in opened:
        assert page.said == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in page.asked)
        page.context.close()


PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def test_it_opens_and_shows_the_curves(visit):
    page = visit()
    assert "cartpole-ppo" in page.title()
    chart = page.locator("#curves svg.chart").first
    assert chart.is_visible() and chart.bounding_box()["width"] > 300
    for part in ("path.band.c0", "path.line.c0", "path.line.c1", "circle.dot.c0"):
        assert chart.locator(part).first.is_visible(), part
    stroke = chart.locator("path.line.c0").evaluate("e => getComputedStyle(e).stroke")
    assert stroke == "rgb(11, 99, 176)"
    assert page.get_by_role("img", name="CartPole-v1: mean return in evaluations").count() == 1
    assert page.get_by_role("row", name="s1").count() >= 1


def test_the_film_plays(visit):
    page = visit()
    video = page.locator("video")
    video.evaluate("v => v.play()")  # muted, so it may begin without a click
    waiting = "v => new Promise(done => { v.ontimeupdate = () => v.currentTime > 0.2 && done(v.currentTime) })"
    assert video.evaluate(waiting) > 0.2
    assert video.evaluate("v => [v.error, v.videoWidth, v.videoHeight]") == [None, 96, 64]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(visit, scheme):
    page = visit(**PHONE, color_scheme=scheme)
    for details in page.locator("details").all():
        details.locator("summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    size = page.locator("#curves svg.chart text").first.evaluate("t => t.getBoundingClientRect().height")
    assert size >= 10  # letters of the axes can be read


def test_the_dark_is_dark(visit):
    page = visit(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert page.locator("path.line.c0").first.evaluate("e => getComputedStyle(e).stroke") == "rgb(109, 179, 242)"


def test_it_does_without_scripts_and_by_keyboard(visit):
    page = visit(java_script_enabled=False)
    assert page.locator("#curves svg.chart").first.is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#short")
    summary = page.locator("#more summary")
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("#more svg.chart").first.is_visible()


def test_a_live_page_follows_the_run(browser, tmp_path):
    run, said = write_run(tmp_path / "run", [1, 2]), []
    with Server([run], 0, 1) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        page = browser.new_context().new_page()
        page.on("console", lambda message: said.append(message.text))
        page.goto(server.address)
        assert page.get_by_text("Best evaluations: 2.").is_visible()
        write_run(run, [1, 2, 77])
        page.get_by_text("Best evaluations: 77.").wait_for()  # it asks for itself anew
        page.context.close()
        server.shutdown()
        thread.join()
    assert said == []


def test_a_hostile_remark_is_read_and_not_run(visit):
    page = visit()
    assert page.get_by_text("<script>document.title").is_visible() and page.title() != "taken"
