// Which language, and its words. A text is a string with {places}, or one form per plural category of `n`.

import en from "/dashboard/words/en.js";
import pt from "/dashboard/words/pt.js";

const LANGUAGES = { en, pt };
const KEPT = "recado.language";

let current = kept() ?? fromBrowser();

function kept() {
  const language = localStorage.getItem(KEPT);
  return Object.hasOwn(LANGUAGES, language) ? language : null;
}

function fromBrowser() {
  const known = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase());
  return known.find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? "en";
}

export function language() {
  return current;
}

/** What numbers and times are written by: the browser's own region where it fits the language. */
export function locale() {
  const own = navigator.languages.find((tag) => tag.toLowerCase().startsWith(current));
  return own ?? (current === "pt" ? "pt-BR" : "en-GB");
}

export function speak(language) {
  current = language;
  localStorage.setItem(KEPT, language);
}

export function isKnown(key) {
  return Object.hasOwn(LANGUAGES[current], key);
}

/** The words for `key`, with `values` in their places. */
export function t(key, values = {}) {
  let text = LANGUAGES[current][key] ?? LANGUAGES.en[key] ?? key;
  if (typeof text === "object") text = text[new Intl.PluralRules(locale()).select(values.n)] ?? text.other;
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? new Intl.NumberFormat(locale()).format(value) : value;
  });
}

/** A text with elements in its {places}: its pieces in their order. */
export function interpolate(text, elements) {
  return text.split(/\{(\w+)\}/).map((piece, at) => (at % 2 === 1 ? elements[piece] : piece));
}

/** One of the server's own words in the reader's language; as it stands when it is new to us. */
export function word(kind, value) {
  const key = `${kind}.${value}`;
  return isKnown(key) ? t(key) : String(value);
}
