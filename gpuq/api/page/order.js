// Moves waiting jobs in the queue, by dragging or with the arrow keys. A job gets the priority of its new place; before that counts,
// the page says whose starts change.
import { idOf, say, send } from "./actions.js";
import { soon } from "./page.js";

const EDIT = "/api/v1/jobs/edit";
const element = (name, text, more = {}) => Object.assign(document.createElement(name), { textContent: text }, more);
const rowOf = (node) => node?.closest?.("tr[data-priority]");
const priority = (row) => Number(row.dataset.priority);
let moving = null;

const span = (seconds) => (seconds < 5400 ? `${Math.max(1, Math.round(seconds / 60))} min` : `${(seconds / 3600).toFixed(1)} h`);

const inWords = ({ id, name, before_s: before, after_s: after }) => {
  const who = `#${id}${name ? ` ${name}` : ""}: `;
  if (before === null) return `${who}in ${span(after)}, and not known before`;
  if (after === null) return `${who}not known any more`;
  return `${who}${span(Math.abs(after - before))} ${after < before ? "earlier" : "later"}, in ${span(after)}`;
};

const begin = (row) => {
  moving = { row, from: row.rowIndex, next: row.nextElementSibling };
  row.classList.add("moving");
  document.body.classList.add("dragging"); // the page is not refreshed meanwhile
};

const step = (up) => {
  const { row } = moving;
  const other = up ? row.previousElementSibling : row.nextElementSibling;
  if (!other || !other.matches("[data-priority]")) return;
  other[up ? "before" : "after"](row);
  row.querySelector(".move").focus();
};

const leave = () => {
  const { row, next } = moving;
  row.classList.remove("moving");
  row.parentNode.insertBefore(row, next);
  row.querySelector(".move").focus();
  document.body.classList.remove("dragging");
  moving = null;
};

// Before the row below it, or else behind the row above it.
const wanted = () => {
  const { row, from } = moving;
  if (row.rowIndex === from) return priority(row);
  const neighbour = row.rowIndex < from ? row.nextElementSibling : row.previousElementSibling;
  return priority(neighbour) + (row.rowIndex < from ? 1 : -1);
};

const agreed = (id, from, to, changes) => new Promise((settle) => {
  const dialog = element("dialog", "");
  dialog.setAttribute("aria-labelledby", "question");
  const form = element("form", "", { method: "dialog" });
  const list = element("ul", "");
  list.append(...changes.slice(0, 12).map((one) => element("li", inWords(one))));
  form.append(
    element("h2", `Give job ${id} priority ${to}?`, { id: "question" }),
    element("p", changes.length ? `It has ${from}. Expected starts change:` : `It has ${from}. No expected start changes.`),
    list,
    element("p", changes.length > 12 ? `and ${changes.length - 12} more` : ""),
    element("button", "Leave it", { value: "" }),
    element("button", "Apply", { value: "yes", autofocus: true }),
  );
  dialog.append(form);
  dialog.addEventListener("close", () => {
    settle(dialog.returnValue === "yes");
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
});

const give = async (row, wish) => {
  const id = Number(row.id.slice("job-".length));
  const to = Math.max(-1000, Math.min(1000, wish));
  if (to === priority(row)) return;
  const ids = [idOf(row, id)];
  const body = { where: { ids, ...(Array.isArray(ids[0]) && { state: ["waiting"] }) }, edit: { priority: to } };
  const found = await send(`${EDIT}/preview`, body);
  if (!found || !(await agreed(id, priority(row), to, found.changes))) return;
  const said = await send(EDIT, body);
  const back = async () => (await Promise.all(said.undo.map((one) => send(EDIT, one)))).every(Boolean) && say(`Undone: job ${id}.`);
  if (said) say(`Job ${id} has priority ${to}.`, () => back().then(soon));
};

const drop = async () => {
  await give(moving.row, wanted());
  leave();
  soon();
};

document.addEventListener("keydown", (event) => {
  const handle = event.target.closest(".move");
  if (!handle) return;
  const up = event.key === "ArrowUp";
  if (up || event.key === "ArrowDown") {
    if (!moving) begin(rowOf(handle));
    step(up);
  } else if (moving && event.key === "Enter") drop();
  else if (moving && event.key === "Escape") leave();
  else return;
  event.preventDefault();
});

document.addEventListener("pointerdown", (event) => {
  const handle = event.target.closest(".move");
  if (!handle || event.button) return;
  event.preventDefault();
  handle.focus();
  if (!moving) begin(rowOf(handle));
  const move = ({ clientX, clientY }) => {
    const over = rowOf(document.elementFromPoint(clientX, clientY));
    if (!over || !moving || over === moving.row) return;
    over[over.rowIndex < moving.row.rowIndex ? "before" : "after"](moving.row);
  };
  const end = (last) => {
    document.removeEventListener("pointermove", move);
    document.removeEventListener("pointerup", end);
    document.removeEventListener("pointercancel", end);
    if (!moving) return;
    if (last.type === "pointerup") drop();
    else leave();
  };
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", end);
  document.addEventListener("pointercancel", end);
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.next");
  if (!button) return;
  await give(rowOf(button), Number(button.dataset.head) + 1);
  soon();
});
