// Notices a model that goes round in circles, from its last five calls. What each call brought back
// does not change what is found, but whether it is held against the thread: running the same tests
// after every change looks like a loop and is none.
import { type Fault, fail, type Json } from '../base/index.ts';
import { type CallPrint, digest, isSimilar, type ObservedCall, printOf } from './call-print.ts';

export interface LoopFound {
  readonly pattern: 'repeated' | 'alternating' | 'similar';
  readonly tool: string;
  readonly count: number;
  /** Every earlier call of the pattern is known to have brought back something else. */
  readonly progress: boolean;
  readonly message: string;
}

export interface LoopDetector {
  /** Before a call is made. */
  observe(call: ObservedCall): LoopFound | undefined;
  /** What the call with this id brought back. Without it every call counts as fruitless. */
  learned(id: string, result: Json, isError: boolean): void;
  /** For a child: the last three calls. */
  tail(): readonly CallPrint[];
  /** For a restart. */
  history(): readonly CallPrint[];
}

const WINDOW = 5;
const REPEATS = 3;
const SIMILAR = 4;
const TAIL = 3;

interface Entry extends CallPrint {
  readonly id?: string | undefined;
  news?: { text: string; isError: boolean };
}

/** Did each of these bring back something else? Of an error only another call's own words are new. */
function hasProgress(entries: readonly Entry[], countErrors: boolean): boolean {
  const news = entries.map((entry) => entry.news);
  if (news.some((each) => each === undefined || (each.isError && !countErrors))) return false;
  return new Set(news.map((each) => each?.text)).size === news.length;
}

function findRepeated(recent: readonly Entry[], newest: Entry): LoopFound | undefined {
  const same = recent.filter(({ key }) => key === newest.key);
  if (same.length < REPEATS) return undefined;
  return {
    pattern: 'repeated',
    tool: newest.tool,
    count: same.length,
    progress: hasProgress(same.slice(0, -1), true),
    message: `\`${newest.tool}\` was called ${same.length} times with the same arguments within ${WINDOW} calls`,
  };
}

function findAlternating(recent: readonly Entry[], newest: Entry): LoopFound | undefined {
  const [a, b, c, d] = recent.slice(-4);
  if (!a || !b || !c || !d || a.key !== c.key || b.key !== d.key || a.key === b.key)
    return undefined;
  return {
    pattern: 'alternating',
    tool: newest.tool,
    count: 2,
    progress: hasProgress([a, c], true),
    message: `the same two calls, \`${a.tool}\` and \`${b.tool}\`, take turns`,
  };
}

/** Calls made at once, before any answer was seen, are one attempt and not several. */
const attempts = (entries: readonly Entry[]): number =>
  entries.filter(
    ({ turn }, at) => turn === undefined || entries.findIndex((each) => each.turn === turn) === at,
  ).length;

function findSimilar(recent: readonly Entry[], newest: Entry): LoopFound | undefined {
  const alike = recent.filter((entry) => isSimilar(entry, newest));
  const count = attempts(alike);
  if (count < SIMILAR) return undefined;
  return {
    pattern: 'similar',
    tool: newest.tool,
    count,
    progress: hasProgress(alike.slice(0, -1), false),
    message: `\`${newest.tool}\` was called ${count} times with nearly the same arguments within ${WINDOW} calls`,
  };
}

const printed = ({ tool, key, fields, turn }: Entry): CallPrint => ({
  tool,
  key,
  fields,
  ...(turn !== undefined && { turn }),
});

/** `parentTail`: what the parent did last. A child that begins by doing the same counts on. */
export function createLoopDetector(
  options: { parentTail?: readonly CallPrint[]; history?: readonly CallPrint[] } = {},
): LoopDetector {
  let recent: Entry[] = [...(options.history ?? [])];
  let inherited = options.history ? [] : (options.parentTail ?? []).slice(-TAIL);

  return {
    observe(call) {
      const newest: Entry = { ...printOf(call), id: call.id };
      if (recent.length === 0 && inherited.every(({ key }) => key === newest.key)) {
        recent = inherited.map(({ tool, key, fields }) => ({ tool, key, fields }));
      }
      inherited = [];
      recent = [...recent, newest].slice(-WINDOW);
      return (
        findRepeated(recent, newest) ??
        findAlternating(recent, newest) ??
        findSimilar(recent, newest)
      );
    },
    learned(id, result, isError) {
      const entry = recent.findLast((each) => each.id === id);
      if (entry) entry.news = { text: digest(result), isError };
    },
    tail: () => recent.slice(-TAIL).map(printed),
    history: () => recent.map(printed),
  };
}

/** As hooks see it. */
export const loopFault = ({ message, ...detail }: LoopFound): Fault =>
  fail('loop_detected', message, detail).error;
