"""Makes the pictures of the web application in docs/pictures: `python -m tests.end_to_end.pictures [VIEW...]`, in four minutes.

A real gpuq with eight emulated H100s, and jobs that only wait; Debian's Chromium takes the pictures.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from tests.end_to_end.test_gpus import Machine
from tests.end_to_end.test_web import sign_in
from tests.support.browser import Browser, started_chromium
from tests.support.mock_gpus import MockGpus
from tests.support.pictures import small
from tests.support.site import Site, wait_for

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
KINDS = {"resnet50": (45, 18_000), "bert-large": (40, 24_000), "llama-lora": (90, 60_000), "whisper": (35, 12_000)}
FIRST_S, SECOND_S = 75, 600
SHORT_S = 85
"""Of some of the second jobs: they have ended when the pairs that were measured are shown."""


def main() -> None:
    """Run jobs until there is something to see, and take the pictures."""
    with MockGpus() as gpus:
        site = Site(interpreters=True, devices_backend="nvml", worker_sample_every_s=0.25)
        site.env.update(gpus.environ)
        with site, started_chromium() as chromium:
            machine = Machine(site, gpus)
            first = [machine.train(kind, needs, FIRST_S, name=f"{kind}-first") for kind, needs in KINDS.items()]
            for job in first:
                site.wait(job, within_s=200)
            path = {"PATH": os.environ["PATH"], "TERM": "xterm-256color"}
            shell = site.submit("bash", "--norc", interactive="terminal", name="shell", env=path)
            site.wait(shell, "RUNNING")
            running = [
                machine.train(kind, needs, SHORT_S if number == 2 else SECOND_S, name=f"{kind}-{number}")
                for number in range(3)
                for kind, needs in KINDS.items()
            ]
            waiting = [machine.train("llama-lora", KINDS["llama-lora"], SECOND_S, name=f"llama-r{n}") for n in range(6)]
            waiting.append(machine.train("diffusion", (60, 30_000), SECOND_S, name="diffusion-new"))
            waiting.append(machine.train("pretrain", (60, 30_000), SECOND_S, name="pretrain-8", gpus=8))
            shared = wait_for(
                lambda: next((j for j in running if (site.job(j).get("live") or {}).get("slowdown")), None), 90
            )
            stuck = next(job for job in waiting if site.job(job)["state"] == "PENDING")
            _take(Browser(chromium), site, shared, stuck, shell)


def _take(browser: Browser, site: Site, shared: int, stuck: int, shell: int) -> None:
    views = {
        "timeline": "/timeline?hours=0.1",
        "devices": "/",
        "queue": "/queue",
        "job": f"/jobs/{shared}",
        "waiting": f"/jobs/{stuck}",
        "what-if": f"/jobs/{stuck}?share=auto&max_slowdown=50&gpus=1#what-if",
        "terminal": f"/jobs/{shell}/terminal",
        "submit": f"/submit?like={shared}",
        "week": "/week",
        "pairs": "/pairs",
        "model": "/model",
        "administration": "/administration",
    }
    FOLDER.mkdir(exist_ok=True)
    sign_in(browser, site)
    time.sleep(float(os.environ.get("WATCH_S", "60")))  # a point of a job's charts is taken every ten seconds
    chosen = sys.argv[1:] or list(views)
    for name, path in views.items():
        if name not in chosen:
            continue
        for size, (width, height) in SIZES.items():
            for shade in ("light", "dark"):
                browser.size(width, height)
                browser.shade(shade)
                sign_in(browser, site, path)
                if name == "terminal":
                    browser.find("#attach input").send_keys((site.home / "token").read_text().strip(), Keys.ENTER)
                    browser.wait_for_text("Attached.", "#attached")
                    browser.find(".xterm-helper-textarea").send_keys("uname; echo $GPUQ_JOB_ID-$((1 + 1))", Keys.ENTER)
                    browser.wait_for_text(f"{shell}-2", ".xterm-rows")
                (FOLDER / f"{name}-{size}-{shade}.png").write_bytes(small(browser.picture()))


if __name__ == "__main__":
    main()
