// Works in a job: the frames of the shim's terminal (gpuq_workers/shim/terminal.py) over a WebSocket, shown by xterm.js.
import { FitAddon } from "./xterm-fit.mjs";
import { Terminal } from "./xterm.mjs";

const RECENT = -1n;
const MOST_UNSHOWN = 4 * 2 ** 20;
const SLOW = "slow";
const DETACHED = "detached";
const AGAIN_MS = 1000;
const ANSWER_WITHIN_MS = 5000;
const AWAY_MS = 60_000;

// The content policy allows no inline style, which xterm.js writes in two ways. The same rules in style sheets made by a script, and
// the same properties set by name, are allowed. Another element stands for the inline style: an empty one is refused too.
const create = document.createElement.bind(document);
document.createElement = (name, ...rest) => {
  const made = create(name === "style" ? "template" : name, ...rest);
  if (name === "style") {
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    Object.defineProperty(made, "textContent", { set: (text) => sheet.replaceSync(text) });
  }
  return made;
};
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

const place = document.getElementById("terminal");
const form = document.getElementById("attach");
const detach = document.getElementById("detach");
const status = document.getElementById("attached");
const { job } = place.dataset;
const theme = () => {
  const { backgroundColor, color } = getComputedStyle(document.body);
  return { background: backgroundColor, foreground: color, cursor: color, cursorAccent: backgroundColor };
};
const terminal = new Terminal({ scrollback: 10_000, screenReaderMode: true, fontSize: 14, lineHeight: 1.2, minimumContrastRatio: 4.5, theme: theme() });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { terminal.options.theme = theme(); });
const fit = new FitAddon();
terminal.loadAddon(fit);

let socket = null;
let token = "";
let offset = RECENT;
let unshown = 0;
let ended = null;
let shownTo = 0n;
let hideUntil = 0n;

// End the connection from here, for this reason. The code of its end is the server's.
const end = (reason) => {
  ended = reason;
  socket?.close();
};

const say = (text) => { status.textContent = text; };

const frame = (letter, body) => {
  const made = new Uint8Array(3 + body.byteLength);
  made[0] = letter.charCodeAt(0);
  new DataView(made.buffer).setUint16(1, body.byteLength);
  made.set(new Uint8Array(body.buffer ?? body, body.byteOffset ?? 0, body.byteLength), 3);
  return made;
};

const size = (from, view) => {
  view.setUint16(from, terminal.rows);
  view.setUint16(from + 2, terminal.cols);
  return view;
};

const put = (letter, body) => {
  if (socket?.readyState === WebSocket.OPEN) socket.send(frame(letter, body));
};

const type = (text) => {
  const bytes = new TextEncoder().encode(text);
  for (let from = 0; from < bytes.length; from += 32_768) put("D", bytes.slice(from, from + 32_768));
};

// What is shown again must not be answered again: a program's questions to its terminal are typed into the job otherwise.
const answers = /^\x1b(?:\[[?>=]?[0-9;]*[cRny]|\[[?0-9;]*\$y|P[\s\S]*\x1b\\|\][0-9]+;[\s\S]*(?:\x07|\x1b\\))$/;
terminal.onData((text) => {
  if (shownTo >= hideUntil || !answers.test(text)) type(text);
});
terminal.onBinary((text) => put("D", Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
terminal.onResize(() => put("R", size(0, new DataView(new ArrayBuffer(4)))));

const read = (received) => {
  let at = 0;
  while (received.length - at >= 3) {
    const view = new DataView(received.buffer, received.byteOffset + at);
    const length = view.getUint16(1);
    if (received.length - at < 3 + length) break;
    const body = received.slice(at + 3, at + 3 + length);
    const letter = String.fromCharCode(received[at]);
    at += 3 + length;
    if (letter === "O") {
      const offsets = new DataView(body.buffer);
      if (offset === RECENT) hideUntil = offsets.getBigUint64(8);
      offset = offsets.getBigUint64(0);
    } else if (letter === "D") {
      offset += BigInt(length);
      unshown += length;
      const upTo = offset;
      terminal.write(body, () => {
        unshown -= length;
        shownTo = upTo;
      });
    } else if (letter === "E") {
      say(`This job cannot be attached to: ${new TextDecoder().decode(body)}`);
    }
  }
  return received.slice(at);
};

// A ticket for one connection. Rejects with `refused` where gpuq answers with a reason.
const ticket = async () => {
  const answer = await fetch(`/api/v1/jobs/${job}/ticket`, { method: "POST", credentials: "same-origin", body: "{}",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
  const said = await answer.json();
  if (answer.ok) return said.ticket;
  throw Object.assign(new Error(`${said.detail} ${said.hint ?? ""}`), { refused: answer.status < 500 });
};

// One connection. Settles with the reason for its end here, else the code, and whether it was ever open.
const connect = (given) => new Promise((settle) => {
  let rest = new Uint8Array();
  let opened = false;
  ended = null;
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/v1/jobs/${job}/channels/terminal`;
  socket = new WebSocket(address, ["gpuq", `ticket.${given}`]);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    opened = true;
    const view = size(8, new DataView(new ArrayBuffer(12)));
    view.setBigInt64(0, offset);
    put("A", view);
    say("Attached. What you type goes to the job.");
    terminal.focus();
  };
  socket.onmessage = ({ data }) => {
    const all = new Uint8Array(rest.length + data.byteLength);
    all.set(rest);
    all.set(new Uint8Array(data), rest.length);
    rest = read(all);
    // The browser cannot make the job wait. What it does not get to show in time is left out: it goes on with what is recent.
    if (unshown > MOST_UNSHOWN) end(SLOW);
  };
  socket.onclose = ({ code }) => {
    socket = null;
    settle([ended ?? code, opened]);
  };
});

const shown = () => new Promise((settle) => terminal.write("", settle));

const work = async () => {
  let awaySince = null;
  for (;;) {
    try {
      const [code, opened] = await connect(await ticket());
      if (opened) awaySince = null;
      if (code === DETACHED) return "Detached. The job goes on.";
      if (code === 1000) return "The job has ended the connection.";
      if (code === SLOW) {
        await shown();
        continue;
      }
    } catch (error) {
      if (error.refused) return error.message;
    }
    awaySince ??= Date.now();
    if (Date.now() - awaySince > AWAY_MS) return "gpuq does not answer. The job goes on; attach again.";
    say("The connection is lost; the job goes on. Connecting again.");
    await new Promise((settle) => setTimeout(settle, AGAIN_MS));
  }
};

terminal.open(place);
fit.fit();
new ResizeObserver(() => fit.fit()).observe(place);

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = form.querySelector("input");
  token = field.value.trim();
  field.value = "";
  form.hidden = true;
  detach.hidden = false;
  say(await work());
  token = "";
  detach.hidden = true;
  form.hidden = false;
});
detach.addEventListener("click", () => end(DETACHED));
