// A table of resources: sortable, searchable, in pages, and with arrow keys to move between rows.

import { count } from "../lib/format.js";
import { html } from "../lib/view.js";

const FIRST_LINKS = "td:first-child a, td:first-child:not(:has(a)) + td a"; // one link per row

/**
 * columns: [{label, number, wide, minor, stack, narrow, sort, cell(row)}]. On a phone, `minor` columns are hidden and
 * `stack` columns have a line of their own. `narrow` limits the width of a long name. sort: "name" or "-name";
 * onSort(sort); href(row): the address of a row, which is a link, so that it can be opened in another tab.
 */
export function Table({ columns, rows, sort = "", onSort, href, empty, label, compact, keyOf = (row) => row.name }) {
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  const kind = (column) =>
    [
      column.number && "number",
      column.wide && "wide",
      column.minor && "minor",
      column.stack && "stack",
      column.narrow && "narrow",
    ]
      .filter(Boolean)
      .join(" ");
  return html`<div class="scroll" tabindex="-1">
    <table class=${compact ? "compact" : ""} aria-label=${label} onKeyDown=${(event) => walk(event, FIRST_LINKS)}>
      <thead>
        <tr>${columns.map(
          (column) => html`<${Header} kind=${kind(column)} column=${column} sort=${sort} onSort=${onSort} />`,
        )}</tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr key=${keyOf(row)} data-href=${href ? href(row) : undefined} onClick=${href ? follow : undefined}>
            ${columns.map(
              (column, at) =>
                html`<td class=${kind(column)} data-label=${column.label}>
                ${
                  at === 0 && href
                    ? html`<a class="cut" title=${row.name} href=${href(row)}>${column.cell(row)}</a>`
                    : column.cell(row)
                }
              </td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Header({ column, kind, sort, onSort }) {
  if (!column.sort || !onSort) return html`<th scope="col" class=${kind}>${column.label}</th>`;
  const down = sort === `-${column.sort}`;
  const on = down || sort === column.sort;
  const next = on ? (down ? column.sort : `-${column.sort}`) : column.number ? `-${column.sort}` : column.sort;
  return html`<th scope="col" class=${kind} aria-sort=${on ? (down ? "descending" : "ascending") : "none"}>
    <button type="button" class="sort" onClick=${() => onSort(next)}
      >${column.label}<span class="arrow" aria-hidden="true">${on ? (down ? "↓" : "↑") : ""}</span></button>
  </th>`;
}

function follow(event) {
  if (event.target.closest("a, button, input") || getSelection().toString()) return;
  location.hash = event.currentTarget.dataset.href;
}

export function walk(event, selector) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const links = [...event.currentTarget.querySelectorAll(selector)];
  const here = document.activeElement;
  const at = links.findIndex((link) => link === here || link.closest("tr")?.contains(here));
  const next = links[at + (event.key === "ArrowDown" ? 1 : -1)];
  if (next) {
    next.focus();
    event.preventDefault();
  }
}

export function Search({ value, onSearch, label = "Search by name" }) {
  return html`<input class="search" type="search" placeholder=${`${label}  ( / )`} aria-label=${label} value=${value}
    data-search onInput=${(event) => onSearch(event.target.value)} />`;
}

export function Pager({ total, shown, first, onFirst, next, onNext }) {
  if (total <= shown && first) return html`<p class="pager quiet">${count(total)} total</p>`;
  return html`<p class="pager">
    <span class="quiet">${count(shown)} of ${count(total)}</span>
    <button type="button" disabled=${first} onClick=${onFirst}>First page</button>
    <button type="button" disabled=${!next} onClick=${onNext}>Next page</button>
  </p>`;
}
