// A click on a heading of the leaderboard, or Enter, sorts its table, numbers the largest first; a second one turns it round.
document.querySelectorAll("#leaderboard ~ * th").forEach((head) => (head.tabIndex = 0));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("th")) event.target.click();
});
document.addEventListener("click", (event) => {
  const head = event.target.closest("th");
  if (!head || !document.getElementById("leaderboard")) return;
  const body = head.closest("table").tBodies[0];
  const heads = [...head.parentElement.children];
  const at = heads.indexOf(head);
  const turned = head.getAttribute("aria-sort") === "descending";
  const text = (row) => row.cells[at].textContent;
  const value = (row) => parseFloat(text(row).replaceAll(",", ""));
  const compare = (a, b) =>
    at ? (isNaN(value(a)) ? -Infinity : value(a)) - (isNaN(value(b)) ? -Infinity : value(b)) || 0
       : text(b).localeCompare(text(a));
  const rows = [...body.rows].sort((a, b) => (turned ? compare(a, b) : compare(b, a)));
  heads.forEach((one) => one.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", turned ? "ascending" : "descending");
  body.append(...rows);
});
