// The forms in which a text may carry a secret. What is cut out of base64 is the part that depends on
// the secret alone: at three alignments, because nobody knows how many bytes came before it.

/** Shorter values are in every text and hide nothing. */
const MIN_LENGTH = 4;
/** Long values are looked for in pieces; each is recognisable by itself. */
const PIECE = 256;
/** A line of a longer value (a key in PEM form) counts on its own from this length on. */
const MIN_LINE = 12;

export interface Forms {
  /** Found as they are. */
  plain: Set<string>;
  /** Base64 and hex: programs break them into lines, so line ends inside them are passed over. */
  wrapped: Set<string>;
}

function base64Core(bytes: Buffer, before: number): string {
  const padded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
  return padded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
}

const toUrl = (text: string): string => text.replaceAll('+', '-').replaceAll('/', '_');

/** A lone surrogate has no place in a URL: it is written as what UTF-8 makes of it. */
const percent = (text: string): string => encodeURIComponent(Buffer.from(text).toString());
const percentAll = (bytes: Buffer): string => bytes.toString('hex').replace(/../g, '%$&');
const lowerEscapes = (text: string): string =>
  text.replace(/%[0-9A-F]{2}/g, (escape) => escape.toLowerCase());

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);
const inAscii = (text: string): string =>
  inJson(text).replace(
    /[^ -~]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
const inHtml = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');

function plainForms(text: string, bytes: Buffer): string[] {
  const [url, all] = [percent(text), percentAll(bytes)];
  const urls = [url, url.replaceAll('%20', '+'), encodeURI(Buffer.from(text).toString()), all];
  const json = [inJson(text), inAscii(text), inJson(text).replaceAll('/', '\\/')];
  return [
    text,
    ...urls,
    ...urls.map(lowerEscapes),
    all.toUpperCase(),
    ...json,
    ...json.map(inJson),
    inHtml(text),
    inHtml(text).replaceAll("'", '&#39;'),
    inHtml(text).replaceAll("'", '&#x27;'),
  ];
}

function wrappedForms(bytes: Buffer): string[] {
  const cores = [0, 1, 2].map((before) => base64Core(bytes, before));
  const hex = bytes.toString('hex');
  return [...cores, ...cores.map(toUrl), hex, hex.toUpperCase()];
}

function* piecesOf(secret: string): Generator<string> {
  const lines = secret.split(/\r?\n/);
  if (lines.length > 1) {
    for (const line of lines) if (line.trim().length >= MIN_LINE) yield* piecesOf(line.trim());
  }
  if (secret.length <= PIECE) {
    yield secret;
    return;
  }
  for (let at = 0; at < secret.length; at += PIECE) {
    // The last piece is as long as the others, so that it is as recognisable.
    yield secret.slice(Math.min(at, secret.length - PIECE), at + PIECE);
  }
}

/** Every form of every secret that is long enough to be told from ordinary text. */
export function formsOf(secrets: Iterable<string>): Forms {
  const forms: Forms = { plain: new Set(), wrapped: new Set() };
  for (const secret of secrets) {
    for (const piece of new Set([...piecesOf(secret), ...piecesOf(secret.trim())])) {
      if (piece.length < MIN_LENGTH) continue;
      const bytes = Buffer.from(piece);
      for (const form of plainForms(piece, bytes)) forms.plain.add(form);
      for (const form of wrappedForms(bytes)) {
        if (form.length >= MIN_LENGTH) forms.wrapped.add(form);
      }
    }
  }
  return forms;
}
