// Every page works without this script; it adds keys, the zoom, a countdown and checks while typing.
"use strict";
(() => {
  const form = document.querySelector("form[data-answer]");
  const submit = form && form.querySelector("button[data-submit]");

  // The server enforces the wait; the page only shows it.
  if (submit && Number(submit.dataset.wait) > 0) {
    const label = submit.textContent;
    const end = performance.now() + Number(submit.dataset.wait) * 1000 + 100;
    submit.disabled = true;
    const countDown = () => {
      const seconds = Math.ceil((end - performance.now()) / 1000);
      submit.disabled = seconds > 0;
      submit.textContent = seconds > 0 ? `${label} (${seconds} s)` : label;
      if (seconds > 0) setTimeout(countDown, 100);
    };
    countDown();
  }

  // Two clicks send one request. A page that the back button restores is loaded again.
  const lost = form && form.querySelector("[data-lost]");
  if (form) {
    form.addEventListener("submit", (event) => {
      const isSent = Boolean(form.dataset.sent);
      form.dataset.sent = "1";
      setTimeout(() => delete form.dataset.sent, 3000);
      if (isSent || lost) event.preventDefault();
      if (lost && !isSent) sendAnswer(event.submitter);
    });
    window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }

  // Send an answer, and go where the server says. Where it cannot be reached, the page stays with what was chosen;
  // an answer that did arrive is recorded once, however often it is sent.
  const sendAnswer = async (button) => {
    lost.textContent = "";
    let response;
    try {
      const fields = new URLSearchParams(new FormData(form));
      if (button && button.name) fields.set(button.name, button.value);
      const headers = { accept: "application/json" };
      const signal = AbortSignal.timeout(20000);
      response = await fetch(form.action, { method: "POST", body: fields, headers, signal });
    } catch {
      delete form.dataset.sent;
      lost.textContent = lost.dataset.lost;
      lost.scrollIntoView({ block: "nearest" });
      return;
    }
    try {
      location.assign((await response.json()).page);
    } catch { // a fault, or the way to join, which is a page
      if (button && button.name) {
        const choice = document.createElement("input");
        Object.assign(choice, { type: "hidden", name: button.name, value: button.value });
        form.append(choice);
      }
      form.submit();
    }
  };

  const dialog = document.querySelector("dialog");
  for (const picture of document.querySelectorAll("button.picture")) {
    picture.addEventListener("click", () => {
      dialog.querySelector("img").src = picture.querySelector("img").src;
      dialog.showModal();
    });
  }
  if (dialog) dialog.addEventListener("click", () => dialog.close());

  document.addEventListener("keydown", (event) => {
    if (!form || event.ctrlKey || event.metaKey || event.altKey || (dialog && dialog.open)) return;
    if (event.target.matches("textarea, input[type=text], select")) return;
    const control = form.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
    if (control && control.type === "radio") {
      control.checked = true;
      control.focus();
      control.dispatchEvent(new Event("input", { bubbles: true }));
      event.preventDefault();
    } else if (control) {
      control.click();
      event.preventDefault();
    } else if (event.key === "Enter" && submit && !event.target.matches("button, a, summary")) {
      event.preventDefault();
      if (!submit.disabled) form.requestSubmit(submit);
    }
  });

  // The server checks what is filled in so far, by the rules that it applies when the form is sent.
  const checkMessage = form && form.querySelector("[data-answer-check]");
  if (checkMessage) {
    let timer = 0;
    const check = async () => {
      const fields = new URLSearchParams(new FormData(form));
      fields.delete("token");
      try {
        const response = await fetch(`${form.dataset.check}?${fields}`, { headers: { accept: "application/json" } });
        if (response.ok) checkMessage.textContent = (await response.json()).said;
      } catch { /* offline: the form is checked when it is sent */ }
    };
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(check, 300); });
  }

  // A file beyond the site's limit is refused before it travels.
  for (const input of document.querySelectorAll("input[type=file][data-most]")) {
    input.addEventListener("change", () => {
      const file = input.files[0];
      const isTooLarge = file && file.size > Number(input.dataset.most);
      input.setCustomValidity(isTooLarge ? input.dataset.tooLarge : "");
      if (isTooLarge) input.reportValidity();
    });
  }

  // Show a submission's progress; when its state changes, load the page again.
  const progress = document.querySelector("[data-poll]");
  if (progress) {
    const title = document.title;
    const poll = async () => {
      try {
        const response = await fetch(progress.dataset.poll, { headers: { accept: "application/json" } });
        if (response.ok) {
          const submission = await response.json();
          if (submission.state !== progress.dataset.state) { location.reload(); return; }
          progress.querySelector("progress").value = submission.progress;
          progress.querySelector("[data-step]").textContent = submission.step;
          if (submission.progress) document.title = `${Math.round(100 * submission.progress)} % · ${title}`;
        }
      } catch { /* offline, or the server restarts: polled again */ }
      setTimeout(poll, 1500);
    };
    setTimeout(poll, 500);
  }

  // Replace a table that the server sorts, without moving the rest of the page.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-swap]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    try {
      const response = await fetch(link.href);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const table = document.querySelector("[data-swapped]");
      const scrolled = table.querySelector(".scroll").scrollLeft;
      table.replaceWith(document.adoptNode(page.querySelector("[data-swapped]")));
      document.querySelector("[data-swapped] .scroll").scrollLeft = scrolled;
      document.getElementById(link.id).focus({ preventScroll: true });
      history.pushState(null, "", link.href);
    } catch { location.assign(link.href); }
  });
  if (document.querySelector("[data-swapped]")) window.addEventListener("popstate", () => location.reload());
})();
