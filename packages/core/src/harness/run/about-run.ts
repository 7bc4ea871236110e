// A run in one line for lists, headings and notices, and as text that a search finds. INVARIANT: whatever
// carries a label that may not leave, is called a secret or is known as one is `[secret]` in both, and it is
// masked before anything is cut.
import { getOwn, isObject, type Json, onOneLine } from '../../base/index.ts';
import { type Descriptor, EMPTY, makeValue } from '../../flow/index.ts';
import { NAMED_SECRET } from '../secrets/known-secrets.ts';
import { FROM_USER, unpackMarks } from '../thread/conversation.ts';
import type { GivenMarks } from '../thread/opening.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { HarnessPorts, Prepared, Thread } from '../thread/thread.ts';

const MAX_TITLE = 80;
/** More of a text than a search looks at. */
const MAX_SEARCHED = 16_384;
const HIDDEN = '[secret]';
const NOTICE = { type: 'notify', name: 'title', opLabels: [], risk: ['exfil'] } as const;

/** May a notifier see it? A viewer sees no more. */
function mayBeShown({ policies }: Pick<HarnessPorts, 'policies'>, marks: Descriptor): boolean {
  if (marks === EMPTY) return true;
  const value = makeValue('', { descriptor: marks });
  const shown = { name: NOTICE.name, role: 'content', value } as const;
  const findings = policies().policy.judge(NOTICE, [], [shown], EMPTY);
  return findings.every(({ input }) => input !== NOTICE.name);
}

const shownText = (value: Json): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

/** The value without what its names call secret. */
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

/** One line; half of a character is none. */
function titleIn(text: string): string {
  const line = onOneLine(text).replace(/\s+/gu, ' ');
  const isLong = line.length > MAX_TITLE;
  return isLong ? `${line.slice(0, MAX_TITLE - 1).replace(/[\ud800-\udbff]$/, '')}\u2026` : line;
}

const firstLine = (text: string): string =>
  text.split(/[\n\r]/).find((line) => titleIn(line) !== '') ?? '';

/** A secret that the first cut goes through stands at its end, far behind what is kept. */
function searched(text: string, mask: (text: string) => string): string {
  const start = mask(text.slice(0, 4 * MAX_SEARCHED));
  const isEnough = start.length >= 2 * MAX_SEARCHED || text.length <= 4 * MAX_SEARCHED;
  return onOneLine((isEnough ? start : mask(text)).slice(0, MAX_SEARCHED));
}

interface GivenParts {
  readonly marks?: Descriptor | undefined;
  readonly given?: GivenMarks | undefined;
  readonly parent?: Thread | undefined;
}

export interface AboutRun {
  /** Empty where nothing is known that could be one. */
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
  const shown = Object.fromEntries(entries);
  const isSaid = mayBeShown(ports, given?.message ?? (given ? EMPTY : marks));
  const said = message === '' || isSaid ? message : HIDDEN;
  const declared = (directive.title ?? '').replace(/\$\{inputs\.([\w.]+)\}/g, (_, path: string) => {
    let value: Json | undefined = shown;
    for (const step of path.split('.')) value = value === HIDDEN ? value : getOwn(value, step);
    return value === undefined || value === null ? '' : shownText(value);
  });
  const names = [...directive.inputs.map(({ name }) => name), ...Object.keys(shown)];
  const first = names
    .map((name) => getOwn(inputs, name))
    .findIndex((value) => typeof value === 'string' && titleIn(value) !== '');
  const input = first < 0 ? '' : shownText(getOwn(shown, names[first] ?? '') ?? '');
  const title = [declared, said, input]
    .map((text) => titleIn(mask(firstLine(mask(text)))))
    .find((text) => text !== '');
  const search = [title ?? '', said, ...textsOf(shown)].join('\n');
  return { title: title ?? '', search: searched(search, mask) };
}

/** The same of its end: what it answered and its last words. */
export function aboutEnd(
  ports: HarnessPorts,
  { thread_id, outputs, text, marks }: ThreadResult,
): string {
  if (!mayBeShown(ports, unpackMarks(marks))) return '';
  const all = [...textsOf(withoutNamed(outputs)), text].join('\n');
  return searched(all, (text) => ports.watch.mask?.(thread_id, text) ?? text);
}
