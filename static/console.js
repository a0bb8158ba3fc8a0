/* Onceback console: courtesy only. Every page works without this file, and nothing here approves. */
"use strict";
(() => {
  const FAST_MS = 5000, SLOW_MS = 60000, ACTIVE_MS = 60000; // someone at the keyboard in the last minute is "active"
  const WARN_SECONDS = 120, SLOW_ANSWER_MS = 15000;
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const skew = one("[data-now]") ? Date.parse(one("[data-now]").dataset.now) - Date.now() : 0;
  const now = () => Date.now() + skew;

  // Toast: one line, for "Reference copied." and nothing else.
  let toastTimer = 0;
  function toast(text) {
    const line = one("#toast");
    if (!line) return;
    line.textContent = text;
    line.hidden = false;
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => { line.hidden = true; }, 4000);
  }

  async function copyText(button) {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      toast(button.dataset.copied || "Reference copied.");
    } catch {
      toast("The browser did not let the page copy. Select the text by hand.");
    }
  }

  // Rows: the link covers its row, so focus on the link is the current row and Enter is the browser's own.
  function moveRow(step) {
    const rows = all("[data-row]");
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.contains(document.activeElement) || row.classList.contains("here"));
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
    rows.forEach((row) => row.classList.toggle("here", row === next));
    const link = one("a.open, th a, a", next);
    if (link) link.focus();
  }

  function openRow() {
    const link = one("[data-row].here a.open, [data-row].here th a");
    if (link) link.click();
  }

  function typing(target) {
    if (!(target instanceof HTMLElement)) return false;
    if (target.isContentEditable || target.matches("textarea, select")) return true;
    return target.matches("input") && !target.matches("[type=checkbox], [type=radio], [type=submit], [type=button]");
  }

  const clickKey = (key) => { const act = one(`a[data-key="${key}"], .next-form button[data-key="${key}"]`); if (act) act.click(); };
  const keys = {
    j: () => moveRow(1),
    k: () => moveRow(-1),
    n: () => clickKey("n"),
    a: () => clickKey("a"),
    "/": () => { const field = one("#go"); if (field) field.focus(); },
    x: () => { const box = one("[data-row].here [name=pick]"); if (box) box.click(); },
    "?": () => { const sheet = one("#keysheet"); if (sheet) sheet.togglePopover(); },
    Enter: openRow,
  };

  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.defaultPrevented) return;
    if (document.body.dataset.keys !== "on" || typing(event.target)) return;
    const act = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (!act) return;
    // Enter belongs to whatever has focus; only a page with nothing focused opens the current row.
    if (event.key === "Enter" && event.target !== document.body && event.target.id !== "main") return;
    if (event.key !== "Enter") event.preventDefault();
    act();
  });

  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (!target) return;
    const copy = target.closest("[data-copy]");
    if (copy) copyText(copy);
    if (target.closest("[data-print]")) window.print();
    const stay = target.closest("[data-stay]");
    if (stay) { event.preventDefault(); staySignedIn(stay.href); }
  });

  // A second press is harmless (the server answers with the first result); greying the button only says so.
  function settle(form) {
    form.removeAttribute("data-sent");
    all("button[data-said]", form).forEach((button) => {
      button.disabled = false;
      button.removeAttribute("aria-busy");
      if (button.keep) button.replaceChildren(...button.keep);
      button.removeAttribute("data-said");
    });
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !form.matches("[data-once]")) return;
    const button = event.submitter || one("button", form);
    setTimeout(() => { // after the browser has taken the form's values, and only if the submit went on
      if (event.defaultPrevented || !button) return;
      button.dataset.said = "1";
      button.setAttribute("aria-busy", "true");
      if (button.dataset.busy) {
        button.keep = [...button.childNodes];
        button.replaceChildren(button.dataset.busy);
      }
      button.disabled = true;
    }, 0);
    setTimeout(() => {
      const slow = one("[data-slow]", form);
      if (slow) slow.hidden = false;
      settle(form);
    }, SLOW_ANSWER_MS);
  });
  window.addEventListener("pageshow", (event) => { if (event.persisted) all("form[data-once]").forEach(settle); });

  // Deadlines, once a second at most and never announced.
  function leftText(seconds) {
    if (seconds <= 0) return "Leaving now.";
    if (seconds < 120) return `In ${seconds} s.`;
    return `In ${Math.ceil(seconds / 60)} min.`;
  }

  function tick() {
    all("[data-countdown]").forEach((mark) => {
      const text = leftText(Math.ceil((Date.parse(mark.dataset.countdown) - now()) / 1000));
      if (mark.textContent !== text) mark.textContent = text;
    });
    warnOfSignOut();
  }

  // The session note. Polls do not extend the session; pages, and "Stay signed in", do.
  let sessionEnds = 0;
  function startSession() {
    const note = one("#session-note");
    sessionEnds = note ? Date.now() + Number(note.dataset.seconds) * 1000 : 0;
    if (note) note.hidden = true;
  }

  function warnOfSignOut() {
    const note = one("#session-note");
    if (!note || !sessionEnds || !note.hidden || sessionEnds - Date.now() > WARN_SECONDS * 1000) return;
    const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: note.dataset.zone });
    one("[data-at]", note).textContent = clock.format(new Date(sessionEnds + skew));
    note.hidden = false;
  }

  async function staySignedIn(url) {
    const answer = await fetch(url, { credentials: "same-origin", redirect: "manual" }).catch(() => null);
    if (answer && answer.ok) startSession();
    else toast("You could not be kept signed in. Copy what you typed, then sign in again.");
  }

  // Live parts: fast while someone is active, slow after, not at all while the tab is hidden.
  let lastActive = Date.now(), lastPoll = Date.now(), lastGood = Date.now();
  ["pointermove", "keydown", "pointerdown", "scroll"].forEach((name) =>
    document.addEventListener(name, () => { lastActive = Date.now(); }, { passive: true, capture: true }));

  function poll() {
    const every = Date.now() - lastActive < ACTIVE_MS ? FAST_MS : SLOW_MS;
    if (document.hidden || Date.now() - lastPoll < every) return;
    lastPoll = Date.now();
    all("[data-poll]").forEach((part) => part.dispatchEvent(new CustomEvent("poll-due")));
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) lastPoll = 0; });

  // Told by the header it carries: after a swap the polled part itself is gone from the page.
  const isPoll = (event) => "Onceback-Poll" in event.detail.requestConfig.headers;
  // Addresses of filters stay short: a choice of "any" is left out.
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (detail.verb !== "get") return;
    for (const [name, value] of [...detail.formData.entries()]) if (value === "") detail.formData.delete(name);
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && isPoll(event)) event.preventDefault();
  });
  const notLive = (off) => {
    const note = one("#live-note");
    if (!note) return;
    if (off) one("[data-at]", note).textContent = new Date(lastGood).toTimeString().slice(0, 8);
    note.hidden = !off;
  };
  ["htmx:sendError", "htmx:timeout", "htmx:responseError"].forEach((name) => document.addEventListener(name, () => notLive(true)));
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.successful) return;
    lastGood = Date.now();
    notLive(false);
    if (!isPoll(event)) startSession();
  });

  // The session ran out while someone was typing: the server keeps the note for the same person and acts on nothing.
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const note = event.detail.xhr.status === 401 && one("textarea[name=note]");
    if (!note || !note.value.trim()) return;
    const typed = new FormData();
    typed.append("csrf_token", one("input[name=csrf_token]", note.form).value);
    typed.append("note", note.value);
    navigator.sendBeacon("/kept-note", typed);
  });

  // A changed case: what stands in the bar is no longer the act to take.
  document.addEventListener("htmx:afterSettle", () => {
    const stale = one("[data-stale] a"), go = one('.bar a[data-key="a"]');
    if (!stale || !go) return;
    go.removeAttribute("data-key");
    go.href = stale.href;
    go.textContent = "Reload";
  });

  startSession();
  tick();
  setInterval(() => { tick(); poll(); }, 1000);
})();
