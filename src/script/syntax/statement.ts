// One statement at the level of the script, and where it ends.

import { parseOptionalValue, parseReturn } from './action.ts';
import type { Node, Statement } from './ast.ts';
import { parseFlow } from './control-flow.ts';
import type { Reader } from './cursor.ts';
import { parseExe, parseVar } from './define.ts';
import { parseEffect } from './effect.ts';
import { parseExport, parseImport } from './module.ts';
import { parseGuard, parseHook, parsePolicy, parseWords } from './rule.ts';
import { parseRunAction, parseValue, STATEMENT_WORDS } from './value.ts';

/** Stands at the first character behind an optional slash. Its line is used up afterwards. */
export function parseStatement(r: Reader): Statement {
  const statement = readStatement(r);
  endStatement(r, statement);
  return statement;
}

function readStatement(r: Reader): Statement {
  const at = r.pos;
  if (r.peek() === '@') return parseCall(r);
  if (r.take('=>')) return parseReturn(r, at);
  const word = r.word() ?? '';
  switch (word) {
    case 'when':
    case 'if':
    case 'for':
    case 'loop':
      return { kind: 'flow', value: parseFlow(r, true) as Node<'flow'>['value'], at, end: r.pos };
    case 'show':
    case 'log':
    case 'output':
    case 'append':
      return parseEffect(r, false);
    default:
      break;
  }
  if (!STATEMENT_WORDS.has(word)) refuseText(r, word);
  r.pos += word.length;
  return readDefinition(r, at, word);
}

function readDefinition(r: Reader, at: number, word: string): Statement {
  switch (word) {
    case 'var':
      return parseVar(r, at);
    case 'exe':
      return parseExe(r, at);
    case 'run':
      return { kind: 'run', action: parseRunAction(r), at, end: r.pos };
    case 'import':
      return parseImport(r, at);
    case 'export':
      return parseExport(r, at);
    case 'guard':
      return parseGuard(r, at);
    case 'hook':
      return parseHook(r, at);
    case 'policy':
      return parsePolicy(r, at);
    case 'profiles':
    case 'needs':
      return parseWords(r, at, word);
    case 'return':
      return {
        kind: 'return',
        isOutputs: true,
        value: parseOptionalValue(r),
        labels: undefined,
        at,
        end: r.pos,
      };
    default:
      return { kind: 'bail', value: parseOptionalValue(r), at, end: r.pos };
  }
}

function refuseText(r: Reader, word: string): never {
  const at = r.pos;
  if (word === 'let') {
    r.fail('`let` stands in blocks only', {
      end: at + 3,
      hint: 'use `var @x = …`',
      code: 'misplaced',
    });
  }
  if (word === 'foreach') {
    r.fail('`foreach` is a value', {
      end: at + 7,
      hint: 'write `show foreach …` or `var @x = foreach …`',
    });
  }
  if (/^(?:done|continue|skip|retry)$/.test(word)) {
    r.fail(`\`${word}\` has nothing to leave here`, { end: at + word.length, code: 'misplaced' });
  }
  return r.fail(`expected a statement, found ${r.shown()}`, {
    end: r.lineEnd(),
    hint: 'text stands in markdown files (.md); here write `show "…"`',
  });
}

/** `@f(…)` on a line of its own. */
function parseCall(r: Reader): Statement {
  const at = r.pos;
  if (r.sees(/@[\w\u0080-\uffff-]+[ \t]*(?:\+=|=(?![=>]))/y)) {
    r.fail('a name is bound with `var`', { hint: 'write `var @x = …`; `+=` stands in blocks' });
  }
  const value = parseValue(r);
  const source =
    value.kind === 'pipeline' ? value.source : value.kind === 'with' ? value.value : value;
  const isCall = source?.kind === 'reference' && source.steps.at(-1)?.kind === 'call';
  if (!isCall && value.kind !== 'pipeline') {
    r.fail('a value alone is no statement', {
      at,
      hint: 'show it with `show @x`, call it with `@f()`',
    });
  }
  return { kind: 'call', value, at, end: r.pos };
}

/** Nothing but a comment may follow on the line. */
function endStatement(r: Reader, statement: Statement): void {
  r.blanks();
  if (r.starts('>>') || r.starts('<<')) r.pos = r.lineEnd();
  if (r.isAtEnd || r.take('\n')) return;
  if (statement.kind === 'effect' && statement.target === undefined && r.peek() !== '|') {
    r.fail(`\`${statement.effect}\` takes one argument, found ${r.shown()} behind it`, {
      hint: `one text for both: ${statement.effect} \`@a @b\``,
    });
  }
  r.fail(`unexpected ${r.shown()} behind the statement`, { hint: trailingHint(r, statement) });
}

function trailingHint(r: Reader, statement: Statement): string | undefined {
  if (r.peek() === '|' || r.peek() === ',') return undefined;
  return statement.kind === 'run' && r.word() === 'to'
    ? 'write `output … to` to write a file'
    : undefined;
}
