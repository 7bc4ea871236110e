// Parses the statements that bind names: `var`, `exe`, `let` and `+=`.
import type { Expression, NodeOf, Parameter } from './ast.ts';
import type { Reader } from './cursor.ts';
import { parseValue, refuseUnsupported } from './value.ts';

const LABELS = /[A-Za-z_][\w:.-]*(?:[ \t]*,[ \t]*[A-Za-z_][\w:.-]*)*[ \t]+(?=@)/y;
/** Matches `exe js = { … }`. After `@` the braces may be an object, so they must contain only names. */
const HELPERS =
  /(?:@(?=\w+[ \t]*=[ \t]*\{[^{}:"'.]*\}))?(?:javascript|js|nodejs|node|python|py)[ \t]*=[ \t]*\{/y;
const FIXED = new Set(['root', 'base', 'now', 'mx', 'ctx', 'fm', 'frontmatter', 'p', 'pipeline']);

/** Parses the labels before `@`. A label may contain `:`. */
function parseLabels(r: Reader): string[] {
  const found = r.match(LABELS);
  return found === undefined ? [] : found.split(',').map((label) => label.trim());
}

/** Parses the `@name` that a statement binds. */
export function parseTarget(r: Reader, word: string): string {
  const at = r.pos;
  if (!r.take('@')) {
    r.fail(`expected \`@name\` after \`${word}\`, found ${r.shown()}`, {
      hint: `write \`${word} @name = …\``,
    });
  }
  const name = r.name('after `@`');
  if (/[.[]/.test(r.peek())) {
    r.fail(`\`${word}\` binds a name, not a field of it`, {
      at,
      hint: `build the object at once: \`var @${name} = { … }\``,
    });
  }
  // A policy applies without being read by its name, so `@p` may name one.
  if (word !== 'policy') refuseFixed(r, name, at);
  return name;
}

export function refuseFixed(r: Reader, name: string, at: number): void {
  if (FIXED.has(name)) r.fail(`\`@${name}\` cannot be assigned`, { at, code: 'reserved_name' });
}

export function parseVar(r: Reader, at: number): NodeOf<'var'> {
  if (r.sees(/tools[ \t]+(?:[A-Za-z_][\w:.,\t -]*)?@/y)) {
    const hint = 'put functions in an object: `var @t = { name: @f }`';
    refuseUnsupported(r, 'var tools', { at, end: r.pos + 'tools'.length, hint });
  }
  const labels = parseLabels(r);
  const name = parseTarget(r, 'var');
  return { kind: 'var', labels, name, value: parseRight(r, name), at, end: r.pos };
}

function parseRight(r: Reader, name: string): Expression {
  r.blanks();
  r.expect('=', `after \`@${name}\``);
  r.breakAfter();
  const value = parseValue(r);
  refuseAugment(r);
  if (value.kind === 'block' && value.body.at(-1)?.kind !== 'return') {
    r.fail('a block that is a value must end in `=>`', {
      at: value.at,
      end: value.at + 1,
      hint: 'end it with `=> @value`',
    });
  }
  return value;
}

function refuseAugment(r: Reader): void {
  if (!r.sees(/[ \t]*\+=/y)) return;
  r.blanks();
  const hint = 'write `@x += value` on a line of its own in a block';
  r.fail('`+=` is not allowed in a value', { end: r.pos + 2, hint });
}

export function parseLet(r: Reader, at: number): NodeOf<'let' | 'augment'> {
  const labels = parseLabels(r);
  const name = parseTarget(r, 'let');
  r.blanks();
  if (r.starts('+=')) return finishAugment(r, at, name);
  return { kind: 'let', labels, name, value: parseRight(r, name), at, end: r.pos };
}

/** Parses `@x += value`; absent if there is none. */
export function parseAugment(r: Reader): NodeOf<'augment'> | undefined {
  if (!r.sees(/@[\w\u0080-\uffff-]+[ \t]*\+=/y)) return undefined;
  const at = r.pos;
  const name = parseTarget(r, '+=');
  r.blanks();
  return finishAugment(r, at, name);
}

function finishAugment(r: Reader, at: number, name: string): NodeOf<'augment'> {
  r.pos += 2;
  r.breakAfter();
  const value = parseValue(r);
  refuseAugment(r);
  return { kind: 'augment', name, value, at, end: r.pos };
}

export function takeName(r: Reader, what: string): string {
  r.take('@');
  return r.name(what);
}

export function parseExe(r: Reader, at: number): NodeOf<'exe' | 'helpers'> {
  if (r.sees(HELPERS)) return parseHelpers(r, at);
  const labels = parseLabels(r);
  const name = parseTarget(r, 'exe');
  const parameters = r.peek() === '(' ? parseParameters(r) : [];
  r.blanks();
  r.expect('=', `after \`@${name}\``);
  r.breakAfter();
  const expression = r.within(
    { inBody: true, inLoop: false, inGuard: false, blocks: 'action' },
    () => parseValue(r),
  );
  refuseAugment(r);
  const { body, options } = split(expression);
  return { kind: 'exe', labels, name, parameters, body, options, at, end: r.pos };
}

/** Separates `with { description }`, which describes the function, from the options of its body. */
function split(expression: Expression): {
  body: Expression;
  options: NodeOf<'options'> | undefined;
} {
  if (expression.kind === 'run-value') {
    const { body: action, options } = split(expression.action);
    return { body: { ...expression, action }, options };
  }
  const description =
    expression.kind === 'with' ? expression.options.entries.get('description') : undefined;
  if (expression.kind !== 'with' || description === undefined)
    return { body: expression, options: undefined };
  const { entries, pipeline } = expression.options;
  const rest = new Map([...entries].filter(([key]) => key !== 'description'));
  const own = new Map([['description', description]]);
  const isAll = rest.size === 0 && pipeline === undefined;
  return {
    body: isAll
      ? expression.value
      : { ...expression, options: { ...expression.options, entries: rest } },
    options: { ...expression.options, entries: own, pipeline: undefined },
  };
}

export function parseParameters(r: Reader): Parameter[] {
  r.pos += 1;
  const names = new Set<string>();
  return r.list(')', 'parameters', () => {
    const at = r.pos;
    const name = takeName(r, 'of a parameter');
    if (names.has(name)) r.fail(`parameter \`${name}\` is declared twice`, { at });
    names.add(name);
    r.space();
    const type = r.match(/:[ \t]*[\w.<>[\]| ]*[\w>\]]/y);
    return { name, type: type?.slice(1).trim() };
  });
}

/** Parses `js = { up, clean }` or `@py = { half }`. */
function parseHelpers(r: Reader, at: number): NodeOf<'helpers'> {
  const head = r.match(HELPERS) ?? '';
  const language = (['node', 'py'] as const).find((word) => head.includes(word)) ?? 'js';
  const names = r.list('}', 'helpers', () => takeName(r, 'of a helper'));
  return { kind: 'helpers', language, names, at, end: r.pos };
}
