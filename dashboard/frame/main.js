// Starts the dashboard: the frame around the pages, the way from one to the next, the token, the keys.

import { actor, get, keepActor, keepToken, onNamed, onRefused, Problem } from "/dashboard/frame/api.js";
import { h, put } from "/dashboard/frame/dom.js";
import { keepTimesRight } from "/dashboard/frame/format.js";
import { connect, watch } from "/dashboard/frame/live.js";
import { Page } from "/dashboard/frame/page.js";
import { language, speak, t } from "/dashboard/frame/words.js";
import { keysHelp, listenToKeys } from "/dashboard/frame/keys.js";
import { dialog } from "/dashboard/parts/dialog.js";
import * as alert from "/dashboard/pages/alert.js";
import * as alerts from "/dashboard/pages/alerts.js";
import * as audit from "/dashboard/pages/audit.js";
import * as deadLetter from "/dashboard/pages/dead_letter.js";
import * as dlq from "/dashboard/pages/dlq.js";
import * as endpoints from "/dashboard/pages/endpoints.js";
import * as find from "/dashboard/pages/find.js";
import * as job from "/dashboard/pages/job.js";
import * as jobs from "/dashboard/pages/jobs.js";
import * as kpis from "/dashboard/pages/kpis.js";
import * as overview from "/dashboard/pages/overview.js";
import * as policies from "/dashboard/pages/policies.js";
import * as providers from "/dashboard/pages/providers.js";
import * as tenants from "/dashboard/pages/tenants.js";

/** Name in the address, the page, and its page for one thing. */
const PAGES = {
  overview: [overview],
  jobs: [jobs, job],
  dlq: [dlq, deadLetter],
  providers: [providers],
  tenants: [tenants],
  policies: [policies],
  endpoints: [endpoints],
  alerts: [alerts, alert],
  kpis: [kpis],
  audit: [audit],
};

/** Not in the menu: where the search leads. */
const FIND = "find";

const THEME = "recado.theme";
const THEMES = ["auto", "light", "dark"];

let page = null;

function place() {
  const [where, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = where.split("/");
  const known = (name === FIND && rest[0]) || Object.hasOwn(PAGES, name) ? name : "overview";
  return { name: known, argument: decoded(rest.join("/")), params: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show(focus) {
  page?.end();
  // A question belongs to the page that asked it, unless it has to be answered.
  for (const asked of document.querySelectorAll("dialog:not(.unavoidable)")) asked.close();
  const { name, argument, params } = place();
  const [many, one] = name === FIND ? [find] : PAGES[name];
  const focused = document.activeElement?.id;
  page = new Page(argument, params);
  const main = document.getElementById("main");
  put(main, (argument && one ? one : many).show(page));
  document.title = `${argument || t(`nav.${name}`)} · Recado`;
  for (const item of document.querySelectorAll("nav a")) {
    const here = item.hash === `#/${name}`;
    if (here) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  document.body.classList.remove("menu-open");
  document.getElementById("menu")?.setAttribute("aria-expanded", "false");
  if (!focus) return;
  // A changed filter keeps the focus; any other navigation moves it to the new page's title.
  const again = focused && main.querySelector(`#${CSS.escape(focused)}`);
  if (!again) scrollTo(0, 0);
  (again || main.querySelector("h1"))?.focus({ preventScroll: true });
}

function frame() {
  document.documentElement.lang = language() === "pt" ? "pt-BR" : "en";
  const items = Object.keys(PAGES).map((name) => h("li", {}, h("a", { href: `#/${name}` }, t(`nav.${name}`))));
  put(
    document.body,
    h("a", { class: "skip", href: "#main", on: { click: skip } }, t("skip")),
    h(
      "header",
      { class: "top" },
      menuButton(),
      h("a", { class: "brand", href: "#/overview" }, h("img", { src: "/dashboard/style/icon.svg", alt: "" }), "Recado"),
      search(),
      liveState(),
      h("div", { class: "settings" }, nameButton(), languageButton(), themeButton(), helpButton()),
    ),
    h("nav", { id: "nav", "aria-label": t("nav") }, h("ul", {}, items)),
    h("main", { id: "main" }),
    h("div", { id: "toasts", role: "status", "aria-live": "polite" }),
  );
}

function skip(event) {
  event.preventDefault();
  document.querySelector("#main h1")?.focus();
}

function menuButton() {
  const toggle = (event) => {
    const open = document.body.classList.toggle("menu-open");
    event.currentTarget.setAttribute("aria-expanded", String(open));
  };
  const attributes = { id: "menu", type: "button", "aria-expanded": "false", "aria-controls": "nav", on: { click: toggle } };
  return h("button", attributes, t("menu"));
}

function search() {
  const input = h("input", { id: "find", type: "search", placeholder: t("find.placeholder"), "aria-label": t("find"), autocomplete: "off", spellcheck: "false" });
  const go = (event) => {
    event.preventDefault();
    const wanted = input.value.trim();
    if (wanted) location.hash = `#/${FIND}/${encodeURIComponent(wanted)}`;
    input.value = "";
  };
  return h("form", { class: "find", role: "search", on: { submit: go } }, input);
}

let unwatch = () => {};

function liveState() {
  const element = h("span", { class: "live", role: "status" });
  unwatch();
  unwatch = watch((state) => {
    element.dataset.state = state;
    element.title = t(`live.${state}.why`);
    put(element, t(`live.${state}`));
  });
  return element;
}

function nameButton() {
  return h("button", { type: "button", class: "plain", id: "who", on: { click: askName } }, actor() || t("who.unknown"));
}

function askName() {
  const fields = [{ name: "name", label: t("who.label"), value: actor(), required: true, maxlength: 128, hint: t("who.hint") }];
  return dialog({ title: t("who.title"), fields, confirm: t("save"), nameless: true, run: async ({ name }) => keepActor(name) });
}

function languageButton() {
  const next = language() === "pt" ? "en" : "pt";
  const change = () => {
    speak(next);
    frame();
    show(false);
    document.getElementById("language").focus();
  };
  const attributes = { type: "button", class: "plain", id: "language", lang: next, on: { click: change } };
  return h("button", attributes, next === "pt" ? "Português" : "English");
}

function themeButton() {
  const kept = localStorage.getItem(THEME) ?? "auto";
  const change = () => {
    const now = localStorage.getItem(THEME) ?? "auto";
    localStorage.setItem(THEME, THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
    button.replaceWith(themeButton());
    document.getElementById("theme").focus();
  };
  document.documentElement.dataset.theme = kept;
  const button = h("button", { type: "button", class: "plain", id: "theme", on: { click: change } }, t(`theme.${kept}`));
  return button;
}

function helpButton() {
  return h("button", { type: "button", class: "plain", "aria-label": t("keys.title"), on: { click: () => keysHelp() } }, "?");
}

let asking = false;

async function askToken() {
  if (asking) return;
  asking = true;
  const run = async ({ token }) => {
    keepToken(token.trim());
    try {
      await get("/v1/providers");
    } catch (error) {
      keepToken(null);
      throw error instanceof Problem && error.status === 401 ? new Problem(401, { detail: t("login.wrong") }) : error;
    }
  };
  await dialog({
    title: t("login.title"),
    text: t("login.text"),
    fields: [{ name: "token", label: t("login.token"), type: "password", required: true, autocomplete: "current-password" }],
    confirm: t("login.go"),
    nameless: true,
    unavoidable: true,
    run,
  });
  asking = false;
  connect();
  show(false);
}

onRefused(() => void askToken());
onNamed(() => put(document.getElementById("who"), actor()));
frame();
keepTimesRight();
listenToKeys(Object.keys(PAGES));
addEventListener("hashchange", () => show(true));
connect();
show(false);
