// JSON as text. A payload is shown, corrected and sent back as it is written: `JSON.parse` would round the
// numbers that JavaScript cannot hold and forget keys that stand twice.

const DEPTH_MAX = 200;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;
const BLANK = /[ \t\n\r]*/y;

class Fault extends Error {
  constructor(at, expected) {
    super(expected);
    this.at = at;
  }
}

/** Walks over `text`, telling `on` of every mark and value it passes. */
function walk(text, on) {
  let at = 0;
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found !== undefined) at += found.length;
    return found;
  };
  const skip = () => match(BLANK);
  const next = (mark) => {
    skip();
    if (text[at] !== mark) return false;
    at += 1;
    return true;
  };

  function value(pointer, depth) {
    skip();
    if (depth > DEPTH_MAX) throw new Fault(at, "depth");
    const start = at;
    if (next("{")) members(pointer, depth, "}", true);
    else if (next("[")) members(pointer, depth, "]", false);
    else {
      const raw = match(STRING) ?? match(NUMBER) ?? match(WORD);
      if (raw === undefined) throw new Fault(at, "value");
      on.scalar?.(raw);
    }
    on.span?.(pointer, start, at);
  }

  function members(pointer, depth, end, named) {
    on.open?.(named ? "{" : "[");
    if (next(end)) return void on.close?.(end, true);
    for (let index = 0; ; index += 1) {
      on.member?.(index);
      let name = String(index);
      if (named) {
        skip();
        const raw = match(STRING);
        if (raw === undefined) throw new Fault(at, "name");
        if (!next(":")) throw new Fault(at, "colon");
        on.name?.(raw);
        name = JSON.parse(raw);
      }
      value(`${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`, depth + 1);
      if (next(",")) continue;
      if (next(end)) break;
      throw new Fault(at, named ? "comma.object" : "comma.array");
    }
    on.close?.(end, false);
  }

  value("", 0);
  skip();
  if (at < text.length) throw new Fault(at, "end");
}

/** Where the first thing stands that is not JSON, and what should stand there; `null` when all of it is. */
export function faultOf(text) {
  try {
    walk(text, {});
    return null;
  } catch (error) {
    if (error instanceof Fault) return { at: error.at, expected: error.message };
    throw error;
  }
}

/** The same JSON, one member a line. Text that is not JSON stays as it is. */
export function pretty(text) {
  let out = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  try {
    walk(text, {
      open: (mark) => ((out += mark), (depth += 1)),
      member: (index) => (out += (index > 0 ? "," : "") + line()),
      name: (raw) => (out += `${raw}: `),
      scalar: (raw) => (out += raw),
      close: (mark, isEmpty) => ((depth -= 1), (out += (isEmpty ? "" : line()) + mark)),
    });
  } catch (error) {
    if (error instanceof Fault) return text;
    throw error;
  }
  return out;
}

function spans(text) {
  const found = new Map();
  try {
    walk(text, { span: (pointer, start, end) => found.set(pointer, { start, end }) });
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
  }
  return found;
}

/** The text of one value in a larger one; `null` when it is not there. */
export function part(text, pointer) {
  const span = spans(text).get(pointer);
  return span ? text.slice(span.start, span.end) : null;
}

/** Where a pointer leads, or the nearest thing around it that is there. */
export function locate(text, pointer) {
  const known = spans(text);
  for (let near = pointer; ; near = near.slice(0, near.lastIndexOf("/"))) {
    const span = known.get(near);
    if (span) return span;
    if (!near.includes("/")) return { start: 0, end: text.length };
  }
}

/** Line (from 1) and column (from 1) of a place in a text. */
export function lineOf(text, at) {
  const before = text.slice(0, at).split("\n");
  return { line: before.length, column: before.at(-1).length + 1 };
}
