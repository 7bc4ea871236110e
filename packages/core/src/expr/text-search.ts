// Searches a text for a part in linear time. The engine's own search is faster for ordinary texts, but can
// take a minute for a hostile part of 30 kB in a text of 4 MB. Small cases use the engine, and large ones
// use the algorithm of Knuth, Morris and Pratt.

const SMALL = 1 << 20;

/** Returns what `text.includes(part)` returns, in linear time. */
export function includesText(text: string, part: string): boolean {
  if (part.length * text.length <= SMALL || part.length < 8) return text.includes(part);
  return search(text, part);
}

function search(text: string, part: string): boolean {
  const borders = borderLengths(part);
  let matched = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    while (matched > 0 && part.charCodeAt(matched) !== code) {
      matched = borders[matched - 1] ?? 0;
    }
    if (part.charCodeAt(matched) === code) matched++;
    if (matched === part.length) return true;
  }
  return false;
}

/** Returns for every prefix the length of its longest proper prefix that is also its suffix. */
function borderLengths(part: string): Uint32Array {
  const borders = new Uint32Array(part.length);
  let matched = 0;
  for (let at = 1; at < part.length; at++) {
    const code = part.charCodeAt(at);
    while (matched > 0 && part.charCodeAt(matched) !== code) {
      matched = borders[matched - 1] ?? 0;
    }
    if (part.charCodeAt(matched) === code) matched++;
    borders[at] = matched;
  }
  return borders;
}
