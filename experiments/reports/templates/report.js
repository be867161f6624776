"use strict";
// Makes every table sortable by its headings, with mouse or keyboard; without this the page can be read as it is.
document.querySelectorAll(".scroll table").forEach((table) => {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const name = head.textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [key(row.cells[column], head), row]);
      rows.sort(([a], [b]) => order(a, b, down));
      body.append(...rows.map(([, row]) => row));
      document.getElementById("said").textContent = `Sorted by ${name}, ${down ? "largest" : "smallest"} first.`;
    });
  });
});
document.querySelectorAll(".hint").forEach((hint) => { hint.hidden = false; });

function key(cell, head) {
  if (!head.classList.contains("n")) return cell.textContent;
  return "v" in cell.dataset ? Number(cell.dataset.v) : null;
}

function order(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null); // what is not there stays last
  const way = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
  return down ? -way : way;
}
