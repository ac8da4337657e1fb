"use strict";
// Two interactions, both additions: sorting tables, and showing one variant in all the charts of its scop.
document.documentElement.classList.add("scripted");

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
      const number = (text) => (text === "" ? Infinity : Number(text));
      const numeric = rows.every(([text]) => !Number.isNaN(number(text)));
      rows.sort(([a], [b]) => {
        // What has no value comes last in either direction.
        if (a === "" || b === "") return (a === "") - (b === "");
        return (up ? 1 : -1) * (numeric ? number(a) - number(b) : a.localeCompare(b));
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}

for (const section of document.querySelectorAll("[data-scop]")) {
  const status = section.querySelector(".selected");
  let chosen = "";
  const choose = (name, text) => {
    chosen = chosen === name ? "" : name;
    for (const svg of section.querySelectorAll("svg")) svg.classList.toggle("choosing", chosen !== "");
    for (const mark of section.querySelectorAll("[data-variant]")) {
      const on = mark.dataset.variant === chosen;
      mark.classList.toggle("on", on);
      if (mark.hasAttribute("aria-pressed")) mark.setAttribute("aria-pressed", String(on));
    }
    status.textContent = chosen === "" ? "All variants." : text;
  };
  for (const svg of section.querySelectorAll("svg")) {
    const points = [...svg.querySelectorAll(".point[data-variant]")];
    points.forEach((point, place) => {
      const text = point.querySelector("title").textContent;
      point.setAttribute("role", "button");
      point.setAttribute("aria-pressed", "false");
      point.setAttribute("aria-label", text);
      // One tab stop a chart; the arrow keys go on from there.
      point.setAttribute("tabindex", place === 0 ? "0" : "-1");
      point.addEventListener("click", () => choose(point.dataset.variant, text));
      point.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        const end = { Home: 0, End: points.length - 1 }[event.key];
        if (event.key === "Enter" || event.key === " ") choose(point.dataset.variant, text);
        else if (event.key === "Escape" && chosen !== "") choose(chosen, "");
        else if (step !== undefined || end !== undefined) {
          const next = points[end ?? (place + step + points.length) % points.length];
          point.setAttribute("tabindex", "-1");
          next.setAttribute("tabindex", "0");
          next.focus();
        } else return;
        event.preventDefault();
      });
    });
  }
  for (const row of section.querySelectorAll("table.sortable tbody tr[data-variant]")) {
    if (row.dataset.timed === undefined) continue;
    const cell = row.cells[0];
    const button = document.createElement("button");
    button.type = "button";
    button.className = "pick";
    button.dataset.variant = row.dataset.variant;
    button.setAttribute("aria-pressed", "false");
    button.append(...cell.childNodes);
    cell.append(button);
    button.addEventListener("click", () => choose(row.dataset.variant, row.dataset.timed));
  }
}
