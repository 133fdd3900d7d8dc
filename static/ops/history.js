// Follows a run: events come in order over the websocket and are written here; everything else of the page
// is fetched again from the page's own URL when the socket says that something happened.
const run = document.getElementById("run");
const list = document.getElementById("events");
const mould = document.getElementById("event");
const live = document.getElementById("live");
const count = document.getElementById("count");
const announce = document.getElementById("announce");

const KINDS = {
  completed: "done", skipped: "done", scheduled: "waiting", started: "active", paused: "attention",
  alert: "attention", late_result_refused: "attention", failed: "failed", timed_out: "failed",
  terminated: "stopped", canceled: "stopped", compensating: "attention", swept: "attention", stuck: "attention",
};
const REFRESH_MS = 250;
const POLLS_MS = [2000, 5000, 15000];
const MOST_ROWS = 2000;

let seq = Number(run.dataset.seq);
let failures = 0;
let refreshing = null;
let dirty = false;
let finished = false;

function say(state, word) {
  live.dataset.state = state;
  live.textContent = word;
}

function summary(data) {
  return Object.entries(data || {})
    .filter(([, v]) => v !== null && v !== "" && !(typeof v === "object" && Object.keys(v).length === 0))
    .filter(([k, v]) => !(k === "attempt" && v === 0))
    .map(([k, v]) => (k === "attempt" && typeof v === "number" ? [k, v + 1] : [k, v])) // people count from one
    .map(([k, v]) => `${k}: ${typeof v === "string" ? v : JSON.stringify(v)}`)
    .join(" · ");
}

function row(event) {
  const li = mould.content.firstElementChild.cloneNode(true);
  const put = (name, text) => { li.querySelector(name).textContent = text; };
  const at = new Date(event.at).toISOString();
  li.dataset.seq = event.seq;
  li.className = (KINDS[event.type.split(".").pop()] || "unknown") + " new";
  put(".seq", event.seq);
  put(".type", event.type);
  put(".ref", event.ref || "");
  put(".data", summary(event.data));
  put("time", at.slice(11, 23));
  li.querySelector("time").dateTime = at;
  li.querySelector("time").title = `${at.slice(0, 10)} ${at.slice(11, 23)} UTC · ${Date.parse(at)}`;
  return li;
}

function append(li, number) {
  if (number <= seq) return;
  const follows = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  list.append(li);
  seq = number;
  while (list.children.length > MOST_ROWS) list.firstElementChild.remove();
  count.textContent = `${seq} event${seq === 1 ? "" : "s"}`;
  if (follows) list.scrollTop = list.scrollHeight;
}

// One fetch at a time; what happens meanwhile is fetched by the next one.
function refresh() {
  dirty = true;
  if (refreshing) return refreshing;
  refreshing = (async () => {
    try {
      while (dirty) {
        await new Promise((done) => setTimeout(done, REFRESH_MS));
        dirty = false;
        const answer = await fetch(location.href, { headers: { "X-Requested-With": "fetch" } });
        if (!answer.ok || answer.redirected) throw new Error(`status ${answer.status}`);
        swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
      }
    } finally {
      refreshing = null;
    }
  })();
  return refreshing;
}

function busy(region) {
  const active = document.activeElement;
  const typing = region.contains(active) && active.matches("input, textarea, select");
  const selection = getSelection();
  return typing || (!selection.isCollapsed && region.contains(selection.anchorNode));
}

function swap(page) {
  let announced = "";
  for (const fresh of page.querySelectorAll("[data-region]")) {
    const region = document.querySelector(`[data-region="${fresh.dataset.region}"]`);
    if (!region || region.innerHTML === fresh.innerHTML) continue;
    if (busy(region)) { setTimeout(refresh, 2000); continue; }
    const details = new Map([...region.querySelectorAll("details[data-id]")].map((d) => [d.dataset.id, d.open]));
    const focused = document.activeElement?.closest("[data-id]")?.dataset.id;
    const focusedSummary = region.contains(document.activeElement) && document.activeElement.matches("summary");
    const scrolled = [...region.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
    const before = region.querySelector("[data-status]")?.dataset.status;
    for (const d of fresh.querySelectorAll("details[data-id]")) {
      if (details.has(d.dataset.id)) d.open = details.get(d.dataset.id);
    }
    region.replaceChildren(...fresh.childNodes);
    region.querySelectorAll(".scroll").forEach((s, i) => { s.scrollLeft = scrolled[i] || 0; });
    if (focusedSummary) region.querySelector(`details[data-id="${CSS.escape(focused)}"] > summary`)?.focus();
    const after = region.querySelector("[data-status]")?.dataset.status;
    if (region.dataset.region === "summary" && before !== after) announced = `The run is now ${after.toLowerCase()}.`;
  }
  for (const li of page.querySelectorAll("#events > li")) append(document.importNode(li, true), Number(li.dataset.seq));
  finished = finished || !page.querySelector("#run[data-live]");
  document.title = page.title;
  if (announced) announce.textContent = announced;
}

function connect() {
  const url = new URL(`/ws/executions/${run.dataset.id}/?after=${seq}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const socket = new WebSocket(url);
  socket.onopen = () => { failures = 0; say("live", "Live"); };
  socket.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    append(row(event), event.seq);
    refresh().catch(() => say("still", "Not up to date"));
  };
  socket.onclose = ({ code }) => {
    if (code === 1000) {
      refresh().catch(() => {});
      say("finished", "Finished");
      return;
    }
    failures += 1;
    say("polling", "Reconnecting");
    if (failures > 1) return poll();
    setTimeout(connect, 500);
  };
}

// Without a socket: the page itself, at growing intervals, and the socket again after each.
async function poll() {
  const pause = POLLS_MS[Math.min(failures - 2, POLLS_MS.length - 1)];
  say("polling", `Polling every ${pause / 1000} s`);
  await new Promise((done) => setTimeout(done, pause * (0.8 + Math.random() * 0.4)));
  await refresh().catch(() => say("still", "Not up to date"));
  if (finished) return say("finished", "Finished");
  connect();
}

list.scrollTop = list.scrollHeight;
if ("live" in run.dataset) connect();
