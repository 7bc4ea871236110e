// Creates the title of a run for lists, headings and notices, and the text that a search finds. INVARIANT: a value
// whose label forbids that it leaves, whose name marks a secret, or that is a known secret always becomes `[secret]`
// in both, before a text is shortened.
import { getOwn, isObject, type Json, onOneLine } from '../../base/index.ts';
import { type Descriptor, EMPTY, makeValue } from '../../flow/index.ts';
import { NAMED_SECRET } from '../secrets/known-secrets.ts';
import { FROM_USER, unpackMarks } from '../thread/conversation.ts';
import type { GivenMarks } from '../thread/opening.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { HarnessPorts, Prepared, Thread } from '../thread/thread.ts';

const MAX_TITLE = 80;
/** Length of the search text. A search reads no more of it. */
const MAX_SEARCHED = 16_384;
const HIDDEN = '[secret]';
const NOTICE = { type: 'notify', name: 'title', opLabels: [], risk: ['exfil'] } as const;

/** True if a notice can contain a value with these marks. The same values are shown to viewers. */
function mayBeShown({ policies }: Pick<HarnessPorts, 'policies'>, marks: Descriptor): boolean {
  if (marks === EMPTY) return true;
  const value = makeValue('', { descriptor: marks });
  const argument = { name: NOTICE.name, role: 'content', value } as const;
  const findings = policies().policy.judge(NOTICE, [], [argument], EMPTY);
  return findings.every(({ input }) => input !== NOTICE.name);
}

const shownText = (value: Json): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

/** Returns the value without fields whose names mark a secret. */
function withoutNamed(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutNamed);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      NAMED_SECRET.test(name) ? HIDDEN : withoutNamed(inner),
    ]),
  );
}

function textsOf(value: Json): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (isObject(value)) return Object.values(value).flatMap(textsOf);
  return value === null || typeof value === 'boolean' ? [] : [String(value)];
}

/** Returns the text as one line of limited length, without half of a surrogate pair. */
function titleIn(text: string): string {
  const line = onOneLine(text).replace(/\s+/gu, ' ');
  const isLong = line.length > MAX_TITLE;
  return isLong ? `${line.slice(0, MAX_TITLE - 1).replace(/[\ud800-\udbff]$/, '')}\u2026` : line;
}

const firstLine = (text: string): string =>
  text.split(/[\n\r]/).find((line) => titleIn(line) !== '') ?? '';

/** Returns the masked search text. A secret that the first cut splits is far behind the part that is kept. */
function searchText(text: string, mask: (text: string) => string): string {
  const start = mask(text.slice(0, 4 * MAX_SEARCHED));
  const isEnough = start.length >= 2 * MAX_SEARCHED || text.length <= 4 * MAX_SEARCHED;
  return onOneLine((isEnough ? start : mask(text)).slice(0, MAX_SEARCHED));
}

interface GivenParts {
  readonly marks?: Descriptor | undefined;
  readonly given?: GivenMarks | undefined;
  /** Thread whose secrets are masked. Absent: only the secrets of the environment and the inputs are known. */
  readonly parent?: { readonly place: Pick<Thread['place'], 'id'> } | undefined;
}

export interface AboutRun {
  /** Title of the run. Empty if the directive, the message and the inputs contain none. */
  readonly title: string;
  readonly search: string;
}

/** Title and search text that are recorded when a run begins. */
export function aboutRun(
  ports: HarnessPorts,
  { directive, inputs }: Pick<Prepared, 'directive' | 'inputs'>,
  message: string,
  { marks = FROM_USER, given, parent }: GivenParts,
): AboutRun {
  const mask = (text: string): string =>
    ports.watch.mask?.(parent?.place.id ?? '', text, inputs) ?? text;
  const marksOf = (name: string): Descriptor => (given ? (given.inputs.get(name) ?? EMPTY) : marks);
  const entries = Object.entries(withoutNamed(inputs) as Prepared['inputs']).map(
    ([name, value]) => [name, mayBeShown(ports, marksOf(name)) ? value : HIDDEN] as const,
  );
  const visible = Object.fromEntries(entries);
  const isVisible = mayBeShown(ports, given?.message ?? (given ? EMPTY : marks));
  const visibleMessage = message === '' || isVisible ? message : HIDDEN;
  const declared = (directive.title ?? '').replace(/\$\{inputs\.([\w.]+)\}/g, (_, path: string) => {
    let value: Json | undefined = visible;
    for (const step of path.split('.')) value = value === HIDDEN ? value : getOwn(value, step);
    return value === undefined || value === null ? '' : shownText(value);
  });
  const names = [...directive.inputs.map(({ name }) => name), ...Object.keys(visible)];
  const first = names
    .map((name) => getOwn(inputs, name))
    .findIndex((value) => typeof value === 'string' && titleIn(value) !== '');
  const input = first < 0 ? '' : shownText(getOwn(visible, names[first] ?? '') ?? '');
  const title = [declared, visibleMessage, input]
    .map((text) => titleIn(mask(firstLine(mask(text)))))
    .find((text) => text !== '');
  const search = [title ?? '', visibleMessage, ...textsOf(visible)].join('\n');
  return { title: title ?? '', search: searchText(search, mask) };
}

/** Returns the search text for the end of a run: its outputs and its last text. */
export function aboutEnd(
  ports: HarnessPorts,
  { thread_id, outputs, text, marks }: ThreadResult,
): string {
  if (!mayBeShown(ports, unpackMarks(marks))) return '';
  const all = [...textsOf(withoutNamed(outputs)), text].join('\n');
  return searchText(all, (text) => ports.watch.mask?.(thread_id, text) ?? text);
}
