// The page of a job: the log goes on while it is written, and can be searched.
const SHOWN_CHARACTERS = 400_000;
const PIECE = 4 * 2 ** 20;
const HITS_SHOWN = 200;
const SEQUENCE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// As `log_text.py` does it.
const readable = (text) =>
  text.replace(SEQUENCE, "").replaceAll("\r\n", "\n").replace(/[^\n]*\r(?=[^\n])/g, "").replace(CONTROL, "");

const log = document.getElementById("log");
const pre = log?.querySelector("pre");
const form = log?.querySelector("form");

const piece = (offset, limit, signal) =>
  fetch(`/api/v1/jobs/${log.dataset.job}/logs?offset=${offset}&limit=${limit}`, { credentials: "same-origin", signal });

let reading = false;
let decoder = new TextDecoder(); // keeps the first bytes of a letter whose others are not written yet
const follow = async () => {
  if (!pre || reading || !form.elements.follow.checked) return;
  reading = true;
  try {
    const answer = await piece(log.dataset.next, PIECE);
    if (!answer.ok) return;
    if (answer.headers.get("X-Gpuq-Attempt") !== log.dataset.attempt) {
      // It was started again, and its new log begins at 0.
      Object.assign(log.dataset, { attempt: answer.headers.get("X-Gpuq-Attempt"), next: "0" });
      pre.textContent = "";
      decoder = new TextDecoder();
      return;
    }
    log.dataset.next = answer.headers.get("X-Gpuq-Next-Offset");
    const more = decoder.decode(await answer.arrayBuffer(), { stream: true });
    if (!more) return;
    const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 30;
    pre.textContent = readable(pre.textContent + more).slice(-SHOWN_CHARACTERS);
    if (atEnd) pre.scrollTop = pre.scrollHeight;
  } catch {
    // The frame says that gpuq does not answer.
  } finally {
    reading = false;
  }
};

let searching = new AbortController();
const search = async (words) => {
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  const status = form.querySelector("[role=status]");
  const hits = log.querySelector(".hits");
  hits.replaceChildren();
  hits.hidden = !words;
  status.textContent = "";
  if (!words) return;
  const wanted = words.toLowerCase();
  const decoder = new TextDecoder();
  let [offset, line, found, rest] = [0, 0, 0, ""];
  const look = (text) => {
    line += 1;
    const shown = readable(text);
    if (!shown.toLowerCase().includes(wanted)) return;
    found += 1;
    if (found > HITS_SHOWN) return;
    const item = document.createElement("li");
    item.value = line;
    item.textContent = shown.slice(0, 500);
    hits.append(item);
  };
  try {
    for (;;) {
      const answer = await piece(offset, PIECE, signal);
      if (!answer.ok) throw new Error(answer.statusText);
      const raw = await answer.arrayBuffer();
      const lines = (rest + decoder.decode(raw, { stream: true })).split("\n");
      rest = lines.pop();
      lines.forEach(look);
      const next = Number(answer.headers.get("X-Gpuq-Next-Offset"));
      status.textContent = `${found.toLocaleString()} lines so far`;
      if (!raw.byteLength || next <= offset) break;
      offset = next;
    }
    if (rest) look(rest);
    const first = found > HITS_SHOWN ? `; the first ${HITS_SHOWN} are shown` : "";
    status.textContent = `${found.toLocaleString()} of ${line.toLocaleString()} lines${first}`;
  } catch (error) {
    if (error.name !== "AbortError") status.textContent = "The log cannot be read now.";
  }
};

if (pre) {
  pre.scrollTop = pre.scrollHeight;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search(form.elements.words.value);
  });
}
document.addEventListener("gpuq:shown", follow);
