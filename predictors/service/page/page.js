// What has changed comes from the server, escaped there, and takes its place; without this script the page is loaded again.
"use strict";
const live = document.getElementById("live");

function row(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

function update(message) {
  const told = JSON.parse(message.data);
  for (const [id, html] of Object.entries(told.sections)) document.getElementById(id).innerHTML = html;
  for (const [id, change] of Object.entries(told.tables)) {
    const body = document.getElementById(id);
    if (change.whole) body.replaceChildren();
    const there = new Map(Array.from(body.rows, (one) => [one.dataset.job, one]));
    for (const job of change.gone) there.get(job)?.remove();
    for (const [job, html] of change.rows) {
      const fresh = row(html);
      if (there.has(job)) there.get(job).replaceWith(fresh); else body.append(fresh);
    }
  }
  document.getElementById("at").textContent = told.at;
  document.title = told.title;
}

const source = new EventSource("/status/events?from=" + encodeURIComponent(document.body.dataset.from ?? ""));
source.addEventListener("update", update);
source.addEventListener("open", () => { live.textContent = "Updates itself."; });
source.addEventListener("error", () => { live.textContent = "The service does not answer; trying again."; });
