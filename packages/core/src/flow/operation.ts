// Everything that acts: what is about to be done, to what, and how its keys are matched. Keys are
// hierarchical (`op:cmd:git:push`, `op:tool:fs/write_file`) and never enter a value's labels.
import {
  createRecent,
  createRecentPairs,
  didYouMean,
  type Json,
  type JsonObject,
  literalPrefix,
  matchGlob,
} from '../base/index.ts';
import type { Value } from './values/value.ts';

export type OperationRisk = 'exfil' | 'destructive' | 'privileged';
export const INPUT_ROLES = ['destination', 'command', 'path', 'content'] as const;
export type InputRole = (typeof INPUT_ROLES)[number];

export interface Operation {
  readonly type: OperationKind;
  readonly subtype?: string;
  readonly name: string;
  /** Put on results; also keys (`op:net:w`), here and for every operation inside. */
  readonly labels?: readonly string[];
  readonly opLabels: readonly string[];
  /** The source label of what the body makes, e.g. `src:cmd`. */
  readonly source?: string;
  /** Provenance of the result, e.g. `tool:fs/read_file@3`. */
  readonly sources?: readonly string[];
  readonly target?: string;
  /** Of a tool that was called as a function: the names it has as one, for function filters. */
  readonly called?: readonly string[];
  readonly location?: { readonly file?: string; readonly line?: number; readonly column?: number };
  readonly risk?: readonly OperationRisk[];
  /** Risk tier of what it needs; a policy may want a person's approval for it. */
  readonly tier?: string;
  readonly metadata?: JsonObject;
  /** What whoever wrote the operation has fixed himself, by the name of the input: its defaults. */
  readonly fixed?: Readonly<Record<string, Json>>;
  /**
   * Only reads, and sends nothing that its author gave it: it may go to an address that a stranger wrote,
   * where nobody who has read it passes it on. No file can declare it.
   */
  readonly follows?: true;
  /**
   * True: holds a retry budget (calls, assignments, tool calls). False: never retried (effects,
   * imports). Absent: a retry goes to the nearest owner around it.
   */
  readonly retryOwner?: boolean;
  /**
   * Reads what a stranger wrote (`of`, `from`) where that cannot steer, and labels its answer itself: by a
   * model without tools (`quarantined`), or by choosing among records (`picked`). Of the bundle's own
   * `read/*` alone: no file can declare it.
   */
  readonly reads?: 'quarantined' | 'picked';
}

export interface WritePlace {
  /** From the project's root, free of links. */
  readonly relative: string;
  /** Nothing is there; what the thread itself made; anything else; nowhere that anybody may write. */
  readonly state: 'new' | 'own' | 'other' | 'closed';
  /** What is there stays as it is, something is added to it. */
  readonly adds?: boolean;
  /** Of what is there. */
  readonly sha256?: string;
}

/** Looks where a thread would write; of a built-in file tool, which can create without changing. */
export type LookAtPlace = (
  path: string,
  thread: string,
  given: ReadonlyMap<string, Json>,
) => Promise<WritePlace>;

/** The change that a write would make, for the person who is asked about it. */
export interface WritePreview {
  /** From the project's root. */
  readonly path: string;
  /** The content that is there, by its hash; `new`: nothing is. What is written after a yes is held to it. */
  readonly holds: string;
  readonly change: 'create' | 'overwrite' | 'edit' | 'add';
  /** Numbers of lines, as far as they are known. */
  readonly from?: number;
  readonly to?: number;
  readonly added?: number;
  readonly removed?: number;
  readonly diff?: string;
}

/** Takes the arguments by name, as guards left them. Undefined: nothing can be said about the write. */
export type PreviewWrite = (given: ReadonlyMap<string, Value>) => Promise<WritePreview | undefined>;

/** Why an argument may steer although strangers had a hand in it, or in whoever wrote it. */
export interface ArgumentOrigin {
  /**
   * `identifier`, `directory`: by what the tool said of it that told it. `reference`: a stranger's words,
   * passed on unchanged by somebody who has not read them.
   */
  readonly kind:
    | 'said'
    | 'result'
    | 'identifier'
    | 'directory'
    | 'reference'
    | 'approval'
    | 'fixed'
    | 'granted'
    | 'own'
    | 'closed';
  /** The scope that is granted, or the approval. */
  readonly by?: string;
  /**
   * `new`: only while nothing is there. `add`: as long as it only adds. `never`: it is refused whatever
   * anybody says, so nobody needs to be asked. Or what is there, by its hash.
   */
  readonly holds?: string;
}

/** An input after its evaluation; what stage 2 leaves for all later ones. */
export interface Argument {
  readonly name: string;
  readonly role: InputRole | undefined;
  /** What its parameter takes: an id of a file is no id of a mail. */
  readonly kind?: string;
  readonly value: Value;
  /** Absent: none that anybody can vouch for, or nobody has asked. */
  readonly origin?: ArgumentOrigin;
  readonly place?: LookAtPlace;
  readonly preview?: PreviewWrite;
}

const EFFECTS: ReadonlySet<string> = new Set(['show', 'log', 'output', 'append']);

/** Has no result that a label could be on: what leaves is judged before it does. */
export const isEffect = ({ type }: Operation): boolean => EFFECTS.has(type);

// Every kind of operation, which is the first word of a key. After some of them stands the name of a
// tool, a command, a provider or a function, after others one of a few words, after the rest nothing.
const WITH_NAME = [
  ...(['tool', 'cmd', 'model', 'directive', 'knowledge', 'thread', 'dry_run'] as const),
  ...(['exe', 'pipeline-stage', 'llm'] as const),
];
const WITH_WORD = {
  run: ['cmd', 'sh', 'js', 'node', 'py'],
  for: ['iteration', 'batch'],
  modify: ['create', 'update', 'delete', 'directive', 'tool', 'knowledge'],
  show: ['effect'],
  log: ['effect'],
  output: ['effect'],
  append: ['effect'],
} as const;
const ALONE = [
  ...(['search', 'load', 'execute', 'help', 'template', 'sh', 'js', 'node', 'py', 'say'] as const),
  ...(['var', 'file', 'import', 'export', 'return', 'step', 'artifact', 'loop', 'notify'] as const),
];
type OperationKind = (typeof WITH_NAME | typeof ALONE)[number] | keyof typeof WITH_WORD;
const OPERATION_KINDS: readonly string[] = [...WITH_NAME, ...Object.keys(WITH_WORD), ...ALONE];

/** What a command, a block or the body of a function is made of: never the `type` of an operation. */
const BODY_KINDS: ReadonlySet<string> = new Set([
  'cmd',
  'sh',
  'js',
  'node',
  'py',
  'template',
  'llm',
]);
export const OPERATION_TYPES: readonly string[] = OPERATION_KINDS.filter(
  (kind) => !BODY_KINDS.has(kind),
);

export const RISKS: readonly OperationRisk[] = ['exfil', 'destructive', 'privileged'];

export const isRisk = (word: string): word is OperationRisk =>
  (RISKS as readonly string[]).includes(word);

/** A key and everything above it: `op:tool:fs/x`, `op:tool:fs`, `op:tool`, `op`. */
function ancestry(key: string): string[] {
  const path = [key];
  for (let at = key.length - 1; at > 0; at--) {
    if (key[at] === ':' || key[at] === '/') path.push(key.slice(0, at));
  }
  return path;
}

/** Filters are compared in lower case; a pattern without `op:` names a label of the operation. */
export function normalizePattern(pattern: string): string {
  const lower = pattern.trim().toLowerCase();
  const full = lower.startsWith('op:') ? lower : `op:${lower}`;
  return full.endsWith(':*') ? full.slice(0, -2) : full;
}

const fits = (word: string, known: string): boolean =>
  isGlob(word) ? matchGlob(word, known) : word === known;

/**
 * Why a pattern `op:…` covers no operation; undefined when it can, and for a pattern that is a label.
 * `labels` are those that an operation can have besides its kind and risk.
 */
export function keyProblem(
  pattern: string,
  labels: readonly string[] = [],
): { message: string; hint?: string } | undefined {
  if (!/^\s*op:/i.test(pattern)) return undefined;
  const key = normalizePattern(pattern);
  const [, first = '', second] = key.split(/[:/]/);
  const isLabel = (label: string) => coversKey(key, `op:${label.toLowerCase()}`);
  if (key === 'op:*' || key === 'op' || [...RISKS, ...labels].some(isLabel)) return undefined;
  if (RISKS.some((risk) => fits(first, risk))) return undefined;
  const kinds = OPERATION_KINDS.filter((kind) => fits(first, kind));
  const help = (word: string, known: readonly string[]) =>
    didYouMean(word, known) ?? `one of ${known.join(', ')}`;
  if (kinds.length === 0) {
    const message = `\`${first}\` is not a kind of operation; a label is written without \`op:\``;
    return { message, hint: help(first, OPERATION_KINDS) };
  }
  const isNamed = WITH_NAME.some((kind) => kinds.includes(kind));
  if (second === undefined || isNamed) return undefined;
  const words = Object.entries(WITH_WORD).flatMap(([kind, list]) =>
    kinds.includes(kind) ? [...list] : [],
  );
  if (words.some((word) => fits(second, word))) return undefined;
  const message = `an operation \`${first}\` is never \`${second}\``;
  return { message, ...(words.length > 0 && { hint: help(second, words) }) };
}

export const isGlob = (pattern: string): boolean => /[*?]/.test(pattern);

/** Does a normalized pattern cover this key (in lower case)? */
export function coversKey(pattern: string, key: string): boolean {
  if (isGlob(pattern)) return ancestry(key).some((above) => matchGlob(pattern, above));
  if (!key.startsWith(pattern)) return false;
  const next = key[pattern.length];
  return next === undefined || next === ':' || next === '/';
}

/** How much a pattern says: the longer one wins, an exact one over a glob of the same length. */
export const specificity = (pattern: string): number =>
  2 * pattern.replace(/[*?]/g, '').length + (isGlob(pattern) ? 0 : 1);

const kindKeys = createRecentPairs<string, readonly string[]>(512);

/** `op:type` and `op:type:subtype`. */
function keysOfKind({ type, subtype = '' }: Operation): readonly string[] {
  const found = kindKeys.get(type, subtype);
  if (found) return found;
  const kind = `op:${type.toLowerCase()}`;
  const keys = subtype === '' ? [kind] : [kind, `${kind}:${subtype.toLowerCase()}`];
  return kindKeys.set(type, subtype, keys);
}

/** Every key of an operation, given and derived, inside functions with the labels `held`. */
export function eachKey(
  op: Operation,
  held: readonly string[],
  visit: (key: string) => void,
): void {
  for (const key of op.opLabels) visit(key.toLowerCase());
  for (const key of keysOfKind(op)) visit(key);
  if (op.labels) for (const label of op.labels) visit(`op:${label.toLowerCase()}`);
  for (const label of held) visit(`op:${label.toLowerCase()}`);
  if (op.risk) for (const risk of op.risk) visit(`op:${risk}`);
}

export function keysOf(op: Operation, held: readonly string[]): string[] {
  const keys = new Set<string>();
  eachKey(op, held, (key) => keys.add(key));
  return [...keys];
}

/** An index from patterns to whatever they stand for; answers are remembered per key. */
interface KeyIndex<T> {
  readonly isEmpty: boolean;
  find(key: string): readonly T[];
}

const NOTHING: readonly never[] = Object.freeze([]);

export function createKeyIndex<T>(entries: readonly (readonly [string, T])[]): KeyIndex<T> {
  const plain = new Map<string, T[]>();
  const globs: (readonly [string, T])[] = [];
  for (const [pattern, item] of entries) {
    if (isGlob(pattern)) globs.push([pattern, item]);
    else plain.set(pattern, [...(plain.get(pattern) ?? []), item]);
  }
  const answers = createRecent<string, readonly T[]>(1024);
  const search = (key: string): readonly T[] => {
    const found = ancestry(key).flatMap((above) => plain.get(above) ?? []);
    for (const [pattern, item] of globs) {
      if (key.startsWith(literalPrefix(pattern)) && coversKey(pattern, key)) found.push(item);
    }
    return found.length === 0 ? NOTHING : found;
  };
  return {
    isEmpty: entries.length === 0,
    find: (key) => answers.get(key) ?? answers.set(key, search(key)),
  };
}

const NO_LABELS: readonly string[] = Object.freeze([]);

/** Labels that patterns give to operations (`exfil: ["op:cmd:curl"]`); from several tables at once. */
export function createLabeler(
  tables: readonly Readonly<Record<string, readonly string[]>>[],
): (op: Operation, held: readonly string[]) => readonly string[] {
  const index = createKeyIndex(
    tables.flatMap((table) =>
      Object.entries(table).flatMap(([label, patterns]) =>
        patterns.map((pattern) => [normalizePattern(pattern), label] as const),
      ),
    ),
  );
  if (index.isEmpty) return () => NO_LABELS;
  return (op, held) => [...new Set(keysOf(op, held).flatMap((key) => index.find(key)))];
}
