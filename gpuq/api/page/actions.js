// Holds, releases and cancels jobs. Cancelling asks once; holding and releasing can be undone.
import { soon } from "./page.js";

const UNDO = { hold: "release", release: "hold" };
const DONE = { hold: "Held", release: "Released", cancel: "Cancelled" };
const POSSIBLE = { hold: ["PENDING"], release: ["HELD"], cancel: ["PENDING", "HELD", "STARTING", "RUNNING"] };
const toast = document.getElementById("toast");

const element = (name, text, more = {}) => Object.assign(document.createElement(name), { textContent: text }, more);

// Jobs are ids; an array, in whose row the node is, is a range of them.
export const idOf = (node, id) => {
  const count = Number(node.closest("tr")?.dataset.count ?? 1);
  return count > 1 ? [id, id + count - 1] : id;
};

export const jobs = (ids) => {
  const size = ids.reduce((sum, id) => sum + (Array.isArray(id) ? id[1] - id[0] + 1 : 1), 0);
  if (ids.length > 1) return ids.some(Array.isArray) ? `${ids.length} jobs and arrays, ${size} jobs in all` : `${size} jobs`;
  return Array.isArray(ids[0]) ? `array ${ids[0][0]} of ${size} tasks` : `job ${ids[0]}`;
};

// As few ids and ranges as there can be: a request takes 10,000.
const merged = (ids) => {
  const found = [];
  for (const [first, last] of ids.map((id) => (Array.isArray(id) ? [...id] : [id, id])).sort((one, other) => one[0] - other[0])) {
    const before = found.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else found.push([first, last]);
  }
  return found;
};

export const say = (text, undo) => {
  toast.replaceChildren(element("span", text));
  if (undo) toast.append(element("button", "Undo", { type: "button", onclick: undo }));
  toast.append(element("button", "Close", { type: "button", onclick: () => toast.replaceChildren() }));
};

const ask = (verb, ids) => new Promise((settle) => {
  const dialog = element("dialog", "");
  const many = ids.length > 1 || Array.isArray(ids[0]);
  dialog.setAttribute("aria-labelledby", "question");
  const form = element("form", "", { method: "dialog" });
  form.append(
    element("h2", `Cancel ${jobs(ids)}?`, { id: "question" }),
    element("p", `${many ? "Those that run are" : "If it runs, it is"} stopped. This cannot be undone.`),
    element("button", many ? "Keep them" : "Keep it", { value: "", autofocus: true }),
    element("button", `Cancel ${jobs(ids)}`, { value: "yes", className: "danger" }),
  );
  dialog.append(form);
  dialog.addEventListener("close", () => {
    settle(dialog.returnValue === "yes");
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
});

// The answer of the HTTP API, null where it refused: the page says why. With `headers` that identify, no key is needed.
export const send = async (path, body, headers = {}) => {
  let key = null;
  try {
    key = localStorage.getItem("gpuq-page-key");
  } catch {
    // A browser without storage has no key.
  }
  if (!key && !headers.Authorization) {
    say("This page may only read. Open it again with `gpuq open`, or with the address that `gpuq url` prints.");
    return null;
  }
  try {
    const answer = await fetch(path, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", ...(key && { "X-Gpuq-Page-Key": key }), ...headers },
      body: JSON.stringify(body),
    });
    const said = await answer.json();
    if (answer.ok) return said;
    say(`${said.detail} ${said.hint ?? ""}`);
  } catch {
    say("gpuq does not answer; nothing may have been changed.");
  }
  return null;
};

const act = async (verb, ids, undoing = false) => {
  if (!ids.length) return void say(`No chosen job can be ${verb === "cancel" ? "cancelled" : verb === "hold" ? "held" : "released"}.`);
  if (verb === "cancel" && !(await ask(verb, ids))) return;
  // An array means those of its tasks for which it is possible.
  const state = ids.some(Array.isArray) ? { state: POSSIBLE[verb] } : {};
  const said = await send(`/api/v1/jobs/${verb}`, { where: { ids: merged(ids), ...state } });
  if (said) {
    const taken = Object.values(said.jobs).flat();
    const refused = said.refused.flatMap((one) => one.ids.map((id) => `Job ${id} ${one.why}.`));
    const words = taken.length ? `${undoing ? "Undone: " : ""}${DONE[verb]} ${jobs(taken)}.` : "";
    const back = UNDO[verb];
    say([words, ...refused.slice(0, 3)].join(" "), back && taken.length && !undoing ? () => act(back, taken, true) : null);
  }
  soon();
};

export const chosen = () => [...document.querySelectorAll(".choose:checked")];

const count = () => {
  const number = document.getElementById("chosen");
  if (number) number.textContent = `${chosen().length} chosen`;
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.act");
  if (!button) return;
  const { verb, job } = button.dataset;
  if (job) return void act(verb, [idOf(button, Number(job))]);
  act(verb, chosen().filter((box) => POSSIBLE[verb].includes(box.dataset.state)).map((box) => idOf(box, Number(box.value))));
});

document.addEventListener("change", (event) => {
  if (event.target.id === "choose-all") {
    for (const box of document.querySelectorAll(".choose")) box.checked = event.target.checked;
  }
  if (event.target.matches("#choose-all, .choose")) count();
});
document.addEventListener("gpuq:shown", count);
