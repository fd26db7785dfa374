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
    /* All rows of a shorter table are seen at a glance. */
    if (body.rows.length <= 15) return;
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

  /* A table or chart that is wider than its place says so. */
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      target.parentElement.classList.toggle("wide", target.parentElement.scrollWidth > target.parentElement.clientWidth + 1);
    }
  });
  document.querySelectorAll(".scroll > table, .scroll > svg, .scroll > img").forEach((element) => observer.observe(element));

  /* A chart that stands alone has room for its numbers beside it. */
  if (matchMedia("(min-width: 60rem)").matches) {
    document.querySelectorAll("figure:only-child > details").forEach((details) => { details.open = true; });
  }

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
    /* What stands together in the list: an image's captions, or a caption alone. */
    const units = new Map();
    part.items.image.forEach((image, item) => {
      const key = part.by_image ? image : item;
      if (!units.has(key)) units.set(key, []);
      units.get(key).push(item);
    });
    part.units = [...units.values()];
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
  /* A hyphen is shorter than a minus. */
  const withMinus = (number) => number.replace(/^-/, "−");
  const written = (score) => {
    if (!Number.isFinite(score)) return withMinus(String(score));
    if (Math.abs(score) < 0.0005) return "0";
    return withMinus(Number(score.toPrecision(4)).toString());
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
    system.replaceChildren();
    const named = part.metrics.map((_, column) => column);
    if (!part.by_image) {
      second.replaceChildren();
      option(first, "any", "any metric");
      option(second, "any", "any other metric");
      const people = part.people.map(({ column }) => column);
      [...people, ...named].forEach((column) => option(second, column, nameOf(part, column)));
    }
    named.forEach((column) => option(first, column, nameOf(part, column)));
    if (part.by_image) first.value = part.leading;
    option(system, "", "all");
    part.systems.filter(Boolean).forEach((name) => option(system, name, name));
    by("system-label").hidden = part.systems.filter(Boolean).length < 2;
    by("dataset-label").hidden = parts.length < 2;
    if (part.by_image) {
      const several = part.systems.length > 1;
      by("order").querySelector("[value=spread]").hidden = !several;
      by("order").value = several ? "spread" : "lowest";
      return;
    }
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

  /* A score as tables print it, and one whose sign makes more better. */
  const printed = (column, item) => {
    const score = part.scores[column * part.count + item];
    const [factor, digits] = part.formats[column];
    return Number.isFinite(score) ? withMinus((factor * score).toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1")) : "undefined";
  };
  const oriented = (column, item) => (part.higher[column] ? 1 : -1) * part.scores[column * part.count + item];
  const isOf = (system, item) => !system || part.systems[part.items.system[item]] === system;

  /* What images are sorted by: a system's score, or its distance from the best; of no system, that of all. */
  const imageKeys = (metric, system) => {
    const finite = (items) => items.map((item) => oriented(metric, item)).filter((score) => !Number.isNaN(score));
    const last = (scores, pick) => (scores.length ? pick(...scores) : -Infinity);
    const own = (unit) => finite(unit.filter((item) => isOf(system, item)));
    return {
      spread: (unit) => last(own(unit), (...scores) => Math.max(...finite(unit)) - Math.min(...scores)),
      lowest: (unit) => last(own(unit).map((score) => -score), Math.max),
      highest: (unit) => last(own(unit), Math.max),
    };
  };

  const arrange = () => {
    const words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const system = by("system").value;
    const { items } = part;
    order = [];
    for (const unit of part.units) {
      const own = unit.filter((item) => isOf(system, item));
      if (!own.length) continue;
      if (words.length) {
        const text = [...own.map((item) => items.caption[item]), part.images[items.image[own[0]]],
          ...part.references[items.references[own[0]]]].join(" ").toLowerCase();
        if (!words.every((word) => text.includes(word))) continue;
      }
      order.push(part.by_image ? unit : unit[0]);
    }
    page = 0;
    if (part.by_image) {
      const key = imageKeys(Number(by("first").value), system)[by("order").value];
      if (key) {
        order = order.map((unit) => [key(unit), unit]).sort((a, b) => b[0] - a[0]).map(([, unit]) => unit);
      }
      show();
      return;
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

  /* An image with its captions: of the system asked for, or of all where they are compared. */
  const imageRow = (unit, at) => {
    const row = make("li");
    const metric = Number(by("first").value);
    const small = picture(unit[0]);
    const holder = make("div");
    if (small) holder.append(small);
    if (Object.keys(part.pictures).length) row.append(holder);
    const text = make("div");
    const button = make("button", `Image ${part.images[part.items.image[unit[0]]]}`, { type: "button" });
    button.addEventListener("click", () => open(at));
    text.append(button);
    const system = by("order").value === "spread" ? "" : by("system").value;
    for (const item of unit.filter((each) => isOf(system, each))) {
      const line = make("p", undefined, { class: "version" });
      line.append(
        make("span", part.systems[part.items.system[item]]),
        make("span", `${nameOf(part, metric)} ${printed(metric, item)} (${percent(rank(part, metric, item))})`),
        make("span", part.items.caption[item] || "(an empty caption)", { dir: "auto" }));
      text.append(line);
    }
    const references = part.references[part.items.references[unit[0]]];
    if (references.length) {
      const more = make("details");
      more.append(make("summary", plural(references.length, "reference")),
        ...references.map((reference) => make("p", reference, { class: "meta", dir: "auto" })));
      text.append(more);
    }
    row.append(text);
    return row;
  };

  const show = () => {
    const list = by("list");
    const start = page * ROWS;
    const rows = order.slice(start, start + ROWS).map((item, at) => {
      if (part.by_image) return imageRow(item, start + at);
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
    const all = part.by_image ? part.units.length : part.count;
    by("count").textContent = `${order.length.toLocaleString("en")} of ${plural(all, part.by_image ? "image" : "caption")}`;
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

  const textList = (name, texts) => {
    const list = make("ul");
    texts.forEach((text) => list.append(make("li", text, { dir: "auto" })));
    by("caption-body").append(make("h4", name), list);
  };
  const scoreTable = (caption, names, rows) => {
    const table = make("table");
    table.append(make("caption", caption));
    const head = make("tr");
    names.forEach((name) => head.append(make("th", name, { scope: "col" })));
    const [top, body] = [make("thead"), make("tbody")];
    top.append(head);
    body.append(...rows);
    table.append(top, body);
    const holder = make("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores" });
    holder.append(table);
    by("caption-body").append(make("h4", "Scores"), holder);
    observer.observe(table);
  };
  const atTop = () => {
    by("caption-before").disabled = opened === 0;
    by("caption-after").disabled = opened >= order.length - 1;
    by("caption").scrollTop = 0;
  };

  const fillImage = () => {
    const unit = order[opened];
    const { items } = part;
    by("caption-text").replaceChildren(`Image ${part.images[items.image[unit[0]]]}`);
    by("caption-body").replaceChildren();
    const large = picture(unit[0]);
    if (large) by("caption-body").append(large);
    const systemOf = (item) => part.systems[items.system[item]];
    textList("Captions", unit.map((item) => `${systemOf(item)}: ${items.caption[item]}`));
    const references = part.references[items.references[unit[0]]];
    if (references.length) textList("References", references);
    const rows = part.metrics.map((_, column) => {
      const row = make("tr");
      const best = Math.max(...unit.map((item) => oriented(column, item)).filter((score) => !Number.isNaN(score)));
      row.append(make("th", nameOf(part, column), { scope: "row" }), ...unit.map((item) => {
        const cell = make("td", undefined, { class: "n" });
        cell.append(make(oriented(column, item) === best ? "strong" : "span", printed(column, item)),
          ` (${percent(rank(part, column, item))})`);
        return cell;
      }));
      return row;
    });
    scoreTable("Scores, and the share of captions whose score is lower", ["metric", ...unit.map(systemOf)], rows);
    atTop();
  };

  const fill = () => {
    if (part.by_image) return fillImage();
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
    const lists = (name, texts) => texts.length && textList(name, texts);
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
    const rows = [];
    const line = (column, score) => {
      const row = make("tr");
      const share = rank(part, column, item);
      const cell = make("td", `${percent(share)} `);
      if (!Number.isNaN(share)) {
        cell.append(make("meter", undefined, { min: 0, max: 1, value: share, "aria-hidden": "true" }));
      }
      row.append(make("th", nameOf(part, column), { scope: "row", dir: "auto" }), make("td", score, { class: "n" }), cell);
      rows.push(row);
    };
    part.metrics.forEach((_, column) => line(column, written(part.scores[column * part.count + item])));
    part.people.forEach(({ column, means }) => line(column, written(means[item])));
    scoreTable("Scores, and the share of captions whose score is lower", ["metric", "score", "share"], rows);
    atTop();
    return undefined;
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
  for (const id of ["system", "first", "second", "order"]) by(id)?.addEventListener("change", arrange);
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
