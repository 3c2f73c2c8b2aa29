// Keeps the page current: asks for it again when the journal moves, and every few seconds for the bars.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const AT_MOST_EVERY_MS = 400;
  let last = 0;
  let waiting = null;
  let busy = false;

  const refresh = async () => {
    waiting = null;
    if (busy || document.hidden) return;
    busy = true;
    last = Date.now();
    try {
      const answer = await fetch("/", { credentials: "same-origin", headers: { Accept: "text/html" } });
      if (answer.ok) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      else lost();
    } catch {
      lost();
    } finally {
      busy = false;
    }
  };

  const soon = () => {
    if (waiting === null) waiting = setTimeout(refresh, Math.max(0, last + AT_MOST_EVERY_MS - Date.now()));
  };

  // Replaces only the sections that changed, so that focus, selection and scrolling stay where they are.
  const show = (next) => {
    document.title = next.title;
    const fresh = next.querySelectorAll("header, section");
    const shown = document.querySelectorAll("header, section");
    if (fresh.length !== shown.length) return void document.body.replaceWith(next.body);
    fresh.forEach((part, index) => {
      if (part.innerHTML === shown[index].innerHTML) return;
      const focused = position(shown[index]);
      const scrolled = [...shown[index].querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
      shown[index].innerHTML = part.innerHTML;
      shown[index].querySelectorAll(".scroll").forEach((box, at) => box.scrollTo(...(scrolled[at] || [0, 0])));
      if (focused >= 0) shown[index].querySelectorAll("[tabindex]")[focused]?.focus({ preventScroll: true });
    });
  };

  const position = (part) => [...part.querySelectorAll("[tabindex]")].indexOf(document.activeElement);

  const lost = () => {
    const health = document.querySelector(".health");
    if (!health) return;
    health.className = "health bad";
    health.lastChild.textContent = "gpuq does not answer; what you see is old";
  };

  if (window.EventSource) {
    const source = new EventSource("/api/v1/events");
    for (const name of ["Submitted", "Launch", "Hold", "Started", "Stop", "Exited", "Requeue", "Archive",
      "CancelRequested", "HoldRequested", "ReleaseRequested", "LaunchFailed"]) source.addEventListener(name, soon);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
  setInterval(refresh, EVERY_MS);
})();
