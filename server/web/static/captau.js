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

  // How far a submission is; when that is over, the page has all of it.
  const polled = document.querySelector("[data-poll]");
  if (polled) {
    const first = document.title;
    const look = async () => {
      try {
        const answer = await fetch(polled.dataset.poll, { headers: { accept: "application/json" } });
        if (answer.ok) {
          const now = await answer.json();
          if (now.state !== polled.dataset.state) { location.reload(); return; }
          polled.querySelector("progress").value = now.progress;
          polled.querySelector("[data-step]").textContent = now.step;
          if (now.progress) document.title = `${Math.round(100 * now.progress)} % · ${first}`;
        }
      } catch { /* offline, or the server starts anew: asked again */ }
      setTimeout(look, 1500);
    };
    setTimeout(look, 500);
  }

  // Sorted by the server, as without this script; the rest of the page stays where it is.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-swap]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    try {
      const answer = await fetch(link.href);
      const there = new DOMParser().parseFromString(await answer.text(), "text/html");
      const old = document.querySelector("[data-swapped]");
      const left = old.querySelector(".scroll").scrollLeft;
      old.replaceWith(document.adoptNode(there.querySelector("[data-swapped]")));
      document.querySelector("[data-swapped] .scroll").scrollLeft = left;
      document.getElementById(link.id).focus({ preventScroll: true });
      history.pushState(null, "", link.href);
    } catch { location.assign(link.href); }
  });
  if (document.querySelector("[data-swapped]")) window.addEventListener("popstate", () => location.reload());
})();
