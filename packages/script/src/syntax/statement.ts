// Parses one statement of the script up to the end of its line.
import { isLeaveWord, parseBail, parseOutputs, parseReturn } from './action.ts';
import type { Statement } from './ast.ts';
import { parseFlow } from './control-flow.ts';
import type { Reader } from './cursor.ts';
import { parseExe, parseVar } from './define.ts';
import { isEffectWord, parseEffect } from './effect.ts';
import { parseWordObject } from './literal.ts';
import { parseExport, parseImport } from './module.ts';
import { parseGuard, parseHook, parsePolicy } from './rule.ts';
import { isTextStart } from './text.ts';
import {
  hintOfWord,
  isFlowWord,
  parseRunAction,
  parseStream,
  parseValue,
  refuseLater,
  refuseStream,
} from './value.ts';

/** Parses a statement. The reader is after an optional slash and ends after the line. */
export function parseStatement(r: Reader): Statement {
  const statement = readStatement(r);
  endStatement(r, statement);
  return statement;
}

function readStatement(r: Reader): Statement {
  const at = r.pos;
  if (r.peek() === '@' || isTextStart(r)) return parseCall(r);
  if (r.take('=>')) return parseReturn(r, at);
  const streamed = parseStream(r);
  if (streamed) return streamed;
  const word = r.word() ?? '';
  if (word !== 'foreach' && isFlowWord(word))
    return { kind: 'flow', value: parseFlow(r, true), at, end: r.pos };
  if (isEffectWord(word)) return parseEffect(r, false);
  const parse = DEFINITIONS.get(word);
  if (!parse) return refuseText(r, word);
  r.takeWord(word);
  return parse(r, at);
}

/** Parsers of statements. The reader is after the word of the statement. */
const DEFINITIONS = new Map<string, (r: Reader, at: number) => Statement>(
  Object.entries({
    var: parseVar,
    exe: parseExe,
    run: (r, at) => ({ kind: 'run', action: parseRunAction(r), at, end: r.pos }),
    import: parseImport,
    export: parseExport,
    guard: parseGuard,
    hook: parseHook,
    policy: parsePolicy,
    profiles: (r, at) => ({ kind: 'profiles', value: parseWordObject(r), at, end: r.pos }),
    needs: (r, at) => ({ kind: 'needs', value: parseWordObject(r), at, end: r.pos }),
    return: parseOutputs,
    bail: parseBail,
  }),
);

function refuseText(r: Reader, word: string): never {
  refuseLater(r, word);
  const end = r.pos + word.length;
  if (word === 'let') {
    r.fail('`let` is allowed only in blocks', { end, hint: 'use `var @x = …`', code: 'misplaced' });
  }
  if (word === 'foreach') {
    r.fail('`foreach` is a value', { end, hint: 'write `show foreach …` or `var @x = foreach …`' });
  }
  if (isLeaveWord(word)) r.fail(`\`${word}\` cannot be used here`, { end, code: 'misplaced' });
  if (word === 'stream') refuseStream(r);
  return r.fail(`expected a statement, found ${r.shown()}`, {
    end: r.lineEnd(),
    hint: hintOfWord(r, word) ?? 'text is allowed only in markdown files (.md); write `show "…"`',
  });
}

/** Parses `@f(…)`, `@x | …` or `"x" | …` as a statement. */
function parseCall(r: Reader): Statement {
  const at = r.pos;
  if (r.sees(/@[\w\u0080-\uffff-]+[ \t]*(?:\+=|=(?![=>]))/y)) {
    r.fail('a name is bound with `var`', { hint: 'write `var @x = …`; `+=` is allowed in blocks' });
  }
  const value = parseValue(r);
  const core = value.kind === 'with' ? value.value : value;
  const isPiped =
    core.kind === 'pipeline' || (value.kind === 'with' && value.options.pipeline !== undefined);
  const isCall = core.kind === 'reference' && core.steps.at(-1)?.kind === 'call';
  if (!isCall && !isPiped) {
    r.fail('a value alone is not a statement', {
      at,
      hint: 'show it with `show @x`, call it with `@f()`, pipe it with `@x | …`',
    });
  }
  return { kind: 'call', value, at, end: r.pos };
}

/** Fails if anything except a comment follows the statement on its line. */
function endStatement(r: Reader, statement: Statement): void {
  r.blanks();
  if (r.startsComment()) r.pos = r.lineEnd();
  if (r.isAtEnd || r.take('\n')) return;
  if (statement.kind === 'effect' && statement.target === undefined && r.peek() !== '|') {
    r.fail(`\`${statement.effect}\` takes one argument, found ${r.shown()} after it`, {
      hint: `put both in one text: ${statement.effect} \`@a @b\``,
    });
  }
  const isWritten = statement.kind === 'run' && r.word() === 'to';
  const hint = isWritten ? 'write `output … to` to write a file' : undefined;
  r.fail(`unexpected ${r.shown()} after the statement`, { hint });
}
