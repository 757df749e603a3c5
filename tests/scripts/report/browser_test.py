"""The page in a real browser (headless Chromium): no error, no network, charts with marks, filters, sorting, links, keyboard, light and
dark, phone width, and hostile names that stay text. Skipped where chromium or chromedriver is missing."""

import json
import os
import shutil
import time

import pytest

import generate

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are needed (Debian: apt-get install chromium chromium-driver)"
)
# Generous, since tests share the machine; nothing here is a measurement.
WAIT_S = 20


@pytest.fixture(scope="module")
def browser():
    options = Options()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def open_page(browser, page, width=1280, dark=False):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(page.as_uri())
    wait_for(browser, "return document.documentElement.dataset.ready === 'yes'")
    browser.execute_script("try { localStorage.clear(); } catch {}")


def wait_for(browser, script, *arguments):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        value = browser.execute_script(script, *arguments)
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"never became true: {script}")


def show_all(browser, article):
    """Scrolls an experiment's figures into view, since an address map is drawn when it comes near."""
    browser.execute_script("document.querySelectorAll(arguments[0] + ' .chart').forEach((one) => one.scrollIntoView())", article)
    wait_for(browser, "return [...document.querySelectorAll(arguments[0] + ' [data-chart=map] .plot')].every((one) => one.querySelector('svg'))", article)


def assert_quiet(browser):
    """No message of level warning or worse, and no request but the page itself."""
    messages = [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert not messages
    urls = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            urls.append(message["params"]["request"]["url"])
    assert [url for url in urls if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert len([url for url in urls if url.startswith("file:")]) == 1


MARKS = """const marks = {};
document.querySelectorAll(arguments[0] + ' .chart').forEach((figure) => {
  marks[figure.dataset.chart] = figure.querySelectorAll('.plot circle, .plot rect, .plot polyline').length; });
return marks;"""


def test_it_opens_without_errors_and_network_and_charts_have_marks(browser, golden_page):
    open_page(browser, golden_page)
    kinds = set()
    for index in range(1, browser.execute_script("return document.querySelectorAll('.experiment').length") + 1):
        show_all(browser, f"#experiment-{index}")
        marks = browser.execute_script(MARKS, f"#experiment-{index}")
        kinds |= set(marks)
        assert marks["latency"] >= 5 and all(marks.values()), marks
    assert kinds >= {"cost", "latency", "memory", "oom", "slow", "timeline", "map"}
    assert_quiet(browser)


def test_the_map_opens_at_the_chosen_moment_and_follows_the_slider(browser, golden_page):
    open_page(browser, golden_page)
    article = browser.execute_script("return '#' + document.querySelector('[data-chart=map]').closest('.experiment').id")
    show_all(browser, article)
    told = "return document.querySelector(arguments[0] + ' .t-at').textContent"
    # Most is handed out at the last of the generated maps, and none is that of the failed request.
    assert browser.execute_script(told, article) == "at event 1,900"
    browser.execute_script("const s = document.querySelector(arguments[0] + ' .t-scrub'); s.value = 0; s.dispatchEvent(new Event('input'))", article)
    assert browser.execute_script(told, article) == "at event 0"
    assert "largest free block" in browser.execute_script("return document.querySelector(arguments[0] + ' .t-told').textContent", article)


def test_the_line_to_paste_is_what_the_button_copies(browser, golden_page):
    open_page(browser, golden_page)
    pairs = browser.execute_script("return [...document.querySelectorAll('.paste')].map((one) => [one.querySelector('code').textContent, "
                                   "one.querySelector('.copy').dataset.text])")
    assert pairs and all(shown == copied and shown.startswith("export ") for shown, copied in pairs)
    browser.execute_script("document.querySelector('.copy').click()")
    wait_for(browser, "return document.querySelector('.copy').textContent === 'copied'")


def test_hostile_names_are_never_executed(browser, golden_page):
    open_page(browser, golden_page)
    for index in range(1, browser.execute_script("return document.querySelectorAll('.experiment').length") + 1):
        show_all(browser, f"#experiment-{index}")
    for button in range(browser.execute_script("return document.querySelectorAll('button.open').length")):
        browser.execute_script("document.querySelectorAll('button.open')[arguments[0]].click()", button)
        assert browser.execute_script("return document.getElementById('detail').open")
        browser.execute_script("document.getElementById('detail').close()")
    assert browser.execute_script("return window.broken === undefined")
    assert browser.execute_script("return document.querySelectorAll('img, [onclick], [onerror]').length") == 0
    # Even a script that got into the page would not run.
    browser.execute_script("const s = document.createElement('script'); s.textContent = 'window.broken = 2'; document.body.append(s)")
    assert browser.execute_script("return window.broken === undefined")


def test_the_comparison_has_marks_filters_and_dialogs(browser, golden_page):
    open_page(browser, golden_page)
    marks = browser.execute_script(MARKS, "#comparison-1")
    assert marks["changes"] >= 1
    shown = "return document.querySelectorAll('.compared tbody tr:not([hidden])').length"
    choose = "const s = document.querySelector('.k-verdict'); s.value = arguments[0]; s.dispatchEvent(new Event('input', {bubbles: true}))"
    browser.execute_script(choose, "")
    everything = browser.execute_script(shown)
    browser.execute_script(choose, "worse")
    assert 0 < browser.execute_script(shown) < everything
    assert browser.execute_script("return [...document.querySelectorAll('.compared tbody tr:not([hidden])')].every((row) => row.dataset.verdict === 'worse')")
    for button in range(browser.execute_script("return document.querySelectorAll('button.numbers').length")):
        browser.execute_script("document.querySelectorAll('button.numbers')[arguments[0]].click()", button)
        assert browser.execute_script("return document.querySelectorAll('#detail tbody tr').length") > 0
        browser.execute_script("document.getElementById('detail').close()")
    assert browser.execute_script("return window.broken === undefined && document.querySelectorAll('img').length === 0")
    assert_quiet(browser)


def shown_rows(browser):
    return browser.execute_script("return [...document.querySelectorAll('.experiment:not([hidden]) .cells tbody tr:not([hidden])')].length")


def test_filters_show_what_they_say(browser, large_page):
    open_page(browser, large_page)
    assert shown_rows(browser) == 1000
    browser.find_element(By.ID, "f-text").send_keys("max_split_size_mb:32")
    wait_for(browser, "return document.getElementById('f-count').textContent.startsWith('111 of 1000')")
    assert shown_rows(browser) == 111
    browser.execute_script("const s = document.getElementById('f-capacity'); s.value = '1.05x'; s.dispatchEvent(new Event('input', {bubbles: true}))")
    wait_for(browser, "return document.getElementById('f-count').textContent.startsWith('55 of 1000')")
    browser.find_element(By.ID, "f-text").send_keys(" nothing has this name")
    wait_for(browser, "return !document.getElementById('nothing').hidden")
    browser.find_element(By.CSS_SELECTOR, "#filters button[type=reset]").click()
    wait_for(browser, "return document.getElementById('f-count').textContent.startsWith('1000 of 1000')")
    browser.execute_script("const s = document.getElementById('f-outcome'); s.value = 'oom'; s.dispatchEvent(new Event('input', {bubbles: true}))")
    wait_for(browser, "return !document.getElementById('f-count').textContent.startsWith('1000 of')")
    assert browser.execute_script("return [...document.querySelectorAll('.cells tbody tr:not([hidden])')].every((row) => row.dataset.outcome === 'oom')")


def test_columns_sort_up_down_and_back(browser, large_page):
    open_page(browser, large_page)
    script = """const table = document.querySelector('#experiment-1 .cells'), buttons = [...table.tHead.querySelectorAll('button')];
    const at = buttons.findIndex((button) => button.textContent === 'P99');
    if (arguments[0]) buttons[at].click();
    return [...table.tBodies[0].rows].map((row) => Number(row.cells[at + 1].dataset.v));"""
    original = browser.execute_script(script, False)
    assert browser.execute_script(script, True) == sorted(original)
    assert browser.execute_script(script, True) == sorted(original, reverse=True)
    assert browser.execute_script(script, True) == original != sorted(original)


def test_it_can_be_used_with_the_keyboard_alone(browser, golden_page):
    open_page(browser, golden_page)
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("class") == "skip"
    browser.execute_script("document.querySelector('#scores thead button').focus()")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.execute_script("return document.querySelector('#scores th[aria-sort=ascending]') !== null")
    browser.execute_script("document.querySelector('#experiment-2 button.open').focus()")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(browser, "return document.getElementById('detail').open")
    assert browser.execute_script("return document.querySelectorAll('#detail .pairs li').length") > 100
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    wait_for(browser, "return !document.getElementById('detail').open")
    # Everything that reacts to a click is a control that the keyboard reaches.
    bare = "return document.querySelectorAll('[onclick], [role=button]:not(button), a:not([href])').length"
    assert browser.execute_script(bare) == 0
    unnamed = ("return [...document.querySelectorAll('button, select, input, a')]"
               ".filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length)).length")
    assert browser.execute_script(unnamed) == 0


def test_a_definition_link_leads_to_its_row(browser, golden_page):
    open_page(browser, golden_page)
    browser.execute_script("document.querySelector('#experiment-2 .cells a.def[href=\"#def-waste_share\"]').click()")
    wait_for(browser, "return location.hash === '#def-waste_share'")
    wait_for(browser, "const top = document.getElementById('def-waste_share').getBoundingClientRect().top; return top >= 0 && top < innerHeight")


def luminance(text):
    parts = [int(float(part)) / 255 for part in text[text.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_have_readable_contrast(browser, golden_page, dark):
    open_page(browser, golden_page, dark=dark)
    pairs = browser.execute_script(
        """const effective = (element) => {
          for (let e = element; e; e = e.parentElement) {
            const c = getComputedStyle(e).backgroundColor;
            if (!/, 0\\)$/.test(c)) return c;
          }
          return 'rgb(255,255,255)';
        };
        return [...document.querySelectorAll('p, h1, h2, h3, td, th, a, small, code, label, button, .note')].slice(0, 4000)
          .filter((one) => one.offsetParent && one.textContent.trim()).map((one) => [getComputedStyle(one).color, effective(one), one.className]);"""
    )
    assert len(pairs) > 300
    for front, back, name in pairs:
        light, low = sorted((luminance(front), luminance(back)), reverse=True)
        assert (light + 0.05) / (low + 0.05) >= 4.5, (front, back, name)
    assert luminance(pairs[0][1]) < 0.1 if dark else luminance(pairs[0][1]) > 0.9


def test_the_theme_can_be_switched(browser, golden_page):
    open_page(browser, golden_page)
    browser.find_element(By.ID, "theme").click()
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"
    browser.execute_script("try { localStorage.clear(); } catch {}")


def test_a_phone_never_scrolls_sideways(browser, golden_page):
    open_page(browser, golden_page, width=390)
    show_all(browser, "#experiment-2")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    small = "return [...document.querySelectorAll('p, td, th, li')].filter((one) => one.offsetParent && parseFloat(getComputedStyle(one).fontSize) < 11).length"
    assert browser.execute_script(small) == 0
    assert_quiet(browser)


def long_page(folder):
    """Several experiments whose workloads, config strings, device and warnings are words without a place to break."""
    long = "a_rather_long_recording_name_of_llama3_8b_pretrain_fsdp_rank0_step1200"
    cells = []
    for number in range(3):
        for conf in ("", "max_split_size_mb:128,garbage_collection_threshold:0.8,roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"):
            cell = generate.measured_cell()
            cell.update(workload=f"file:/data/{long}/{long}_{number}.csv", allocator="caching", conf=conf, warnings=[long * 2])
            cells.append(cell)
    environment = {**generate.golden_lines()[0], "argv": ["allocmark", long * 3], "cpu_model": long, "gpu_name": long, "warnings": [long * 2]}
    lines = generate.with_ids([environment, *cells])
    folder = generate.write_folder(folder / "run", lines, [generate.make_timeline(line["cell_id"]) for line in lines[1:3]])
    generate.make_report(folder)
    return folder / "report.html"


def test_names_without_a_place_to_break_never_scroll_a_phone_sideways(browser, tmp_path):
    page = long_page(tmp_path)
    open_page(browser, page, width=390)
    show_all(browser, "#experiment-1")
    widest = "return Math.max(document.documentElement.scrollWidth, innerWidth)"
    assert browser.execute_script(widest) <= 390
    browser.execute_script("document.querySelector('button.open').click()")
    assert browser.execute_script(widest) <= 390
    assert browser.execute_script("const d = document.getElementById('detail'); return d.scrollWidth <= d.clientWidth")


def test_a_chart_is_saved_as_svg(browser, golden_page, tmp_path):
    open_page(browser, golden_page)
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    show_all(browser, "#experiment-2")
    browser.execute_script("document.querySelector('#experiment-2 [data-chart=memory] .save').click()")
    end = time.monotonic() + WAIT_S
    while not list(tmp_path.glob("*.svg")) and time.monotonic() < end:
        time.sleep(0.1)
    assert [path.name for path in tmp_path.glob("*.svg")] == ["experiment-2-memory.svg"]
    assert (tmp_path / "experiment-2-memory.svg").read_text().startswith("<svg")


@pytest.mark.skipif(not os.environ.get("ALLOCMARK_SCREENSHOTS"), reason="ALLOCMARK_SCREENSHOTS names no folder for screenshots")
@pytest.mark.parametrize("name, width, dark", [("light", 1280, False), ("dark", 1280, True), ("phone", 390, False)])
def test_screenshots_for_a_human_to_look_at(browser, golden_page, name, width, dark):
    open_page(browser, golden_page, width, dark)
    for part in ("#comparison-1", "#answer", "#experiment-2"):
        if part != "#answer":
            show_all(browser, part)
        browser.execute_script("document.querySelector(arguments[0]).scrollIntoView()", part)
        time.sleep(1)
        browser.save_screenshot(os.path.join(os.environ["ALLOCMARK_SCREENSHOTS"], f"{name}-{part[1:]}.png"))
