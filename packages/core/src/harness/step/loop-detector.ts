// Detects a model that repeats itself, from its last five calls without times and secondary ids. Calls of one
// turn are one attempt. A new result, or a new change, breaks a loop: tests after every change are not a loop.
import { hash } from 'node:crypto';
import {
  canonicalJson,
  type Fault,
  fail,
  isDeeperThan,
  isObject,
  type Json,
  type JsonObject,
  setOwn,
} from '../../base/index.ts';
import type { CallPrint, LoopDetector, LoopFound, ObservedCall } from '../thread/thread.ts';
import { sizeUpTo } from './shorten-value.ts';

const TIMES = [
  /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC)$/,
  // Seconds or milliseconds since 1970, from 2001 to about 2096.
  /^[1-3]\d{9}(?:\d{3})?$/,
];

// Hashes of 40 and 64 digits name a content, so they are compared.
const IDS = [
  /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
  /^(?=.*\d)[0-9A-HJKMNP-TV-Z]{26}$/,
  /^(?:[0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32})$/i,
  /^[a-z]{2,12}_(?=[A-Za-z]*\d)[A-Za-z0-9]{16,64}$/,
];

/** Characters of all these patterns. Most paths and sentences do not match. */
const MAY_FIT = /^[\w:.,+ -]{10,100}$/;

function fits(value: Json, formats: readonly RegExp[]): boolean {
  const text = typeof value === 'number' ? String(value) : value;
  if (typeof text !== 'string' || !MAY_FIT.test(text)) return false;
  for (const format of formats) if (format.test(text)) return true;
  return false;
}

/** Replaces nested times and ids. Top-level ones are left out of the print. */
function plain(value: Json): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (isObject(value)) {
    const entries = Object.entries(value).map(([key, item]) => [key, plain(item)] as const);
    return Object.fromEntries(entries);
  }
  if (fits(value, TIMES)) return '<time>';
  return typeof value === 'string' && fits(value, IDS) ? '<id>' : value;
}

const MAX_DEPTH = 100;

const canonical = (value: Json): string =>
  isDeeperThan(value, MAX_DEPTH) ? JSON.stringify(value) : canonicalJson(value);

/** A longer value is compared by its digest. */
const SHORT = 200;

const shortened = (text: string): string => (text.length > SHORT ? hash('sha256', text) : text);

const plainText = (value: Json): string =>
  shortened(canonical(isDeeperThan(value, MAX_DEPTH) ? value : plain(value)));

/** Returns the compared fields. An id counts if the call has nothing else. */
function countedFields(input: JsonObject, volatile: readonly string[]): Record<string, string> {
  const ids: Record<string, string> = {};
  const others: Record<string, string> = {};
  let hasOthers = false;
  for (const name of Object.keys(input).sort()) {
    const value = input[name] as Json;
    if (volatile.includes(name) || fits(value, TIMES)) continue;
    const isText = typeof value === 'string';
    const isId = isText && fits(value, IDS);
    hasOthers ||= !isId;
    // The quote distinguishes a text from another value that prints like it.
    setOwn(isId ? ids : others, name, isText ? shortened(`"${value}`) : plainText(value));
  }
  return hasOthers ? others : ids;
}

/** Returns the print of a call in memory, where short values are in the clear. */
function printOf({ tool, arguments: input, volatile = [], turn }: ObservedCall): CallPrint {
  const fields = isObject(input) ? countedFields(input, volatile) : { '': plainText(input) };
  const key = shortened(JSON.stringify([tool, fields]));
  return turn === undefined ? { tool, key, fields } : { tool, key, fields, turn };
}

const digested = ({ tool, key, fields, turn }: CallPrint): CallPrint => ({
  tool,
  key: hash('sha256', key),
  fields: Object.fromEntries(
    Object.entries(fields).map(([name, text]) => [name, hash('sha256', text)]),
  ),
  ...(turn !== undefined && { turn }),
});

/** True for two calls of one tool that differ in at most one of two or more arguments. */
function isSimilar(a: CallPrint, b: CallPrint): boolean {
  if (a.tool !== b.tool) return false;
  if (a.key === b.key) return true;
  const names = Object.keys(a.fields);
  if (names.length < 2 || names.length !== Object.keys(b.fields).length) return false;
  if (!names.every((name) => Object.hasOwn(b.fields, name))) return false;
  return names.filter((name) => a.fields[name] !== b.fields[name]).length <= 1;
}

const WINDOW = 5;
const REPEATS = 3;
const SIMILAR = 4;
const TAIL = 3;
const LARGE = 4000;

interface Entry extends CallPrint {
  /** Ids of equal calls of one turn, which share an entry. */
  readonly ids: Set<string>;
  readonly isWrite: boolean;
  news?: { result: Json; isError: boolean };
}

const atOnce = (a: CallPrint, b: CallPrint): boolean => a.turn !== undefined && a.turn === b.turn;

/** Returns the attempts: of each turn, the last call. */
const attemptsOf = (entries: readonly Entry[]): Entry[] =>
  entries.filter((entry, at) => !entries.slice(at + 1).some((later) => atOnce(entry, later)));

/** True for a change that is not in the window before. */
const isNewChange = (entry: Entry, recent: readonly Entry[]): boolean =>
  entry.isWrite &&
  entry.news?.isError === false &&
  recent.findIndex(({ key }) => key === entry.key) === recent.indexOf(entry);

/** True if the result has something that none of these had. An error is new only with other words. */
function isNewResult({ news }: Entry, before: readonly Entry[], countErrors: boolean): boolean {
  if (!news || before.length === 0 || (news.isError && !countErrors)) return false;
  const result = canonical(news.result);
  return before.every(({ news: other }) => other && canonical(other.result) !== result);
}

/** Returns the similar calls since the last new result, and at least the newest. */
function sinceNews(
  alike: readonly Entry[],
  recent: readonly Entry[],
  countErrors: boolean,
): readonly Entry[] {
  let since = alike;
  for (const entry of recent) {
    const at = alike.indexOf(entry);
    const isNew =
      at < 0
        ? isNewChange(entry, recent)
        : at > 0 &&
          (isNewChange(entry, recent) || isNewResult(entry, alike.slice(0, at), countErrors));
    if (!isNew) continue;
    // A call before another call's change has read other data.
    const place = recent.indexOf(entry);
    since = alike.filter((each) => recent.indexOf(each) >= place);
  }
  return since;
}

function findRepeated(recent: readonly Entry[], newest: Entry): LoopFound | undefined {
  const same = recent.filter(({ key }) => key === newest.key);
  if (same.length < REPEATS) return undefined;
  const { length: count } = attemptsOf(sinceNews(same, recent, true));
  if (count < REPEATS) return undefined;
  return {
    pattern: 'repeated',
    tool: newest.tool,
    count,
    progress: false,
    message: `\`${newest.tool}\` was called ${count} times with the same arguments within ${WINDOW} calls`,
  };
}

function findAlternating(recent: readonly Entry[], newest: Entry): LoopFound | undefined {
  const [a, b, c, d] = recent.slice(-4);
  if (!a || !b || !c || !d || a.key !== c.key || b.key !== d.key || a.key === b.key)
    return undefined;
  if (attemptsOf([a, b, c, d]).length < 4 || isNewResult(c, [a], true)) return undefined;
  return {
    pattern: 'alternating',
    tool: newest.tool,
    count: 2,
    progress: false,
    message: `the same two calls, \`${a.tool}\` and \`${b.tool}\`, alternate`,
  };
}

function findSimilar(recent: readonly Entry[], newest: Entry): LoopFound | undefined {
  const alike = recent.filter((entry) => isSimilar(entry, newest));
  if (alike.length < SIMILAR) return undefined;
  const { length: count } = attemptsOf(sinceNews(alike, recent, false));
  if (count < SIMILAR) return undefined;
  return {
    pattern: 'similar',
    tool: newest.tool,
    count,
    progress: false,
    message: `\`${newest.tool}\` was called ${count} times with nearly the same arguments within ${WINDOW} calls`,
  };
}

/** A cheap check before the search for patterns. Most calls are not similar to another one. */
function mayLoop(recent: readonly Entry[], newest: Entry): boolean {
  for (const entry of recent) {
    if (entry !== newest && (entry.key === newest.key || isSimilar(entry, newest))) return true;
  }
  return false;
}

/** Returns the parent's calls as attempts that were never made together with a call of this thread. */
function inheritedAs(print: CallPrint, tail: readonly CallPrint[]): Entry[] {
  const { turn: _, ...bare } = print;
  return tail
    .filter((one, at) => !tail.slice(at + 1).some((later) => atOnce(one, later)))
    .map(() => ({ ...bare, ids: new Set(), isWrite: false }));
}

/** `parentTail`: last calls of the parent. A child that repeats them continues the count. */
export function createLoopDetector(
  options: { parentTail?: readonly CallPrint[]; history?: readonly CallPrint[] } = {},
): LoopDetector {
  const { history, parentTail = [] } = options;
  // Inherited prints can only be compared with prints of the same form.
  const handedOn = (entry: Entry): CallPrint => {
    const { ids: _, isWrite: __, news: ___, ...print } = entry;
    return history ? print : digested(entry);
  };
  const asEntry = (print: CallPrint): Entry => ({ ...print, ids: new Set(), isWrite: false });
  let recent: Entry[] = (history ?? []).map(asEntry);
  let inherited = history ? [] : parentTail.slice(-TAIL);

  return {
    observe(call) {
      const print = history ? digested(printOf(call)) : printOf(call);
      const isWrite = call.effect !== undefined && call.effect !== 'read';
      const ids = new Set(call.id === undefined ? [] : [call.id]);
      if (recent.length === 0 && inherited.length > 0) {
        const { key } = digested(print);
        if (inherited.every((one) => one.key === key)) recent = inheritedAs(print, inherited);
      }
      inherited = [];
      const twin = recent.find((each) => each.key === print.key && atOnce(each, print));
      if (twin) {
        for (const id of ids) twin.ids.add(id);
        return undefined;
      }
      const newest: Entry = { ...print, ids, isWrite };
      recent = [...recent, newest].slice(-WINDOW);
      if (!mayLoop(recent, newest)) return undefined;
      return (
        findRepeated(recent, newest) ??
        findAlternating(recent, newest) ??
        findSimilar(recent, newest)
      );
    },
    learned(id, result, isError) {
      const entry = recent.findLast(({ ids }) => ids.has(id));
      if (!entry) return;
      const isLarge = sizeUpTo(result, LARGE) > LARGE;
      entry.news = { result: isLarge ? hash('sha256', canonical(result)) : result, isError };
    },
    startOver() {
      recent = [];
      inherited = [];
    },
    tail: () => recent.slice(-TAIL).map(handedOn),
    history: () => recent.map(handedOn),
  };
}

export const loopFault = ({ message, ...detail }: LoopFound): Fault =>
  fail('loop_detected', message, detail).error;
