// Defines operations: the kind of action, its target, and the matching of its keys. Keys are hierarchical
// (`op:cmd:git:push`, `op:tool:fs/write_file`) and never become labels of a value.
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
  /** Labels for results. They are also keys (`op:net:w`), for this operation and every one inside of it. */
  readonly labels?: readonly string[];
  readonly opLabels: readonly string[];
  /** Source label of the body's result, such as `src:cmd`. */
  readonly source?: string;
  /** Sources of the result, such as `tool:fs/read_file@3`. */
  readonly sources?: readonly string[];
  readonly target?: string;
  /** Names of a tool that was called as a function, for function filters. */
  readonly called?: readonly string[];
  readonly location?: { readonly file?: string; readonly line?: number; readonly column?: number };
  readonly risk?: readonly OperationRisk[];
  /** Risk tier of its capabilities. A policy may require a person's approval for it. */
  readonly tier?: string;
  readonly metadata?: JsonObject;
  /** Values of inputs that the author of the operation has fixed, such as defaults. */
  readonly fixed?: Readonly<Record<string, Json>>;
  /**
   * True for an operation that only reads and sends no authored data. It may follow an untrusted
   * address, because no reader of the text chooses the address. No file can declare it.
   */
  readonly follows?: true;
  /**
   * True: has a retry budget (calls, assignments, tool calls). False: never retried (effects, imports).
   * Absent: a retry goes to the nearest owner around it.
   */
  readonly retryOwner?: boolean;
  /**
   * The operation reads untrusted text (`of`, `from`) without being influenced by it, and labels its
   * answer itself: with a model without tools (`quarantined`), or by a choice among records (`picked`).
   * Only `read/*` of the bundle has it; no file can declare it.
   */
  readonly reads?: 'quarantined' | 'picked';
}

export interface WritePlace {
  /** Path relative to the project's root, free of links. */
  readonly relative: string;
  /**
   * `new`: no file. `own`: a file that the thread created. `other`: another file. `closed`: a path that
   * may not be written.
   */
  readonly state: 'new' | 'own' | 'other' | 'closed';
  /** True if the write appends to the present content. */
  readonly adds?: boolean;
  /** Hash of the present content. Absent: no file, or not read. */
  readonly sha256?: string;
}

/**
 * Inspects the target of a thread's write. Only built-in file tools have it: they can create without changing.
 */
export type LookAtPlace = (
  path: string,
  thread: string,
  args: ReadonlyMap<string, Json>,
) => Promise<WritePlace>;

/** The change that a write would make, for the person who approves it. */
export interface WritePreview {
  /** Path relative to the project's root. */
  readonly path: string;
  /** Identity of the present content; `new` if there is no file. An approved write is refused if it differs. */
  readonly holds: string;
  readonly change: 'create' | 'overwrite' | 'edit' | 'add';
  /** Number of lines of the present content, if known. */
  readonly from?: number;
  readonly to?: number;
  readonly added?: number;
  readonly removed?: number;
  readonly diff?: string;
}

/** Returns the preview for arguments by name, as guards left them. Undefined: no preview is possible. */
export type PreviewWrite = (args: ReadonlyMap<string, Value>) => Promise<WritePreview | undefined>;

/** Why an argument may steer an operation although its value, or the model that wrote it, is untrusted. */
export interface ArgumentOrigin {
  /**
   * `identifier`, `directory`: the tool that returned the value declared it as such. `reference`:
   * untrusted text that was passed on unchanged by a model that has not read it.
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
  /** The scope that was granted, or the id of the approval. */
  readonly by?: string;
  /**
   * Content that the write may replace: none (`new`), none because it appends (`add`), or the content
   * with this hash. `never`: the write is refused in any case, so no person is asked.
   */
  readonly holds?: string;
}

/** An evaluated input. Stage 2 makes it for all later stages. */
export interface Argument {
  readonly name: string;
  readonly role: InputRole | undefined;
  /** Kind of the parameter: an id of a file is not an id of a mail. */
  readonly kind?: string;
  readonly value: Value;
  /** The trusted origin of the value. Absent: it has none, or none was looked up. */
  readonly origin?: ArgumentOrigin;
  readonly place?: LookAtPlace;
  readonly preview?: PreviewWrite;
}

const EFFECTS: ReadonlySet<string> = new Set(['show', 'log', 'output', 'append']);

/** True for an operation without a result to label. Its output is judged before it leaves. */
export const isEffect = ({ type }: Operation): boolean => EFFECTS.has(type);

// A key begins with a kind of operation. The name of a tool, command, provider or function follows some
// kinds, one of a few words follows others, and nothing follows the rest.
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

/** Kinds of the bodies of commands, blocks and functions. They are never the `type` of an operation. */
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

/** Returns a key and its prefixes: `op:tool:fs/x`, `op:tool:fs`, `op:tool`, `op`. */
function ancestry(key: string): string[] {
  const path = [key];
  for (let at = key.length - 1; at > 0; at--) {
    if (key[at] === ':' || key[at] === '/') path.push(key.slice(0, at));
  }
  return path;
}

/** Normalizes a filter to lower case. A pattern without `op:` names a label of the operation. */
export function normalizePattern(pattern: string): string {
  const lower = pattern.trim().toLowerCase();
  const full = lower.startsWith('op:') ? lower : `op:${lower}`;
  return full.endsWith(':*') ? full.slice(0, -2) : full;
}

const fits = (word: string, candidate: string): boolean =>
  isGlob(word) ? matchGlob(word, candidate) : word === candidate;

/**
 * Returns why a pattern `op:…` cannot cover any operation. Undefined for a valid pattern and for a
 * label. `labels`: labels of operations besides kinds and risks. `isTypo`: the hint names a similar word.
 */
export function keyProblem(
  pattern: string,
  labels: readonly string[] = [],
): { message: string; hint?: string; isTypo?: true } | undefined {
  if (!/^\s*op:/i.test(pattern)) return undefined;
  const key = normalizePattern(pattern);
  const [, first = '', second] = key.split(/[:/]/);
  const isLabel = (label: string) => coversKey(key, `op:${label.toLowerCase()}`);
  if (key === 'op:*' || key === 'op' || [...RISKS, ...labels].some(isLabel)) return undefined;
  if (RISKS.some((risk) => fits(first, risk))) return undefined;
  const kinds = OPERATION_KINDS.filter((kind) => fits(first, kind));
  const help = (word: string, candidates: readonly string[]) => {
    const hint = didYouMean(word, candidates);
    return hint ? { hint, isTypo: true as const } : { hint: `one of ${candidates.join(', ')}` };
  };
  if (kinds.length === 0) {
    const message = `\`${first}\` is not a kind of operation; a label is written without \`op:\``;
    return { message, ...help(first, OPERATION_KINDS) };
  }
  const isNamed = WITH_NAME.some((kind) => kinds.includes(kind));
  if (second === undefined || isNamed) return undefined;
  const words = Object.entries(WITH_WORD).flatMap(([kind, list]) =>
    kinds.includes(kind) ? [...list] : [],
  );
  if (words.some((word) => fits(second, word))) return undefined;
  const message = `operation \`${first}\` has no subtype \`${second}\``;
  return { message, ...(words.length > 0 && help(second, words)) };
}

export const isGlob = (pattern: string): boolean => /[*?]/.test(pattern);

/** True if a normalized pattern covers this key (in lower case). */
export function coversKey(pattern: string, key: string): boolean {
  if (isGlob(pattern)) return ancestry(key).some((above) => matchGlob(pattern, above));
  if (!key.startsWith(pattern)) return false;
  const next = key[pattern.length];
  return next === undefined || next === ':' || next === '/';
}

/**
 * Returns how specific a pattern is: the longer one wins, and an exact one wins over a glob of the same length.
 */
export const specificity = (pattern: string): number =>
  2 * pattern.replace(/[*?]/g, '').length + (isGlob(pattern) ? 0 : 1);

const kindKeys = createRecentPairs<string, readonly string[]>(512);

/** Returns the keys `op:type` and `op:type:subtype`. */
function keysOfKind({ type, subtype = '' }: Operation): readonly string[] {
  const cached = kindKeys.get(type, subtype);
  if (cached) return cached;
  const kind = `op:${type.toLowerCase()}`;
  const keys = subtype === '' ? [kind] : [kind, `${kind}:${subtype.toLowerCase()}`];
  return kindKeys.set(type, subtype, keys);
}

/** Visits every declared and derived key of an operation. `outerLabels`: labels of the functions around it. */
export function eachKey(
  op: Operation,
  outerLabels: readonly string[],
  visit: (key: string) => void,
): void {
  for (const key of op.opLabels) visit(key.toLowerCase());
  for (const key of keysOfKind(op)) visit(key);
  if (op.labels) for (const label of op.labels) visit(`op:${label.toLowerCase()}`);
  for (const label of outerLabels) visit(`op:${label.toLowerCase()}`);
  if (op.risk) for (const risk of op.risk) visit(`op:${risk}`);
}

export function keysOf(op: Operation, outerLabels: readonly string[]): string[] {
  const keys = new Set<string>();
  eachKey(op, outerLabels, (key) => keys.add(key));
  return [...keys];
}

/** An index from patterns to their entries. Answers are cached per key. */
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
    const items = ancestry(key).flatMap((above) => plain.get(above) ?? []);
    for (const [pattern, item] of globs) {
      if (key.startsWith(literalPrefix(pattern)) && coversKey(pattern, key)) items.push(item);
    }
    return items.length === 0 ? NOTHING : items;
  };
  return {
    isEmpty: entries.length === 0,
    find: (key) => answers.get(key) ?? answers.set(key, search(key)),
  };
}

const NO_LABELS: readonly string[] = Object.freeze([]);

/**
 * Returns a function with the labels that patterns give operations (`exfil: ["op:cmd:curl"]`). It merges
 * several tables.
 */
export function createLabeler(
  tables: readonly Readonly<Record<string, readonly string[]>>[],
): (op: Operation, outerLabels: readonly string[]) => readonly string[] {
  const index = createKeyIndex(
    tables.flatMap((table) =>
      Object.entries(table).flatMap(([label, patterns]) =>
        patterns.map((pattern) => [normalizePattern(pattern), label] as const),
      ),
    ),
  );
  if (index.isEmpty) return () => NO_LABELS;
  return (op, outerLabels) => [
    ...new Set(keysOf(op, outerLabels).flatMap((key) => index.find(key))),
  ];
}
