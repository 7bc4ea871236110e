// Parses pipelines: stages, groups and `with { … }`.
import type { Expression, NodeOf, Parallel, PipelineStage } from './ast.ts';
import { CODE_WORDS, isCodeStart, parseCode, parseCommand } from './command.ts';
import type { Reader } from './cursor.ts';
import { parseReference } from './reference.ts';

export const OPTION_NAMES = new Set(
  `stdin pipeline format parallel delay stream guards policy timeout separator template skipDirs description
   addLabels removeLabels`.split(/\s+/),
);
const EFFECT = /(?:show|log|output|append)(?![\w-])/y;
const STAGE_ON_NEXT_LINE = new RegExp(
  String.raw`[ \t\r]*\n[ \t]*(?=\|\|?[ \t]*(?:[@|{]|(?:show|log|output|append|while|stream|${CODE_WORDS})\b))`,
  'y',
);
const ANY_ON_NEXT_LINE = /[ \t\r]*\n[ \t]*(?=\|)/y;
const CAP = /[ \t]*\([ \t]*(?=[\d@])/y;
export const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Moves to a `|` here or on the next line that continues the value. Returns false if there is none. */
export function atPipe(r: Reader): boolean {
  const at = r.pos;
  r.space();
  // A table after a statement is text, so in markdown the bar must look like a stage.
  if (!r.isOpen) r.match(r.mode === 'markdown' ? STAGE_ON_NEXT_LINE : ANY_ON_NEXT_LINE);
  if (r.peek() === '|') return true;
  r.pos = at;
  return false;
}

/** Parses `source | @a || @b | @c`. `isRun` is true after `run`, where `{…}` is a command. */
export function parsePipes(r: Reader, source: Expression, isRun = false): Expression {
  if (!atPipe(r)) return source;
  const stages = parseStages(r, isRun ? parseCommandStage : refuseBraces);
  return { kind: 'pipeline', source, stages, at: source.at, end: r.pos };
}

/** Parses a group at the start of a value: `|| @a || @b (2, 5ms) | @c`. */
export function parseLeadingGroup(r: Reader): NodeOf<'pipeline'> {
  const at = r.pos;
  return { kind: 'pipeline', source: undefined, stages: parseStages(r), at, end: r.pos };
}

/** Parses a stage that begins with `{`. */
type Braces = (r: Reader) => PipelineStage;

const parseCommandStage: Braces = (r) => {
  const at = r.pos;
  return { kind: 'code-stage', code: parseCommand(r, at), at, end: r.pos };
};

const refuseBraces: Braces = (r) => {
  const at = r.pos;
  const [body = '{ … }'] = /^\{[^{}\n]{0,60}\}/.exec(r.slice(at, r.lineEnd())) ?? [];
  return r.fail('braces alone are not a stage', { end: at + 1, hint: `write \`| cmd ${body}\`` });
};

/** Parses stages. The reader is at the first `|` or `||`. */
export function parseStages(r: Reader, braces = refuseBraces): PipelineStage[] {
  const stages: PipelineStage[] = [];
  while (atPipe(r)) {
    if (!r.starts('||')) r.pos += 1;
    r.breakAfter();
    stages.push(parseGroup(r, braces));
  }
  return stages;
}

function parseGroup(r: Reader, braces: Braces): PipelineStage {
  const at = r.pos;
  const leads = r.take('||');
  r.breakAfter();
  const members = [parseStage(r, braces)];
  for (let here = r.pos; ; here = r.pos) {
    if (!atPipe(r) || !r.take('||')) {
      r.pos = here;
      break;
    }
    r.breakAfter();
    members.push(parseStage(r, braces));
  }
  const [only] = members;
  if (only !== undefined && members.length === 1 && !leads) return only;
  return { kind: 'group-stage', members, ...parseCap(r, CAP), at, end: r.pos };
}

/** Parses `(2, 5ms)`. Returns the defaults if there is none. */
export const parseCap = (r: Reader, opens: string | RegExp = '('): Parallel =>
  r.take(opens) ? parseLimits(r, () => r.rules.value(r)) : { cap: undefined, pauseMs: 0 };

/** Parses `(n, pause)` or `(endless, pause)` of a loop. `endless` means no limit. */
export function parseRounds(r: Reader): Parallel {
  if (!r.take(/\(\s*(?=endless(?![\w-]))/y)) return parseCap(r);
  return parseLimits(r, () => void r.take('endless'));
}

/** Parses `n, pause)`. The reader is after the opening parenthesis. */
function parseLimits<T>(r: Reader, limit: () => T): { cap: T; pauseMs: number } {
  return r.within({ isOpen: true, blocks: 'none' }, () => {
    r.space();
    const cap = limit();
    r.space();
    const pauseMs = r.take(',') ? parsePause(r) : 0;
    r.space();
    r.expect(')', 'after the limit');
    return { cap, pauseMs };
  });
}

function parsePause(r: Reader): number {
  r.space();
  const found = r.match(/\d+(?:\.\d+)?(?:ms|s|m|h)?(?![\w.])/y);
  if (found === undefined) r.fail('expected a pause such as `100ms` or `2s`');
  const number = Number.parseFloat(found);
  return number * (UNITS_MS[found.replace(/[\d.]/g, '')] ?? 1);
}

const STREAM = new RegExp(String.raw`stream[ \t]+(?=@|(?:${CODE_WORDS})\b)`, 'y');

function parseStage(r: Reader, braces = refuseBraces): PipelineStage {
  const at = r.pos;
  if (!r.take(STREAM)) return readStage(r, braces);
  const stage = readStage(r, braces);
  return stage.kind === 'call-stage' || stage.kind === 'code-stage'
    ? { ...stage, isStream: true, at }
    : stage;
}

function readStage(r: Reader, braces: Braces): PipelineStage {
  const at = r.pos;
  if (r.peek() === '@') {
    const target = parseReference(r);
    return { kind: 'call-stage', target, at, end: r.pos };
  }
  if (r.peek() === '{') return braces(r);
  if (isCodeStart(r)) return { kind: 'code-stage', code: parseCode(r), at, end: r.pos };
  if (r.sees(EFFECT)) {
    const effect = r.rules.effect(r, true) as NodeOf<'effect'>;
    return { kind: 'effect-stage', effect, at, end: r.pos };
  }
  if (r.take(/while[ \t]*\(/y)) {
    const { cap: limit, pauseMs } = parseLimits(r, () => r.rules.value(r));
    r.space();
    const target = parseReference(r);
    return { kind: 'while-stage', limit, pauseMs, target, at, end: r.pos };
  }
  const word = r.word();
  if (word === undefined) return r.fail(`expected a stage after \`|\`, found ${r.shown()}`);
  return r.fail(`\`${word}\` is not a stage`, {
    end: at + word.length,
    hint: `functions begin with @: \`| @${word}\``,
  });
}

export function parseWith(r: Reader, value: Expression): Expression {
  const options = parseOptions(r);
  if (options === undefined) return value;
  return { kind: 'with', value, options, at: value.at, end: r.pos };
}

export function parseOptions(r: Reader): NodeOf<'options'> | undefined {
  if (!r.takeAfterSpace(/with(?=[ \t]*\{)/y)) return undefined;
  const at = r.pos - 'with'.length;
  r.match(/[ \t]*\{/y);
  const entries = new Map<string, Expression>();
  let pipeline: PipelineStage[] | undefined;
  r.deeper(() =>
    r.list('}', 'the options of `with`', () => {
      const key = parseKey(r);
      if (key === 'pipeline') pipeline = parseStageList(r);
      else entries.set(key, r.rules.value(r));
    }),
  );
  return { kind: 'options', entries, pipeline, at, end: r.pos };
}

function parseKey(r: Reader): string {
  const at = r.pos;
  const found = r.match(/"[\w-]+"|'[\w-]+'|[\w-]+/y);
  if (found === undefined) return r.fail(`expected an option of \`with\`, found ${r.shown()}`);
  const key = found.replace(/["']/g, '');
  if (!OPTION_NAMES.has(key)) {
    r.fail(`\`with\` has no option \`${key}\``, {
      at,
      hint: `the options are ${[...OPTION_NAMES].join(', ')}`,
      code: 'unknown_key',
    });
  }
  r.space();
  r.expect(':', `after \`${key}\``);
  r.space();
  return key;
}

/** Parses the stages of `[@a, [@b, @c], show, @d(1)]`. */
function parseStageList(r: Reader): PipelineStage[] {
  r.expect('[', 'before the stages');
  return r.list(']', 'stages', () => {
    if (r.peek() !== '[') return parseStage(r);
    const at = r.pos;
    const members = r.deeper(() => parseStageList(r));
    return { kind: 'group-stage', members, cap: undefined, pauseMs: 0, at, end: r.pos };
  });
}
