// Parses the action after `=>` and the lines of a block. An action is a value or a statement. A block is a
// list of actions that can bind its own names and can return a value.
import { nearest } from '@kernmantle/core/base';
import type { ActionExpression, Expression, LabelEdit, NodeOf, Statement } from './ast.ts';
import type { Reader } from './cursor.ts';
import { parseAugment, parseExe, parseLet, parseVar } from './define.ts';
import { isEffectWord, parseEffect } from './effect.ts';
import { asLine } from './literal.ts';
import { parseOptions } from './pipeline.ts';
import { isTextStart } from './text.ts';
import {
  hintOfWord,
  isFlowWord,
  isWildcardArm,
  parseStream,
  parseValue,
  refuseLater,
  refuseSlash,
  refuseStream,
  STATEMENT_WORDS,
} from './value.ts';

const CHANGES = /!?[A-Za-z_][\w:.-]*!?(?:[ \t]*,[ \t]*!?[A-Za-z_][\w:.-]*!?)*/y;
const CHANGED_VALUE =
  /[ \t]+(?=[@"'`<[{(\d]|::|-[\d@(]|![@(]|(?:true|false|null|when|for|foreach|loop|if|run|template|prose|llm|stream|cmd|sh|bash|js|javascript|node|nodejs|py|python)(?![\w-]))/y;
const VALUE_WORDS = new Set(
  `run when for foreach loop if template prose llm cmd sh bash js javascript node nodejs py python true false
   null show log output append allow deny retry ask done continue skip let var bail with stream box file
   files auth checkpoint`.split(/\s+/),
);
const NO_VALUE = /[\n\]);,}>]|$|<<|<=|<(?=[ \t])|==|!=|!?~=|=>/my;

/** Parses an action after `=>`. `mayVar` allows the action of a single `when` statement to bind at file level. */
export function parseAction(r: Reader, mayVar = false): ActionExpression {
  return r.deeper(() => {
    refuseSlash(r, 'let');
    const word = r.word();
    if (r.scope.inGuard) {
      const verdict = parseVerdict(r, word);
      if (verdict !== undefined) return verdict;
    }
    const statement = word === undefined ? parseAugment(r) : parseActing(r, word, mayVar);
    return statement ?? r.within({ blocks: 'action' }, () => parseValue(r));
  });
}

function parseActing(r: Reader, word: string, mayVar: boolean): Statement | undefined {
  const at = r.pos;
  if (isEffectWord(word)) return parseEffect(r, false);
  if (isLeaveWord(word)) return parseLeave(r, word);
  if (word === 'var' && !mayVar) {
    r.fail('`var` is not allowed in a block', {
      end: at + word.length,
      hint: 'use `let @x = …`',
      code: 'misplaced',
    });
  }
  const parse = word === 'exe' && !mayVar ? undefined : ACTING.get(word);
  if (!parse) return undefined;
  r.takeWord(word);
  return parse(r, at);
}

/** Parsers of statements in a block. The reader is after the word of the statement. */
const ACTING = new Map<string, (r: Reader, at: number) => Statement>(
  Object.entries({
    let: parseLet,
    var: parseVar,
    exe: parseExe,
    bail: parseBail,
    return: parseOutputs,
  }),
);

export function parseBail(r: Reader, at: number): NodeOf<'bail'> {
  return { kind: 'bail', value: parseOptionalValue(r), at, end: r.pos };
}

export function parseOutputs(r: Reader, at: number): NodeOf<'return'> {
  const value = parseOptionalValue(r);
  return { kind: 'return', isOutputs: true, value, labels: undefined, at, end: r.pos };
}

const LEAVE_WORDS = ['done', 'continue', 'skip', 'retry'] as const;

export const isLeaveWord = (word: string | undefined): word is NodeOf<'leave'>['word'] =>
  LEAVE_WORDS.some((one) => one === word);

/** Parses a value that may be absent at the end of a line, block or arm. */
function parseOptionalValue(r: Reader): Expression | undefined {
  const here = r.pos;
  r.blanks();
  if (r.isAtEnd || r.sees(NO_VALUE) || isWildcardArm(r)) {
    r.pos = here;
    return undefined;
  }
  return r.within({ blocks: 'none' }, () => parseValue(r));
}

/** Parses `done v`, `continue v`, `skip` or `retry hint`. */
function parseLeave(r: Reader, word: NodeOf<'leave'>['word']): NodeOf<'leave'> {
  const at = r.pos;
  r.pos += word.length;
  if (word === 'retry' && r.scope.inLoop) {
    r.fail('`retry` is not allowed in a loop', { at, hint: 'use `continue`', code: 'misplaced' });
  }
  if (!r.scope.inBody) {
    r.fail(`\`${word}\` cannot be used here`, {
      at,
      hint: 'use it in a function, a loop or a stage',
      code: 'misplaced',
    });
  }
  const value = word === 'skip' ? undefined : parseArmValue(r);
  return { kind: 'leave', word, value, at, end: r.pos };
}

/** Parses the value of an arm, unless that value is the condition of the next arm on the line. */
function parseArmValue(r: Reader): Expression | undefined {
  const here = r.pos;
  const value = parseOptionalValue(r);
  if (value === undefined || !r.sees(/[ \t]*=>/y)) return value;
  r.overrun = value;
  r.far = Math.max(r.far, r.pos);
  return here === r.pos ? value : undefined;
}

const VERDICTS: readonly NodeOf<'verdict'>['decision'][] = ['allow', 'deny', 'retry', 'ask'];

/** Parses the decision of a guard's arm. `!label @v` and similar forms allow the changed value. */
function parseVerdict(r: Reader, word: string | undefined): NodeOf<'verdict'> | undefined {
  const at = r.pos;
  const written = VERDICTS.find((one) => one === word);
  if (written) r.takeWord(written);
  const decision = written ?? 'allow';
  const labels = decision === 'allow' ? parseLabelEdit(r) : undefined;
  if (!written && labels === undefined) return undefined;
  const value = parseVerdictValue(r);
  if (!written && value?.kind !== 'reference') refuseMistyped(r, at, labels?.add ?? []);
  return { kind: 'verdict', decision, value, labels, options: parseOptions(r), at, end: r.pos };
}

/** A `with` after the value belongs to the decision, not to the value. */
function parseVerdictValue(r: Reader): Expression | undefined {
  if (r.sees(/[ \t]*with[ \t]*\{/y)) return undefined;
  const value = parseArmValue(r);
  if (value?.kind !== 'with') return value;
  r.pos = value.value.end;
  return value.value;
}

/** Fails on a misspelt decision, because `denny "reason"` would otherwise allow. */
function refuseMistyped(r: Reader, at: number, added: readonly string[]): void {
  const [word = ''] = added;
  const close = added.length === 1 ? nearest(word, VERDICTS) : undefined;
  if (close === undefined) return;
  r.fail(`\`${word}\` is not a decision`, {
    at,
    end: at + word.length,
    hint: `did you mean \`${close}\`? A label is added with \`allow with { addLabels: ["${word}"] }\``,
  });
}

/**
 * Parses `label`, `!label`, `trusted!` or `clear!`, separated by commas, before a value. In a guard a
 * change with `!` needs no value. A bare word needs one, because it is more likely a mistake.
 */
function parseLabelEdit(r: Reader): LabelEdit | undefined {
  const at = r.pos;
  const found = r.match(CHANGES);
  if (found === undefined) return undefined;
  const changes = found.split(',').map((change) => change.trim());
  const isOther = changes.some((change) => VALUE_WORDS.has(change.replaceAll('!', '')));
  const mayStandAlone = r.scope.inGuard && found.includes('!') && isAloneAt(r);
  if (isOther || !(r.take(CHANGED_VALUE) || mayStandAlone)) {
    r.pos = at;
    return undefined;
  }
  return editOf(r, at, changes);
}

const isAloneAt = (r: Reader): boolean =>
  r.isAtEnd || r.sees(/[ \t]*(?:[\n\];}]|$|>>|<<|with[ \t]*\{|\*[ \t]*=>)/my);

function editOf(r: Reader, at: number, changes: readonly string[]): LabelEdit {
  const edit: { add: string[]; remove: string[]; clear: boolean } = {
    add: [],
    remove: [],
    clear: false,
  };
  for (const change of changes) {
    if (change === 'clear!') edit.clear = true;
    else if (change === 'trusted!') {
      edit.remove.push('untrusted');
      edit.add.push('trusted');
    } else if (change.endsWith('!')) {
      r.fail(`\`${change}\` is not a change of labels`, {
        at,
        hint: 'write `label`, `!label`, `trusted!` or `clear!`',
      });
    } else if (change.startsWith('!')) edit.remove.push(change.slice(1));
    else edit.add.push(change);
  }
  return edit;
}

/** Parses the value after `=>`, which a function, a block or the script returns. */
export function parseReturn(r: Reader, at: number): Statement {
  r.breakAfter();
  const word = r.word();
  if (isLeaveWord(word) && !r.scope.inGuard) return parseLeave(r, word);
  refuseSlash(r, 'let');
  const verdict = r.scope.inGuard ? parseVerdict(r, word) : undefined;
  const labels = verdict === undefined ? parseLabelEdit(r) : undefined;
  const value = verdict ?? r.within({ blocks: 'value' }, () => parseValue(r));
  return { kind: 'return', isOutputs: false, value, labels, at, end: r.pos };
}

export function parseBlock(r: Reader, what: string): NodeOf<'block'> {
  const at = r.pos;
  r.expect('[', `before the block of ${what}`);
  const body = r.deeper(() => r.within({ inBody: true }, () => parseBlockRest(r, [], at)));
  return { kind: 'block', body, at, end: r.pos };
}

/** Parses the lines of a block up to and including `]`. */
export function parseBlockRest(
  r: Reader,
  first: readonly ActionExpression[],
  opened: number,
): ActionExpression[] {
  const lines = [...first];
  return r.within({ isOpen: false, inBody: true }, () => {
    for (;;) {
      r.gap();
      while (r.take(';')) r.gap();
      if (r.take(']')) return lines;
      if (r.isAtEnd) {
        r.far = r.end;
        r.failUnclosed(opened, 'the block is not closed');
      }
      lines.push(parseLine(r));
      r.overrun = undefined;
    }
  });
}

/** Returns the last line of a guard's block as its decision. */
const decidedBy = (value: NodeOf<'verdict'>): Statement => {
  const { at, end } = value;
  return { kind: 'return', isOutputs: false, value, labels: undefined, at, end };
};

function parseLine(r: Reader): ActionExpression {
  const at = r.pos;
  if (r.take('=>')) return parseReturn(r, at);
  refuseSlash(r, 'let');
  const verdict = r.scope.inGuard ? parseVerdict(r, r.word()) : undefined;
  if (verdict !== undefined) return decidedBy(verdict);
  const streamed = parseStream(r);
  if (streamed) return streamed;
  const word = r.word();
  if (word === 'stream') refuseStream(r);
  if (word === undefined) {
    const isText = isTextStart(r);
    if (r.peek() !== '@' && !isText) r.fail(`expected a statement, found ${r.shown()}`);
    const line = parseAugment(r) ?? parseValue(r);
    if (isText && line.kind !== 'pipeline' && line.kind !== 'with')
      r.fail('expected a statement, found only a text', {
        at,
        hint: 'write `show "…"`, or pipe it: `"…" | show`',
      });
    return line;
  }
  const statement = parseActing(r, word, false);
  if (statement !== undefined) return statement;
  refuseLater(r, word);
  if (word === 'run' || isFlowWord(word)) return asLine(parseValue(r));
  const end = at + word.length;
  if (STATEMENT_WORDS.has(word))
    r.fail(`\`${word}\` is not allowed in a block`, { end, code: 'misplaced' });
  const hint = hintOfWord(r, word);
  return r.fail(`expected a statement, found ${r.shown()}`, { end, ...(hint && { hint }) });
}
