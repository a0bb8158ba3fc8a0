/* Asks the browser for a passkey. A form with data-passkey names the address that says what to sign; what came back goes into its
   fields and the form is sent as any other. Nothing here approves: the server verifies, and so does each worker before it sends. */
"use strict";
(() => {
  const CARRIED = ["csrf_token", "operation", "fingerprint"];
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const field = (form, name) => form.querySelector(`input[name="${name}"]`);

  async function asked(form) {
    const body = new URLSearchParams();
    for (const name of CARRIED) if (field(form, name)) body.append(name, field(form, name).value);
    const answer = await fetch(form.dataset.challenge, { method: "POST", body, credentials: "same-origin", redirect: "manual" });
    if (!answer.ok) throw new Error("The console did not answer. Reload the page, then try again.");
    return answer.json();
  }

  const named = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }));

  async function made(given, enrol) {
    const wanted = { ...given, challenge: bytes(given.challenge) };
    if (!enrol) return navigator.credentials.get({ publicKey: { ...wanted, allowCredentials: named(given.allowCredentials) } });
    wanted.user = { ...given.user, id: bytes(given.user.id) };
    return navigator.credentials.create({ publicKey: { ...wanted, excludeCredentials: named(given.excludeCredentials) } });
  }

  function asJson(credential) {
    const response = {};
    for (const part of ["clientDataJSON", "attestationObject", "authenticatorData", "signature"]) {
      if (credential.response[part]) response[part] = text(credential.response[part]);
    }
    return JSON.stringify({ id: credential.id, rawId: text(credential.rawId), type: credential.type, clientExtensionResults: {}, response });
  }

  function say(form, words) {
    const note = form.querySelector("[data-passkey-note]");
    if (note) { note.textContent = words; note.hidden = !words; }
  }

  function forget(form) {
    for (const name of ["nonce", "answer"]) if (field(form, name)) field(form, name).value = "";
  }

  const why = (error) => (error && error.name === "NotAllowedError" ? "The passkey was not used. Try again when you are ready."
    : error && error.name === "InvalidStateError" ? "This passkey was added before."
    : error && error.name === "SecurityError" ? "Passkeys do not work at this address: open the console under its name."
    : (error && error.message) || "The passkey did not answer. Try again.");

  async function sign(form, button) {
    say(form, "");
    button.disabled = true;
    try {
      const given = await asked(form);
      const credential = await made(given.publicKey, button.hasAttribute("data-enrol"));
      field(form, "nonce").value = given.nonce;
      field(form, "answer").value = asJson(credential);
      button.disabled = false;
      form.requestSubmit(button);
    } catch (error) {
      forget(form);
      button.disabled = false;
      say(form, why(error));
      button.focus();
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target, button = event.submitter;
    if (!(form instanceof HTMLFormElement) || !form.matches("[data-passkey]")) return;
    if (!button || !button.matches("[data-sign], [data-enrol]") || field(form, "answer").value) return;
    event.preventDefault();
    if (!window.PublicKeyCredential) say(form, "This browser has no passkeys.");
    else sign(form, button);
  });
  window.addEventListener("pageshow", () => document.querySelectorAll("form[data-passkey]").forEach(forget));
  document.querySelectorAll("[data-needs-script]").forEach((part) => { part.hidden = false; });
  document.querySelectorAll("[data-no-script]").forEach((part) => { part.hidden = true; });
})();
