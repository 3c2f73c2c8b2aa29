// Drags and zooms the timeline: while it is dragged one element is moved, and what is drawn follows when it is let go.
import { soon } from "./page.js";

const LEAST_HOURS = 0.01;
const MOST_HOURS = 8784;
const ARROWS = { ArrowLeft: -0.25, ArrowRight: 0.25 };
const ZOOMS = { "+": 0.5, "=": 0.5, "-": 2 };
let drag = null;
let frame = null;

const pan = () => document.querySelector(".pan");

const go = (hours, end) => {
  const address = new URL(location.href);
  address.searchParams.set("hours", Math.min(MOST_HOURS, Math.max(LEAST_HOURS, hours)).toPrecision(6));
  address.searchParams.set("until", Math.round(end));
  history.replaceState(null, "", address);
  soon();
};

// Zooms by this factor around the moment that lies so far (0 to 1) into the period.
const zoom = (factor, at) => {
  const [start, end, hours] = ["start", "end", "hours"].map((name) => Number(pan().dataset[name]));
  const moment = start + at * (end - start);
  go(hours * factor, moment + (end - moment) * factor);
};

const move = (part) => {
  const [start, end, hours] = ["start", "end", "hours"].map((name) => Number(pan().dataset[name]));
  go(hours, end + part * (end - start));
};

document.addEventListener("pointerdown", (event) => {
  const window = event.target.closest(".window");
  if (!window || event.button !== 0) return;
  drag = { from: event.clientX, by: 0, width: window.clientWidth, pointer: event.pointerId, window };
});

document.addEventListener("pointermove", (event) => {
  if (!drag || event.pointerId !== drag.pointer) return;
  drag.by = event.clientX - drag.from;
  if (Math.abs(drag.by) < 4 && !document.body.classList.contains("dragging")) return;
  document.body.classList.add("dragging");
  frame ??= requestAnimationFrame(() => {
    frame = null;
    if (drag) pan().style.transform = `translateX(${drag.by}px)`;
  });
});

const drop = () => {
  const dragged = drag;
  drag = null;
  if (!document.body.classList.contains("dragging")) return;
  document.body.classList.remove("dragging");
  // The click that follows a drag opens no job.
  dragged.window.addEventListener("click", (event) => event.preventDefault(), { capture: true, once: true });
  move(-dragged.by / dragged.width);
};
document.addEventListener("pointerup", drop);
document.addEventListener("pointercancel", drop);

document.addEventListener("gpuq:shown", () => {
  if (!drag) pan()?.style.removeProperty("transform");
});

document.addEventListener("wheel", (event) => {
  const window = event.target.closest(".window");
  if (!window || !event.ctrlKey) return;
  event.preventDefault();
  const box = window.getBoundingClientRect();
  zoom(event.deltaY < 0 ? 0.8 : 1.25, (event.clientX - box.left) / box.width);
}, { passive: false });

document.addEventListener("dragstart", (event) => {
  if (event.target.closest(".window")) event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (!event.target.closest(".window") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in ARROWS) move(ARROWS[event.key]);
  else if (event.key in ZOOMS) zoom(ZOOMS[event.key], 0.5);
  else return;
  event.preventDefault();
});
