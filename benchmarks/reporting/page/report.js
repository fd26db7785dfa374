"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const make = (tag, text, attributes) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    return element;
  };
  const plural = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

  /* Tables: a click on a head sorts, a word filters. */
  const numberOf = (text) => {
    const found = /^[<≤]?\s*([-−]?[\d,]*\.?\d+(?:e[-+]?\d+)?)/i.exec(text);
    return found ? Number(found[1].replace(/,/g, "").replace("−", "-")) : NaN;
  };
  const empty = (text) => text === "" || text === "–";
  const sorted = (rows, column, down) => {
    const keyed = rows.map((row) => ({ row, text: row.cells[column].textContent.trim() }));
    const full = keyed.filter(({ text }) => !empty(text));
    const numeric = full.every(({ text }) => !Number.isNaN(numberOf(text)));
    full.sort((a, b) =>
      numeric ? numberOf(a.text) - numberOf(b.text) : a.text.localeCompare(b.text, "en"));
    if (down) full.reverse();
    return [...full, ...keyed.filter(({ text }) => empty(text))].map(({ row }) => row);
  };
  const arm = (table) => {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", head.textContent || "name", { type: "button" });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const rows = [...body.rows];
        const before = head.getAttribute("aria-sort");
        /* Numbers from the greatest on at first, words from A on. */
        const down = before ? before === "ascending" : head.classList.contains("n");
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.replaceChildren(...sorted(rows, column, down));
      });
    });
    if (body.rows.length < 8) return;
    const tools = make("div", undefined, { class: "tools" });
    const label = make("label", "Filter rows ");
    const input = make("input", undefined, { type: "search" });
    const told = make("span", "", { role: "status" });
    label.append(input);
    tools.append(label, told);
    table.parentElement.before(tools);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of body.rows) {
        const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      told.textContent = words.length ? `${shown} of ${plural(body.rows.length, "row")}` : "";
    });
  };
  document.querySelectorAll("table.data").forEach(arm);

  /* Captions. */
  const source = by("data");
  if (!source) return;
  const UNDEFINED = 65535;
  const STEPS = 10000;
  const ROWS = 25;
  const parts = JSON.parse(source.textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  for (const part of parts) {
    part.count = part.items.caption.length;
    part.scores = new Float32Array(bytes(part.scores));
    part.ranks = new Uint16Array(bytes(part.ranks));
    part.people.forEach((one, at) => {
      one.column = part.metrics.length + at;
      one.means = part.ratings[at].map((values) =>
        values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN);
    });
    part.pairsOf = new Map();
    for (const pair of part.pairs) {
      for (const item of [pair[0], pair[1]]) {
        part.pairsOf.set(item, [...(part.pairsOf.get(item) || []), pair]);
      }
    }
  }
  const rank = (part, column, item) => {
    const found = part.ranks[column * part.count + item];
    return found === UNDEFINED ? NaN : found / STEPS;
  };
  const nameOf = (part, column) =>
    column < part.metrics.length
      ? part.metrics[column]
      : `people (${part.people[column - part.metrics.length].name})`;
  const percent = (share) => (Number.isNaN(share) ? "undefined" : `${(100 * share).toFixed(0)} %`);
  const written = (score) => {
    if (!Number.isFinite(score)) return String(score);
    return Number(score.toPrecision(4)).toString();
  };

  let part = parts[0];
  let order = [];
  let apart = [];
  let page = 0;
  let opened = 0;

  const option = (select, value, text) => select.append(make("option", text, { value }));
  const choices = () => {
    const [first, second, system] = [by("first"), by("second"), by("system")];
    first.replaceChildren();
    second.replaceChildren();
    system.replaceChildren();
    option(first, "any", "any metric");
    option(second, "any", "any other metric");
    const named = part.metrics.map((_, column) => column);
    const people = part.people.map(({ column }) => column);
    named.forEach((column) => option(first, column, nameOf(part, column)));
    [...people, ...named].forEach((column) => option(second, column, nameOf(part, column)));
    option(system, "", "all");
    part.systems.filter(Boolean).forEach((name) => option(system, name, name));
    by("system-label").hidden = part.systems.filter(Boolean).length < 2;
    by("dataset-label").hidden = parts.length < 2;
    for (const value of ["best", "worst"]) {
      by("order").querySelector(`[value=${value}]`).hidden = !part.people.length;
    }
  };

  /* The two columns that are furthest apart for an item, and by how much. */
  const furthest = (item) => {
    const [a, b] = [by("first").value, by("second").value];
    const asked = Array.from({ length: part.asked }, (_, column) => column);
    const lefts = a === "any" ? asked : [Number(a)];
    const rights = b === "any" ? asked : [Number(b)];
    let best = { gap: -1, high: -1, low: -1, signed: 0 };
    /* Of any against any, the greatest and the least will do. */
    const extremes = (columns) => {
      let [least, most] = [-1, -1];
      for (const column of columns) {
        const here = rank(part, column, item);
        if (Number.isNaN(here)) continue;
        if (least < 0 || here < rank(part, least, item)) least = column;
        if (most < 0 || here > rank(part, most, item)) most = column;
      }
      return least < 0 ? [] : [least, most];
    };
    for (const left of extremes(lefts)) {
      for (const right of extremes(rights)) {
        const signed = rank(part, left, item) - rank(part, right, item);
        if (Math.abs(signed) > best.gap) {
          best = { gap: Math.abs(signed), signed, left, right };
        }
      }
    }
    return best;
  };

  const arrange = () => {
    const words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const system = by("system").value;
    const { items } = part;
    order = [];
    for (let item = 0; item < part.count; item += 1) {
      if (system && part.systems[items.system[item]] !== system) continue;
      if (words.length) {
        const text = [items.caption[item], part.images[items.image[item]],
          ...part.references[items.references[item]]].join(" ").toLowerCase();
        if (!words.every((word) => text.includes(word))) continue;
      }
      order.push(item);
    }
    apart = Array.from({ length: part.count }, () => undefined);
    for (const item of order) apart[item] = furthest(item);
    const means = part.people.length ? part.people[0].means : [];
    const worst = (value) => (Number.isNaN(value) ? -Infinity : value);
    const keys = {
      apart: (item) => apart[item].gap,
      above: (item) => apart[item].signed,
      below: (item) => -apart[item].signed,
      best: (item) => worst(means[item]),
      worst: (item) => worst(-means[item]),
    };
    const key = keys[by("order").value];
    if (key) order.sort((a, b) => key(b) - key(a) || a - b);
    page = 0;
    show();
  };

  const judged = (item) => {
    const told = part.people.map(({ name, means }) =>
      Number.isNaN(means[item]) ? `${name}: no rating` : `${name} ${written(means[item])}`);
    for (const [a, , dimension, winner] of part.pairsOf.get(item) || []) {
      const won = winner === "tie" ? "tied" : (winner === "a") === (a === item) ? "preferred" : "not preferred";
      told.push(`${part.compared[dimension]}: ${won}`);
    }
    return told.join(", ");
  };
  const picture = (item) => {
    const data = part.pictures[part.items.image[item]];
    if (!data) return undefined;
    return make("img", undefined, { src: data, alt: `picture ${part.images[part.items.image[item]]}` });
  };

  const show = () => {
    const list = by("list");
    const start = page * ROWS;
    const rows = order.slice(start, start + ROWS).map((item, at) => {
      const row = make("li");
      const holder = make("div");
      const small = picture(item);
      if (small) holder.append(small);
      const text = make("div");
      const button = make("button", part.items.caption[item] || "(an empty caption)", { type: "button", dir: "auto" });
      button.addEventListener("click", () => open(start + at));
      const told = small ? [] : [part.images[part.items.image[item]]];
      if (part.systems[part.items.system[item]]) told.push(part.systems[part.items.system[item]]);
      told.push(judged(item));
      const { gap, left, right } = apart[item];
      if (gap >= 0 && left !== right) {
        told.push(`${nameOf(part, left)} ${percent(rank(part, left, item))}, ` +
          `${nameOf(part, right)} ${percent(rank(part, right, item))}`);
      }
      text.append(button, make("p", told.filter(Boolean).join(" · "), { class: "meta" }));
      if (Object.keys(part.pictures).length) row.append(holder);
      row.append(text);
      return row;
    });
    list.classList.toggle("bare", !Object.keys(part.pictures).length);
    list.start = start + 1;
    list.replaceChildren(...rows);
    const pages = Math.max(1, Math.ceil(order.length / ROWS));
    by("count").textContent = `${plural(order.length, "caption")} of ${part.count.toLocaleString("en")}`;
    by("page").textContent = `page ${page + 1} of ${pages}`;
    by("pages").hidden = pages < 2;
    by("before").disabled = page === 0;
    by("after").disabled = page >= pages - 1;
  };

  /* A caption whose blamed words are marked, the stronger the surer; those that people mark are underlined. */
  const marked = (item) => {
    const caption = part.items.caption[item];
    const blame = new Map();
    for (const [place, name, value] of part.blamed[item] || []) {
      blame.set(place, [...(blame.get(place) || []), { name, value }]);
    }
    let place = 0;
    const pieces = caption.split(/(\s+)/).filter(Boolean).map((piece) => {
      const blamers = /\S/.test(piece) ? blame.get(place++) : undefined;
      if (!blamers) return piece;
      const mark = make("mark", piece, {
        title: blamers.map(({ name, value }) => `${name} ${value}`).join(", "),
        class: blamers.some(({ name }) => name === "people") ? "people" : "",
      });
      const surest = Math.max(0, ...blamers.filter(({ name }) => name !== "people").map(({ value }) => value));
      mark.style.setProperty("--blame", `${Math.round(100 * surest)}%`);
      return mark;
    });
    return pieces.length ? pieces : ["(an empty caption)"];
  };

  const fill = () => {
    const item = order[opened];
    const { items } = part;
    const body = by("caption-body");
    const image = part.images[items.image[item]];
    const facts = make("dl");
    const fact = (name, value) => {
      if (value) facts.append(make("dt", name), make("dd", value, { dir: "auto" }));
    };
    fact("image", image);
    fact("system", part.systems[items.system[item]]);
    fact("split", part.splits[items.split[item]]);
    fact("item", items.id[item].startsWith(" ") ? image + items.id[item].slice(1) : items.id[item]);
    part.people.forEach(({ name, scale, means }, at) => {
      const values = part.ratings[at][item];
      if (values.length) fact(`${name} (${scale})`, `${values.map(written).join(", ")}; mean ${written(means[item])}`);
    });
    by("caption-text").replaceChildren(...marked(item));
    body.replaceChildren();
    const large = picture(item);
    if (large) body.append(large);
    body.append(facts);
    const lists = (name, texts) => {
      if (!texts.length) return;
      const list = make("ul");
      texts.forEach((text) => list.append(make("li", text, { dir: "auto" })));
      body.append(make("h4", name), list);
    };
    const sources = new Map();
    const words = items.caption[item].split(/\s+/).filter(Boolean);
    for (const [place, name, value] of part.blamed[item] || []) {
      const word = value < 1 ? `${words[place]} (${value})` : words[place];
      sources.set(name, [...(sources.get(name) || []), word]);
    }
    lists("Blamed words", [...sources].map(([name, blamed]) => `${name}: ${blamed.join(", ")}`));
    lists("References", part.references[items.references[item]]);
    lists("Compared with", (part.pairsOf.get(item) || []).map(([a, b, dimension, winner]) => {
      const won = winner === "tie" ? "people tied" : (winner === "a") === (a === item) ? "this one preferred" : "the other preferred";
      return `${part.compared[dimension]}, ${won}: ${items.caption[a === item ? b : a]}`;
    }));
    const table = make("table");
    table.append(make("caption", "Scores, and the share of captions whose score is lower"));
    const head = make("tr");
    ["metric", "score", "share"].forEach((name) => head.append(make("th", name, { scope: "col" })));
    const top = make("thead");
    top.append(head);
    const rows = make("tbody");
    const line = (column, score) => {
      const row = make("tr");
      const share = rank(part, column, item);
      const cell = make("td", `${percent(share)} `);
      if (!Number.isNaN(share)) {
        cell.append(make("meter", undefined, { min: 0, max: 1, value: share, "aria-hidden": "true" }));
      }
      row.append(make("th", nameOf(part, column), { scope: "row", dir: "auto" }), make("td", score, { class: "n" }), cell);
      rows.append(row);
    };
    part.metrics.forEach((_, column) => line(column, written(part.scores[column * part.count + item])));
    part.people.forEach(({ column, means }) => line(column, written(means[item])));
    table.append(top, rows);
    const holder = make("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" });
    holder.append(table);
    body.append(make("h4", "Scores"), holder);
    by("caption-before").disabled = opened === 0;
    by("caption-after").disabled = opened >= order.length - 1;
    by("caption").scrollTop = 0;
  };
  const open = (at) => {
    opened = at;
    fill();
    if (!by("caption").open) by("caption").showModal();
  };
  by("caption-before").addEventListener("click", () => open(opened - 1));
  by("caption-after").addEventListener("click", () => open(opened + 1));
  by("caption-close").addEventListener("click", () => by("caption").close());
  const turn = (by_pages) => {
    page += by_pages;
    show();
    by("count").scrollIntoView();
  };
  by("before").addEventListener("click", () => turn(-1));
  by("after").addEventListener("click", () => turn(1));

  parts.forEach(({ title }, at) => option(by("dataset"), at, title));
  by("dataset").addEventListener("change", () => {
    part = parts[Number(by("dataset").value)];
    choices();
    arrange();
  });
  for (const id of ["system", "first", "second", "order"]) by(id).addEventListener("change", arrange);
  let waiting = 0;
  by("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(arrange, 120);
  });
  by("controls").addEventListener("submit", (event) => event.preventDefault());
  by("controls").hidden = false;
  choices();
  arrange();
})();
