// Parses guards, script hooks and policies. It also finds removals of labels that a run would refuse: removals
// outside of privileged guards, and labels that are never removed.
import { parseBlock } from './action.ts';
import type { ActionExpression, Expression, LabelEdit, NodeOf, ScriptTree } from './ast.ts';
import { parseWhen } from './control-flow.ts';
import type { Reader } from './cursor.ts';
import { parseTarget } from './define.ts';
import { parseWordObject } from './literal.ts';
import { staticTexts } from './outline.ts';
import { parseArguments } from './reference.ts';
import type { NameFinding } from './unbound.ts';
import { parseValue, refuseUnsupported } from './value.ts';

type Head = Pick<NodeOf<'guard'>, 'name' | 'timing' | 'filter'> & Pick<NodeOf<'hook'>, 'prefix'>;

/** Parses `[@name] before|after|always|for FILTER =`. Name and timing may come in either order. */
function parseHead(r: Reader, word: string): Head {
  let name: string | undefined;
  let timing: Head['timing'] | undefined;
  for (;;) {
    r.blanks();
    const found = r.match(/(?:before|after|always)(?![\w:-])/y);
    if (found !== undefined && timing === undefined) timing = found as Head['timing'];
    else if (name === undefined && isName(r, timing)) {
      r.pos += 1;
      name = r.name('after `@`');
    } else break;
  }
  const hasFor = r.match(/for(?![\w:-])[ \t]*/y) !== undefined;
  if (timing === undefined && !hasFor) {
    r.fail(`\`${word}\` needs a timing and a filter`, {
      hint: `write \`${word} @name before secret = …\``,
    });
  }
  const filter = r.match(/@?[A-Za-z_*][\w:.*/@-]*|"[^"\n]+"/y);
  if (filter === undefined) {
    return r.fail(`\`${word}\` needs a filter, found ${r.shown()}`, {
      hint: 'a label (`secret`), an operation (`op:show`) or a function (`@f`)',
    });
  }
  const prefix = filter.startsWith('@') && r.peek() === '(' ? parsePrefix(r, word) : undefined;
  r.blanks();
  r.expect('=', 'after the filter');
  r.breakAfter();
  return { name, timing: timing ?? 'before', filter: filter.replaceAll('"', ''), prefix };
}

/** Parses `("src/")` after the function of a hook: the prefix of the first argument. */
function parsePrefix(r: Reader, word: string): string {
  const prefix =
    word === 'hook' ? r.match(/\([ \t]*(?:"[^"\n]*"|'[^'\n]*'|`[^`\n]*`)[ \t]*\)/y) : undefined;
  if (prefix !== undefined) return prefix.slice(1, -1).trim().slice(1, -1);
  return r.fail(`expected \`=\` after the filter, found ${r.shown()}`, {
    hint:
      word === 'hook'
        ? 'write the prefix of the first argument: `@f("src/")`'
        : 'a guard judges every call of a function; test `@mx.args` in its arms',
  });
}

/** True if `@f` is the name of the rule and not its filter, which is followed by `=` or `(`. */
const isName = (r: Reader, timing: string | undefined): boolean =>
  r.peek() === '@' && (timing === undefined || !r.sees(/@[\w.-]+[ \t]*[=(]/y));

const DECIDES = new Set(['verdict', 'when', 'if']);
const LINES = new Set(['let', 'augment', 'flow', 'return']);

/** True for `let`, `log`, `append` and the forms that choose among them. */
const mayPrecede = (line: ActionExpression): boolean =>
  line.kind === 'effect' ? line.effect === 'log' || line.effect === 'append' : LINES.has(line.kind);

function decides(action: ActionExpression): boolean {
  if (action.kind !== 'block') return DECIDES.has(action.kind);
  const last = action.body.at(-1);
  if (last === undefined || !action.body.every(mayPrecede)) return false;
  if (last.kind === 'flow') return DECIDES.has(last.value.kind);
  return last.kind === 'return' && last.value !== undefined && DECIDES.has(last.value.kind);
}

export function parseGuard(r: Reader, at: number): NodeOf<'guard'> {
  const isMarked = r.takeWord('privileged');
  const { prefix: _, ...head } = parseHead(r, 'guard');
  if (/^op:for:(?:iteration|batch)$/.test(head.filter)) {
    r.fail(`guards cannot judge \`${head.filter}\`: rounds are not operations`, {
      hint: 'write `op:for` for the whole loop, or a `hook` to observe its rounds',
    });
  }
  const start = r.pos;
  if (!r.takeWord('when'))
    r.fail(`expected \`when [ … ]\` after the guard's filter, found ${r.shown()}`);
  const place = { inGuard: true, inBody: true, inLoop: false };
  const rules = r.within(place, () => parseWhen(r, start));
  for (const item of rules.items) {
    if (item.kind === 'arm' && !decides(item.action)) {
      r.fail('an arm of a guard must decide', {
        at: item.action.at,
        hint: 'write `=> allow`, `=> deny "reason"`, `=> retry "hint"`, `=> ask "question"`, or a block of `let`, `log` and `append` that ends with one of them',
        code: 'misplaced',
      });
    }
  }
  const privileged = parsePrivileged(r) || isMarked;
  return { kind: 'guard', privileged, ...head, rules, at, end: r.pos };
}

/** Parses `with { privileged: true }`, the only option of a guard. */
function parsePrivileged(r: Reader): boolean {
  if (!r.sees(/[ \t]*with[ \t]*\{/y)) return false;
  const options = r.match(
    /[ \t]*with[ \t]*\{\s*(?:privileged|"privileged")\s*:\s*(?:true|false)\s*,?\s*\}/y,
  );
  if (options === undefined) {
    r.blanks();
    r.fail('a guard has no option except `privileged`', {
      hint: 'write `] with { privileged: true }`',
    });
  }
  return options.includes('true');
}

export function parseHook(r: Reader, at: number): NodeOf<'hook'> {
  const { timing, ...head } = parseHead(r, 'hook');
  if (timing === 'always') r.fail('a hook needs the timing `before` or `after`', { at });
  const body = r.within({ inLoop: false, inBody: true }, () => parseHookBody(r));
  return { kind: 'hook', timing, ...head, body, at, end: r.pos };
}

/** Parses the body of a hook. The result of an arm of a `when` is the result of the hook. */
function parseHookBody(r: Reader): NodeOf<'block'> {
  const at = r.pos;
  if (!r.takeWord('when')) return parseBlock(r, 'the hook');
  const value = parseWhen(r, at);
  const { end } = value;
  return { kind: 'block', body: [{ kind: 'flow', value, at, end }], at, end };
}

function refuseAuthorizations(r: Reader, member: Expression): void {
  const entries = member.kind === 'object' ? member.entries : [];
  for (const entry of entries) {
    if (entry.kind !== 'pair' || entry.key !== 'authorizations') continue;
    const { at, end } = entry.value;
    const hint = 'use `allow`, `labels` and guards';
    refuseUnsupported(r, 'authorizations', { at, end, hint });
  }
}

export function parsePolicy(r: Reader, at: number): NodeOf<'policy'> {
  const name = parseTarget(r, 'policy');
  r.blanks();
  r.expect('=', `after \`@${name}\``);
  r.breakAfter();
  const members = r.take(/union[ \t]*(?=\()/y)
    ? parseArguments(r)
    : [r.attempt(() => parseValue(r)) ?? parseWordObject(r)];
  for (const member of members) refuseAuthorizations(r, member);
  return { kind: 'policy', name, members, at, end: r.pos };
}

type RemovalText = Pick<NameFinding, 'severity' | 'message' | 'hint'>;

const BY_GUARD: RemovalText = {
  severity: 'error',
  message: 'only a privileged guard may remove labels',
  hint: 'write `guard privileged …` to allow it',
};
const BY_OTHERS: RemovalText = {
  severity: 'error',
  message: 'only a privileged guard may remove labels; a function may only add labels',
  hint: 'remove it in a `guard privileged … after …`',
};
const fixed = (label: string): RemovalText => ({
  severity: 'warning',
  message: `label \`${label}\` records the origin of data and cannot be removed`,
});

const isRemoving = (edit: LabelEdit | undefined): boolean =>
  edit !== undefined && (edit.clear || edit.remove.length > 0);

function ofVerdict({ labels, options }: NodeOf<'verdict'>, isPrivileged: boolean): RemovalText[] {
  const listed = options?.entries.get('removeLabels');
  const isEmpty = listed?.kind === 'array' && listed.items.length === 0;
  const names = [...(labels?.remove ?? []), ...staticTexts(listed)];
  if (!isPrivileged && (isRemoving(labels) || (listed && !isEmpty))) return [BY_GUARD];
  return names.filter((label) => /^(?:src|dir):/.test(label)).map(fixed);
}

type LabelHolder = NodeOf<'guard' | 'exe' | 'verdict' | 'return'>;

const changesLabels = (item: object): item is LabelHolder =>
  'kind' in item && /^(?:guard|exe|verdict|return)$/.test(String(item.kind));

function findingsAt(node: LabelHolder, isPrivileged: boolean): RemovalText[] {
  if (node.kind === 'verdict') return ofVerdict(node, isPrivileged);
  return node.kind === 'return' && isRemoving(node.labels) ? [BY_OTHERS] : [];
}

/** Returns the removals of labels that a run would refuse, in no particular order. */
export function labelFindings({ body }: Pick<ScriptTree, 'body'>): NameFinding[] {
  const found: NameFinding[] = [];
  const open: (readonly [item: unknown, isPrivileged: boolean])[] = [[body, false]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [item, outer] = next;
    if (typeof item !== 'object' || item === null) continue;
    let isPrivileged = outer;
    if (changesLabels(item)) {
      if (item.kind === 'guard') isPrivileged = item.privileged;
      const { at, end } = item;
      for (const finding of findingsAt(item, isPrivileged))
        found.push({ at, end, code: 'label_removed', ...finding });
    }
    const inside = item instanceof Map ? item.values() : Object.values(item);
    for (const inner of inside) open.push([inner, isPrivileged]);
  }
  return found;
}
