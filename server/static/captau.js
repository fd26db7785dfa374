// Everything works without this script; it adds keys, the zoom, a countdown and checks while typing.
"use strict";
(() => {
  const form = document.querySelector("form[data-answer]");
  const submit = form && form.querySelector("button[data-submit]");

  // The server holds the wait; the page only shows it.
  if (submit && Number(submit.dataset.left) > 0) {
    const text = submit.textContent;
    const end = performance.now() + Number(submit.dataset.left) * 1000 + 100;
    submit.disabled = true;
    const tick = () => {
      const left = Math.ceil((end - performance.now()) / 1000);
      submit.disabled = left > 0;
      submit.textContent = left > 0 ? `${text} (${left} s)` : text;
      if (left > 0) setTimeout(tick, 100);
    };
    tick();
  }

  // One click, one request. A page that the back button brings again is fetched anew.
  if (form) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "1";
      setTimeout(() => delete form.dataset.sent, 3000);
    });
    window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }

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
    const keyed = form.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
    if (keyed && keyed.type === "radio") {
      keyed.checked = true;
      keyed.focus();
      keyed.dispatchEvent(new Event("input", { bubbles: true }));
      event.preventDefault();
    } else if (keyed) {
      keyed.click();
      event.preventDefault();
    } else if (event.key === "Enter" && submit && !event.target.matches("button, a, summary")) {
      event.preventDefault();
      if (!submit.disabled) form.requestSubmit(submit);
    }
  });

  // The server says what is wrong so far; there is one set of rules, and it is there.
  const said = form && form.querySelector("[data-said]");
  if (said) {
    let waiting = 0;
    const ask = async () => {
      const asked = new URLSearchParams(new FormData(form));
      asked.delete("token");
      try {
        const answer = await fetch(`${form.dataset.check}?${asked}`, { headers: { accept: "application/json" } });
        if (answer.ok) said.textContent = (await answer.json()).said;
      } catch { /* offline: the form is checked when it is sent */ }
    };
    form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 300); });
  }
})();
