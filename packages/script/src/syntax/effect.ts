// Parses `show`, `log`, `output` and `append` as statements, as actions, and inline between the stages of a
// pipeline. Inline, an absent value means the value of the pipeline.
import type { Expression, NodeOf, Target } from './ast.ts';
import { isCodeStart } from './command.ts';
import type { Reader } from './cursor.ts';
import { isTextStart, parseBareMatch } from './text.ts';
import { isWildcardArm, parsePathText, parsePrimary, parseValue } from './value.ts';

const FORMATS = ['json', 'yaml', 'text'] as const;

export const isEffectWord = (word: string): boolean => /^(?:show|log|output|append)$/.test(word);

export function parseEffect(r: Reader, isInline: boolean): NodeOf<'effect'> {
  const at = r.pos;
  const effect = r.word() as NodeOf<'effect'>['effect'];
  r.takeWord(effect);
  const parts =
    effect === 'show' || effect === 'log'
      ? { value: parseShown(r, effect, isInline) }
      : written(r, effect, isInline);
  return { kind: 'effect', effect, target: undefined, format: undefined, ...parts, at, end: r.pos };
}

type EffectParts = Partial<Pick<NodeOf<'effect'>, 'target' | 'format'>> &
  Pick<NodeOf<'effect'>, 'value'>;

const isNothing = (r: Reader): boolean =>
  r.isAtEnd ||
  /[\n|,\])};]/.test(r.peek()) ||
  r.startsComment() ||
  r.starts('=>') ||
  isWildcardArm(r);

function parseShown(r: Reader, effect: string, isInline: boolean): Expression | undefined {
  if (isInline) return isNothing(r) || r.sees(/with\b/y) ? undefined : parsePrimary(r);
  if (isNothing(r) && !r.starts('||')) r.fail(`\`${effect}\` needs a value`);
  if (effect === 'show') refuseExecution(r);
  return parseValue(r);
}

/** Fails on an execution or a data literal after `show`. */
function refuseExecution(r: Reader): void {
  if (r.sees(/\{\s*(?:["'}]|\.\.\.|\w+\s*\??:)/y) || (r.peek() === '[' && !r.starts('[['))) {
    r.fail('`show` cannot take an array or object literal', {
      hint: 'put it in a variable: `var @x = …`',
    });
  }
  const isStream = r.sees(/stream[ \t]+(?!@)/y);
  if (r.peek() === '{' || isCodeStart(r) || isStream || r.sees(/run(?![\w-])/y)) {
    r.fail('`show` cannot execute anything', {
      hint: 'write `run { … }`, or show a variable with the result',
    });
  }
}

function written(r: Reader, effect: 'output' | 'append', isInline: boolean): EffectParts {
  const at = r.pos;
  let value = takesTo(r) ? undefined : isInline ? parsePrimary(r) : parseValue(r);
  if (value === undefined) r.blanks();
  else if (!takesTo(r) && !isTextStart(r)) {
    // A text alone is the target, not the value.
    if (value.kind !== 'template' && value.kind !== 'literal') {
      r.fail(`\`${effect}\` needs a target`, { hint: `write \`${effect} … to "file.txt"\`` });
    }
    r.pos = at;
    value = undefined;
  }
  if (effect === 'append' && value === undefined && !isInline) {
    r.fail('`append` needs a value', { at, hint: 'write `append @x to "log.jsonl"`' });
  }
  const target = parseTarget(r);
  if (effect === 'append' && target.kind !== 'file')
    r.fail('`append` writes to files only', { at });
  return { value, target, format: parseFormat(r) };
}

function takesTo(r: Reader): boolean {
  r.space();
  const isThere = r.take(/to(?![\w-])/y);
  if (isThere) r.blanks();
  return isThere;
}

function parseTarget(r: Reader): Target {
  const stream = r.match(/(?:stdout|stderr)(?![\w./-])/y);
  if (stream !== undefined) return { kind: stream === 'stdout' ? stream : 'stderr' };
  if (r.take('env:')) {
    const name = r.match(/[A-Za-z_]\w*/y);
    return { kind: 'env', name: name ?? r.fail('expected a name after `env:`') };
  }
  const path = isTextStart(r) ? parsePathText(r, 'to write to') : parseBarePath(r, 'to write to');
  return { kind: 'file', path };
}

/** Parses a path such as `data.json` or `@root/out/x.txt`, up to a blank. */
export function parseBarePath(r: Reader, why: string): NodeOf<'template'> {
  const path = parseBareMatch(r, /[^\s|,;\])}"'`>]+/y);
  return path ?? r.fail(`expected a file ${why}, found ${r.shown()}`);
}

function parseFormat(r: Reader): NodeOf<'effect'>['format'] {
  if (!r.takeAfterSpace(/as(?![\w-])/y)) return undefined;
  r.blanks();
  const word = r.word() ?? '';
  const format = FORMATS.find((one) => one === word);
  if (!format) return r.fail(`expected json, yaml or text after \`as\`, found ${r.shown()}`);
  r.pos += word.length;
  return format;
}
