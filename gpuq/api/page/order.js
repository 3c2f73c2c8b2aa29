// Moves waiting jobs in the queue, by dragging or with the arrow keys, or lets chosen ones go next. A job gets the priority of its
// new place; before that counts, the page says whose starts change.
import { chosen, idOf, jobs, say, send } from "./actions.js";
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

const agreed = (ids, now, to, changes) => new Promise((settle) => {
  const dialog = element("dialog", "");
  dialog.setAttribute("aria-labelledby", "question");
  const form = element("form", "", { method: "dialog" });
  const list = element("ul", "");
  list.append(...changes.slice(0, 12).map((one) => element("li", inWords(one))));
  form.append(
    element("h2", `Give ${jobs(ids)} priority ${to}?`, { id: "question" }),
    element("p", `${now} ${changes.length ? "Expected starts change:" : "No expected start changes."}`),
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

const give = async (rows, wish) => {
  const to = Math.max(-1000, Math.min(1000, wish));
  if (rows.every((row) => priority(row) === to)) return;
  const ids = rows.map((row) => idOf(row, Number(row.id.slice("job-".length))));
  const now = `${rows.length > 1 ? "They have" : "It has"} ${[...new Set(rows.map(priority))].join(", ")}.`;
  const who = jobs(ids).replace(/^./, (first) => first.toUpperCase());
  const body = { where: { ids, ...(ids.some(Array.isArray) && { state: ["waiting"] }) }, edit: { priority: to } };
  const found = await send(`${EDIT}/preview`, body);
  if (!found || !(await agreed(ids, now, to, found.changes))) return;
  const said = await send(EDIT, body);
  const back = async () => (await Promise.all(said.undo.map((one) => send(EDIT, one)))).every(Boolean) && say(`Undone: ${jobs(ids)}.`);
  if (said) say(`${who} ${rows.length > 1 ? "have" : "has"} priority ${to}.`, () => back().then(soon));
};

const drop = async () => {
  await give([moving.row], wanted());
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
  const rows = "bulk" in button.dataset ? chosen().map(rowOf).filter(Boolean) : [rowOf(button)];
  if (rows.length) await give(rows, Number(button.dataset.head) + 1);
  else say("No chosen job waits for its turn.");
  soon();
});
