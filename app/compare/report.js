"use strict";
// The report is whole without this: it only sorts the table and hides columns of it.
(() => {
  const table = document.getElementById("figures");
  if (!table) return;
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const read = (row, place) => {
    const text = row.cells[place].dataset.value;
    return text === undefined || text === "" ? null : isNaN(text) ? text : Number(text);
  };
  const sort = (place) => {
    const head = heads[place];
    const first = head.dataset.better === "more" ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...body.rows].map((row) => [read(row, place), row]);
    // What has no value stands last, whichever way the rest is sorted.
    rows.sort(([one], [two]) =>
      one === null || two === null ? (one === null) - (two === null)
        : sign * (typeof one === "string" || typeof two === "string" ? String(one).localeCompare(String(two)) : one - two));
    body.append(...rows.map(([, row]) => row));
  };
  const box = document.getElementById("columns");
  document.getElementById("chooser").hidden = false;
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(place));
    if (place === 0) return;
    const label = document.createElement("label");
    const check = document.createElement("input");
    check.type = "checkbox";
    check.checked = true;
    check.addEventListener("change", () => {
      for (const row of table.rows) row.cells[place].hidden = !check.checked;
    });
    label.append(check, head.dataset.name);
    box.append(label);
  });
})();
