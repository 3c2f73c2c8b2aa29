// Forms that are sent to the HTTP API, and the form whose forecast is made while it is filled in.
import { say, send } from "./actions.js";
import { soon } from "./page.js";

const UNITS = { days: 86_400, hours: 3600 };

const value = (field) => {
  if (field.type !== "number") return field.value;
  return Number(field.value) * (UNITS[field.dataset.unit] ?? 1);
};

// The variables of lines as in NAME=value. Throws an Error that says which line is none.
const environment = (lines) =>
  Object.fromEntries(lines.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [name, ...rest] = line.split("=");
    if (!name || !rest.length) throw new Error(`${line} is no variable; write a line as in NAME=value.`);
    return [name, rest.join("=")];
  }));

// What is left empty is not sent.
const body = (form) =>
  Object.fromEntries([...form.elements].filter((field) => field.name && field.value !== "").map((field) => [field.name, value(field)]));

const submit = async (form) => {
  const { post, body: ready, madeOf, goesTo, ask, done } = form.dataset;
  if (madeOf !== undefined && `?${madeOf}` !== location.search) return void say("The forecast is still that of before; send it again in a moment.");
  if (ask && !confirm(ask)) return;
  const secret = form.querySelector("input[type=password]");
  const headers = {};
  if (secret) headers.Authorization = `Bearer ${secret.value.trim()}`;
  // The same key for the same press: a request that is sent twice makes one job.
  if ("once" in form.dataset) headers["Idempotency-Key"] = [...crypto.getRandomValues(new Uint32Array(4))].join("-");
  const content = ready ? JSON.parse(ready) : body(form);
  const variables = document.querySelector("[data-env]");
  try {
    if (variables) content.env = environment(variables.value);
  } catch (error) {
    return void say(error.message);
  }
  const said = await send(post, content, headers);
  if (!said) return;
  const shown = form.querySelector("output");
  if (goesTo) location.href = goesTo + said.id;
  else if (shown) shown.textContent = said[shown.dataset.shows];
  else say(done ?? "Done.");
  if (secret) secret.value = "";
  soon();
};

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.post) return;
  event.preventDefault();
  submit(event.target);
});

const live = document.querySelector("form[data-live]");
let typing = null;
live?.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    history.replaceState(null, "", `?${new URLSearchParams(new FormData(live))}`);
    soon();
  }, 200);
});
