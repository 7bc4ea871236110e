// A tree as text that reads back to an equal tree (offsets aside). Used by whoever rewrites scripts,
// and by the tests to say what the parser means.
import type {
  Action,
  EffectStatement,
  ExeStatement,
  Expression,
  ImportStatement,
  Parameter,
  Script,
  Statement,
  Target,
} from '../src/script/ast.ts';
import { createValuePrinter, edit } from './script-print-value.ts';

const printer = createValuePrinter(printAction);

export function printScript({ mode, frontMatter, body }: Script): string {
  const slash = mode === 'markdown' ? '/' : '';
  const head =
    frontMatter === undefined ? '' : `---\n${frontMatter === '' ? '' : `${frontMatter}\n`}---\n`;
  let text = head;
  for (const [index, line] of body.entries()) {
    // Texts that a comment kept apart stay apart.
    if (line.kind === 'text' && body[index - 1]?.kind === 'text') text += '>>\n';
    text += line.kind === 'text' ? line.text : top(line, slash);
  }
  return text;
}

function top(statement: Statement, slash: string): string {
  if (statement.kind !== 'fence') return `${slash}${printStatement(statement)}\n`;
  return `\`\`\`mlld-run\n${statement.body.map((line) => top(line, '')).join('')}\`\`\`\n`;
}

/** An arm, a line of a block, what follows `=>`. */
export function printAction(action: Action): string {
  return isStatement(action) ? printStatement(action) : printer.value(action);
}

const STATEMENTS = new Set<string>(
  `var exe helpers effect run call flow import export guard hook policy profiles needs return bail let
   augment leave fence`.split(/\s+/),
);
const isStatement = (action: Action): action is Statement => STATEMENTS.has(action.kind);

const { value, template, tail, block } = printer;
const words = (...parts: readonly (string | undefined)[]): string =>
  parts.filter((part) => part !== undefined && part !== '').join(' ');
const parameters = (all: readonly Parameter[]): string =>
  `(${all.map(({ name, type }) => (type === undefined ? name : `${name}: ${type}`)).join(', ')})`;

export function printStatement(s: Statement): string {
  switch (s.kind) {
    case 'var':
    case 'let':
      return words(s.kind, s.labels.join(','), `@${s.name} = ${value(s.value)}`);
    case 'augment':
      return `@${s.name} += ${value(s.value)}`;
    case 'exe':
      return exe(s);
    case 'helpers':
      return `exe ${s.language} = { ${s.names.join(', ')} }`;
    case 'effect':
      return effect(s);
    case 'run':
      return `run ${printer.run(s.action)}`;
    case 'call':
    case 'flow':
      return value(s.value);
    case 'return':
      if (s.isOutputs) return words('return', s.value && value(s.value));
      return words('=>', ...edit(s.labels), s.value && value(s.value));
    case 'bail':
      return words('bail', s.value && value(s.value));
    case 'leave':
      return words(s.word, s.value && value(s.value));
    case 'fence':
      return top(s, '');
    default:
      return rule(s);
  }
}

type Rule = Extract<
  Statement,
  { kind: 'import' | 'export' | 'guard' | 'hook' | 'policy' | 'profiles' | 'needs' }
>;

function rule(s: Rule): string {
  switch (s.kind) {
    case 'import':
      return importing(s);
    case 'export':
      return `export { ${s.names === undefined ? '*' : s.names.map((name) => `@${name}`).join(', ')} }`;
    case 'guard': {
      const name = s.name === undefined ? undefined : `@${s.name}`;
      const head = words('guard', s.privileged ? 'privileged' : '', name, s.timing, s.filter);
      return `${head} = ${value(s.rules)}`;
    }
    case 'hook': {
      const name = s.name === undefined ? undefined : `@${s.name}`;
      return `${words('hook', name, s.timing, s.filter)} = ${block(s.body)}`;
    }
    case 'policy': {
      const [only] = s.members;
      const isOne = only !== undefined && s.members.length === 1;
      return `policy @${s.name} = ${isOne ? value(only) : `union(${s.members.map(value).join(', ')})`}`;
    }
    case 'profiles':
    case 'needs':
      return `${s.kind} ${value(s.value)}`;
  }
}

function exe({ labels, name, parameters: all, body, options }: ExeStatement): string {
  const head = words('exe', labels.join(','), `@${name}${parameters(all)}`);
  const about = options === undefined ? '' : options.entries;
  if (about === '') return `${head} = ${value(body)}`;
  const described = (e: Expression): Expression =>
    e.kind === 'with'
      ? { ...e, options: { ...e.options, entries: new Map([...e.options.entries, ...about]) } }
      : {
          kind: 'with',
          value: e,
          options: { kind: 'options', entries: about, pipeline: undefined, at: 0, end: 0 },
          at: 0,
          end: 0,
        };
  const made =
    body.kind === 'run-value' ? { ...body, action: described(body.action) } : described(body);
  return `${head} = ${value(made)}`;
}

function effect({ effect: word, value: shown, target, format }: EffectStatement): string {
  const isWritten = target !== undefined;
  return words(
    word,
    shown && value(shown),
    isWritten ? `to ${printTarget(target)}` : '',
    format && `as ${format}`,
  );
}

function printTarget(target: Target): string {
  switch (target.kind) {
    case 'file':
      return value(target.path);
    case 'env':
      return `env:${target.name}`;
    default:
      return target.kind;
  }
}

function importing({ form, source, mode, options }: ImportStatement): string {
  const from = source.kind === 'path' ? template(source.path) : `@${source.kind}`;
  const head = words('import', mode);
  switch (form.kind) {
    case 'names': {
      const names = form.names.map(({ name, alias }) =>
        name === alias ? name : `${name} as @${alias}`,
      );
      return `${head} { ${names.join(', ')} } from ${from}${tail(options)}`;
    }
    case 'namespace':
      return `${head} ${from}${form.alias === undefined ? '' : ` as @${form.alias}`}${tail(options)}`;
    case 'templates':
      return `${head} templates from ${from} as @${form.alias}${parameters(form.parameters)}${tail(options)}`;
    case 'policy':
      return `${head} policy @${form.alias} from ${from}${tail(options)}`;
  }
}
