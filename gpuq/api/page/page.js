// Keeps the page current: asks for it again when the journal moves, and every few seconds for the bars.
const EVERY_MS = 2000;
const ANSWER_WITHIN_MS = 5000;
const AT_MOST_EVERY_MS = 400;
const EVENTS = ["Submitted", "Launch", "Hold", "Started", "Stop", "Exited", "Requeue", "Archive",
  "CancelRequested", "HoldRequested", "ReleaseRequested", "JobEdited", "LaunchFailed"];
let last = 0;
let waiting = null;
let busy = false;
let shownAt = new Date();
let source = null;

document.documentElement.classList.add("scripts");
const zone = document.getElementById("zone");
zone.hidden = Number(zone.dataset.minutes) === -new Date().getTimezoneOffset();

export const soon = () => {
  if (waiting === null) waiting = setTimeout(refresh, Math.max(0, last + AT_MOST_EVERY_MS - Date.now()));
};

const refresh = async () => {
  waiting = null;
  if (busy || document.hidden || document.body.classList.contains("dragging")) return;
  busy = true;
  last = Date.now();
  try {
    const answer = await fetch(location.href, { credentials: "same-origin", headers: { Accept: "text/html" },
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    if (answer.status === 401) return void location.reload();
    if (answer.ok) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    else old();
  } catch {
    old();
  } finally {
    busy = false;
  }
};

const show = (next) => {
  shownAt = new Date();
  document.title = next.title;
  document.body.classList.remove("stale");
  const focused = document.activeElement;
  for (const id of ["frame", "main"]) morph(document.getElementById(id), next.getElementById(id));
  if (focused !== document.activeElement && focused.isConnected) focused.focus(); // a row that moves loses it
  document.dispatchEvent(new Event("gpuq:shown"));
};

const old = () => {
  document.body.classList.add("stale");
  const health = document.querySelector(".health");
  if (!health) return;
  health.className = "health bad";
  const text = `gpuq does not answer; what you see is from ${shownAt.toLocaleTimeString()}`;
  if (health.lastChild.textContent !== text) health.lastChild.textContent = text;
};

// Makes `shown` like `next` with the fewest changes, so that focus, what is chosen, selected and scrolled stay as they are.
const morph = (shown, next) => {
  if (shown.isEqualNode(next) || shown.hasAttribute("data-keep")) return;
  for (const { name } of [...shown.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") shown.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  const known = new Map([...shown.children].filter((child) => child.id).map((child) => [child.id, child]));
  let here = shown.firstChild;
  for (const child of [...next.childNodes]) {
    const same = child.id && known.get(child.id);
    if (same && same !== here) {
      shown.insertBefore(same, here);
      here = same;
    }
    if (!here || (!same && (here.id || child.id)) || here.nodeName !== child.nodeName) {
      shown.insertBefore(document.importNode(child, true), here);
      continue;
    }
    if (here.nodeType === Node.ELEMENT_NODE) morph(here, child);
    else if (here.data !== child.data) here.data = child.data;
    here = here.nextSibling;
  }
  while (here) {
    const gone = here;
    here = here.nextSibling;
    if (!(gone.nodeType === Node.ELEMENT_NODE && gone.hasAttribute("data-keep"))) gone.remove();
  }
};

// A browser opens few connections to one server: a page that is not looked at gives its own back.
const listen = () => {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (!source) {
    source = new EventSource("/api/v1/events");
    for (const name of EVENTS) source.addEventListener(name, soon);
    soon();
  }
};
document.addEventListener("visibilitychange", listen);
listen();
setInterval(refresh, EVERY_MS);
