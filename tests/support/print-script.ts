// Prints the tree of a script as text that a parser reads back to an equal tree (except offsets). The tree contains no
// parentheses, so they are printed wherever their absence could change the meaning of a value.
import type {
  ActionExpression,
  BinaryOperator,
  Condition,
  Expression,
  LabelEdit,
  NodeOf,
  Parameter,
  PathStep,
  PipelineStage,
  ScriptTree,
  Sections,
  Statement,
  Target,
  TemplatePart,
} from '../../packages/script/src/syntax/ast.ts';

type Show = (part: NodeOf<'repeat'>) => string;

/** Operators by precedence. A printed script is parsed again, so a wrong row fails a test. */
const LEVELS = ['??', '||', '&&', '== != ~= !~=', '<= >= < >', '+ -', '* / %'];
const levelOf = (operator: string): number =>
  LEVELS.findIndex((operators) => operators.split(' ').includes(operator)) + 1;

const escaped = (text: string, pattern: RegExp): string =>
  text.replace(pattern, (char) => ({ '\n': '\\n', '\t': '\\t' })[char] ?? `\\${char}`);

/** Prints a text in single quotes. */
export const printSingle = (text: string): string => `'${escaped(text, /['\\]/g)}'`;

/** Prints a `"key"` of an object. */
export const printKey = (key: string): string =>
  /^[\w$\u0080-\uffff-]+$/.test(key) ? key : `"${escaped(key, /["\\\n\t]/g)}"`;

/** Prints a template. `repeat` prints the head of a `/for` in text. */
export function printTemplate({ style, parts }: NodeOf<'template'>, repeat: Show): string {
  const inner = parts
    .map((part, index) => printPart(part, parts[index - 1], style, repeat))
    .join('');
  switch (style) {
    case 'double':
      return `"${inner}"`;
    case 'backtick':
      return `\`${inner}\``;
    case 'colon':
      return enclosed('::', inner, parts);
    case 'mustache':
      return enclosed(':::', inner, parts);
    case 'single':
      return printSingle(parts.filter((part) => typeof part === 'string').join(''));
    case 'bracket':
      return `[[${inner}]]`;
    default:
      return inner;
  }
}

/** Adds a line break next to the marks where one would be missed, because the parser drops it. */
function enclosed(mark: string, inner: string, parts: readonly TemplatePart[]): string {
  const last = parts.at(-1);
  const opening = /^(?::|\r?\n)/.test(inner) || inner === '' ? '\n' : '';
  const closing = typeof last === 'string' && /[:\n]$/.test(last) ? '\n' : '';
  return `${mark}${opening}${inner}${closing}${mark}`;
}

const ESCAPED = {
  double: /["\\@\n\t]/g,
  backtick: /[`\\@]/g,
  colon: /@/g,
  bare: /@/g,
  file: /@/g,
  mustache: /\\(?=[nt\\])/g,
  bracket: /\\/g,
  single: /(?!)/g,
} as const;

function printPart(
  part: TemplatePart,
  before: TemplatePart | undefined,
  style: NodeOf<'template'>['style'],
  repeat: Show,
): string {
  if (typeof part !== 'string') return part.kind === 'repeat' ? repeat(part) : part.raw;
  const text = escaped(part, ESCAPED[style]);
  // These two characters would continue a reference before them.
  const ends = typeof before === 'object' && style !== 'mustache' && /^[.-]/.test(text);
  return ends ? `\\${text}` : text;
}

/** Prints the lines of a repetition, without its head. */
export const printLines = (
  part: NodeOf<'repeat'>,
  style: NodeOf<'template'>['style'],
  repeat: Show,
): string =>
  part.parts.map((inner, index) => printPart(inner, part.parts[index - 1], style, repeat)).join('');

/** Prints a statement. The caller provides it, because expressions can contain statements. */
export type PrintAction = (action: ActionExpression) => string;

export function createValuePrinter(action: PrintAction) {
  const lines = (items: readonly string[]): string =>
    items.length === 0 ? '[ ]' : `[\n${items.join('\n')}\n]`;
  const block = ({ body }: NodeOf<'block'>): string => lines(body.map(action));

  /** Prints an operand that the following text cannot continue. */
  const operand = (e: Expression): string => (isPrimary(e) ? value(e) : `(${value(e)})`);
  /** Prints a value before `=>`, `[` or a pipe. */
  const bounded = (e: Expression): string =>
    isPrimary(e) || e.kind === 'binary' || e.kind === 'ternary' || e.kind === 'unary'
      ? value(e)
      : operand(e);
  const condition = (e: Expression): string => (e.kind === 'pipeline' ? value(e) : bounded(e));
  const list = (items: readonly Expression[]): string => items.map(value).join(', ');

  function value(e: Expression): string {
    switch (e.kind) {
      case 'literal':
        if (typeof e.value === 'string') return printSingle(e.value);
        return e.isWildcard ? '*' : String(e.value);
      case 'template':
        return template(e);
      case 'pattern':
        return `/${e.body}/${e.flags}`;
      case 'array':
        return array(e);
      case 'object':
        return `{ ${e.entries.map(entry).join(', ')} }`;
      case 'reference':
        return `@${e.name}${steps(e.steps)}${e.isOptional ? '?' : ''}`;
      case 'unary':
        return e.operator === '!' ? `!${operand(e.value)}` : `- ${operand(e.value)}`;
      case 'binary':
        return `${side(e.left, e.operator, 0)} ${e.operator} ${side(e.right, e.operator, 1)}`;
      case 'ternary':
        return `${operand(e.condition)} ? ${operand(e.then)} : ${operand(e.else)}`;
      case 'file':
        return file(e);
      case 'block':
        return block(e);
      default:
        return made(e);
    }
  }

  /** Prints an array. A single value gets a comma if it could otherwise be the line of a block. */
  function array({ items }: NodeOf<'array'>): string {
    const printed = items
      .map((item) => (item.isSpread ? '...' : '') + value(item.value))
      .join(', ');
    const isAlone = items.length === 1 && items[0]?.value.kind !== 'reference';
    return isAlone && /^(?:@|run|when|for|loop)/.test(printed) ? `[${printed}, ]` : `[${printed}]`;
  }

  function made(e: Expression): string {
    switch (e.kind) {
      case 'pipeline':
        return `${e.source === undefined ? '' : `${bounded(e.source)} `}${stages(e.stages, e.source === undefined)}`;
      case 'with':
        return `${condition(e.value)} ${options(e.options)}`;
      case 'command':
      case 'code':
        return code(e);
      case 'run-value':
        return `run ${run(e.action)}`;
      case 'template-file':
        return `template ${template(e.path)}`;
      case 'model': {
        const tier = e.tier === undefined ? '' : `:${e.tier}`;
        const prompt = e.prompt.style === 'file' ? `{ ${template(e.prompt)} }` : template(e.prompt);
        return `${e.word}${tier} ${prompt}${tail(e.options)}`;
      }
      case 'verdict': {
        const parts = [e.decision, ...edit(e.labels), ...(e.value ? [operand(e.value)] : [])];
        return parts.join(' ') + tail(e.options);
      }
      default:
        return flow(e);
    }
  }

  function flow(e: Expression): string {
    switch (e.kind) {
      case 'when':
        return when(e);
      case 'if': {
        const otherwise = e.else === undefined ? '' : ` else ${value(e.else)}`;
        return `if ${bounded(e.condition)} ${block(e.then)}${otherwise}`;
      }
      case 'for':
        return forLoop(e);
      case 'foreach':
        return `foreach ${value(e.call)}${collected(e.batch)}${tail(e.options)}`;
      case 'loop': {
        const pause = e.pauseMs === 0 ? '' : `(endless, ${e.pauseMs}ms)`;
        const head = `loop${e.limit === undefined ? pause : `(${limits(e.limit, e.pauseMs)})`}`;
        return `${head}${e.until === undefined ? '' : ` until ${bounded(e.until)}`} ${block(e.body)}`;
      }
      default:
        return '';
    }
  }

  function when({ subject, isSimple, items }: NodeOf<'when'>): string {
    const arms = items.map((item) =>
      item.kind === 'arm' ? `${test(item.condition)} => ${action(item.action)}` : action(item),
    );
    if (isSimple) return `when ${arms.join('')}`;
    return `when ${subject === undefined ? '' : `${condition(subject)} `}${lines(arms)}`;
  }

  function test(c: Condition): string {
    switch (c.kind) {
      case 'test':
        return condition(c.value);
      case 'compare':
        return `${c.operator} ${bounded(c.value)}`;
      case 'not':
        return `!${pattern(c.pattern)}`;
      case 'and':
      case 'or':
        return `${pattern(c.left)} ${c.kind === 'and' ? '&&' : '||'} ${pattern(c.right)}`;
      case 'any':
        return '*';
      default:
        return c.kind;
    }
  }

  /** Prints one side of a larger pattern. */
  function pattern(c: Condition): string {
    const isTight =
      c.kind === 'test' &&
      (isPrimary(c.value) || (c.value.kind === 'binary' && levelOf(c.value.operator) > 3));
    return isTight || c.kind === 'not' || c.kind === 'denied' ? test(c) : `(${test(c)})`;
  }

  const collected = (batch: readonly PipelineStage[] | undefined): string =>
    batch === undefined ? '' : ` => ${stages(batch, false)}`;

  function forLoop(node: NodeOf<'for'>): string {
    const { parallel, bind, collection, filter, body, batch, isSifted } = node;
    const { key, name, path } = bind;
    const cap = parallel?.cap === undefined ? '' : `(${limits(parallel.cap, parallel.pauseMs)})`;
    const bound = `${key === undefined ? '' : `@${key}, `}@${[name, ...path].join('.')}`;
    const head = `for ${parallel === undefined ? '' : `parallel${cap} `}${bound} in ${condition(collection)}`;
    const filtered = filter === undefined ? head : `${head} when ${bounded(filter)}`;
    if (body.kind === 'block') return `${filtered} ${block(body)}${collected(batch)}`;
    if (isSifted) return `${filtered} ${action(body)}${collected(batch)}`;
    const open = body.kind === 'for' || body.kind === 'when' || body.kind === 'run-value';
    const acted = batch !== undefined && open ? `(${value(body)})` : action(body);
    return `${filtered} => ${acted}${collected(batch)}`;
  }

  const limits = (cap: Expression, pauseMs: number): string =>
    value(cap) + (pauseMs === 0 ? '' : `, ${pauseMs}ms`);

  function side(e: Expression, operator: BinaryOperator, tighter: 0 | 1): string {
    if (e.kind === 'unary') return value(e);
    if (e.kind !== 'binary') return operand(e);
    const isTight = levelOf(e.operator) >= levelOf(operator) + tighter;
    return isTight ? value(e) : `(${value(e)})`;
  }

  const entry = (e: Extract<Expression, { kind: 'object' }>['entries'][number]): string =>
    e.kind === 'spread'
      ? `...${value(e.value)}`
      : `${printKey(e.key)}${e.isOptional ? '?' : ''}: ${value(e.value)}`;

  const steps = (all: readonly PathStep[]): string => all.map(step).join('');

  function step(s: PathStep): string {
    switch (s.kind) {
      case 'field':
        return `.${s.name}`;
      case 'index':
        return `[${value(s.index)}]`;
      case 'slice':
        return `[${s.from ? operand(s.from) : ''}:${s.to ? operand(s.to) : ''}]`;
      case 'each':
        return '[*]';
      case 'call':
        return `(${list(s.arguments)})`;
    }
  }

  function template(e: NodeOf<'template'>): string {
    const repeat: Parameters<typeof printTemplate>[1] = (part) => {
      const { bind, collection } = part;
      const bound = `${bind.key === undefined ? '' : `@${bind.key}, `}@${[bind.name, ...bind.path].join('.')}`;
      return `/for ${bound} in ${value(collection)}\n${printLines(part, e.style, repeat)}/end\n`;
    };
    return printTemplate(e, repeat);
  }

  function file({
    path,
    sections,
    definitions,
    as,
    isOptional,
    steps: after,
  }: NodeOf<'file'>): string {
    const picked = definitions === undefined ? '' : ` { ${definitions.join(', ')} }`;
    const chosen = sections === undefined ? '' : ` # ${selector(sections)}`;
    const renamed = as === undefined ? '' : ` as ${template(as)}`;
    return `<${template(path)}${chosen}${picked}>${isOptional ? '?' : ''}${steps(after)}${renamed}`;
  }

  function selector({ include, exclude, list: level }: Sections): string {
    if (level !== undefined) return `${'#'.repeat(level)}??`;
    const names = (all: Sections['include']): string =>
      all.map(({ name, isOptional }) => template(name) + (isOptional ? '?' : '')).join(', ');
    return names(include) + (exclude.length === 0 ? '' : `; !# ${names(exclude)}`);
  }

  function code(e: NodeOf<'command' | 'code'>): string {
    const folder = e.folder === undefined ? '' : `:${template(e.folder)}`;
    const using = e.using === undefined ? '' : ` using ${value(e.using.value)} as ${e.using.name}`;
    const head = `${e.names.length === 0 ? '' : ` (${list(e.names)})`}${folder}`;
    if (e.kind === 'command') return `cmd${head} {${e.raw}}${using}`;
    return `${e.language}${head} {${e.body}}${using}`;
  }

  /** Prints the text after `run`. */
  function run(e: Expression): string {
    if (e.kind === 'with' && e.value.kind === 'pipeline') return value(e);
    return e.kind === 'with' ? `${operand(e.value)} ${options(e.options)}` : value(e);
  }

  const stages = (all: readonly PipelineStage[], leads: boolean): string =>
    all.map((s, index) => (leads && index === 0 ? '' : '| ') + stage(s)).join(' ');

  function stage(s: PipelineStage): string {
    switch (s.kind) {
      case 'call-stage':
        return (s.isStream ? 'stream ' : '') + value(s.target);
      case 'code-stage':
        return (s.isStream ? 'stream ' : '') + code(s.code);
      case 'effect-stage':
        return action(s.effect);
      case 'while-stage':
        return `while(${limits(s.limit, s.pauseMs)}) ${value(s.target)}`;
      case 'group-stage': {
        const cap = s.cap === undefined ? '' : ` (${limits(s.cap, s.pauseMs)})`;
        return s.members.map((member) => `|| ${stage(member)}`).join(' ') + cap;
      }
    }
  }

  function options({ entries, pipeline }: NodeOf<'options'>): string {
    const pairs = [...entries].map(([key, e]) => `${key}: ${value(e)}`);
    if (pipeline !== undefined) pairs.push(`pipeline: ${stageList(pipeline)}`);
    return `with { ${pairs.join(', ')} }`;
  }

  const stageList = (all: readonly PipelineStage[]): string =>
    `[${all.map((s) => (s.kind === 'group-stage' ? stageList(s.members) : stage(s))).join(', ')}]`;

  const tail = (e: NodeOf<'options'> | undefined): string =>
    e === undefined ? '' : ` ${options(e)}`;

  return { value, operand, condition, run, template, options, tail, block };
}

/** Prints labels before a value: `label`, `!label`, `clear!`; `trusted!` is short for `!untrusted,trusted`. */
export function edit(labels: LabelEdit | undefined): string[] {
  if (labels === undefined) return [];
  const { add, remove, clear } = labels;
  const changes = [...(clear ? ['clear!'] : []), ...remove.map((label) => `!${label}`), ...add];
  return changes.length === 0 ? [] : [changes.join(',')];
}

function isPrimary(e: Expression): boolean {
  switch (e.kind) {
    case 'literal':
    case 'template':
    case 'array':
    case 'object':
    case 'reference':
    case 'block':
      return true;
    case 'file':
      return e.as === undefined;
    case 'command':
    case 'code':
      return e.using === undefined;
    default:
      return false;
  }
}

const printer = createValuePrinter(printAction);

export function printScript({ mode, frontMatter, body }: ScriptTree): string {
  const slash = mode === 'markdown' ? '/' : '';
  const head =
    frontMatter === undefined ? '' : `---\n${frontMatter === '' ? '' : `${frontMatter}\n`}---\n`;
  let text = head;
  for (const [index, line] of body.entries()) {
    // A comment separated these texts, so they must stay separate.
    if (line.kind === 'text' && body[index - 1]?.kind === 'text') text += '>>\n';
    text += line.kind === 'text' ? line.text : top(line, slash);
  }
  return text;
}

function top(statement: Statement, slash: string): string {
  if (statement.kind !== 'fence') return `${slash}${printStatement(statement)}\n`;
  return `\`\`\`mlld-run\n${statement.body.map((line) => top(line, '')).join('')}\`\`\`\n`;
}

/** Prints an arm, a line of a block, or the part after `=>`. */
export function printAction(action: ActionExpression): string {
  return isStatement(action) ? printStatement(action) : printer.value(action);
}

const STATEMENTS = new Set<string>(
  `var exe helpers effect run call flow import export guard hook policy profiles needs return bail let
   augment leave fence`.split(/\s+/),
);
const isStatement = (action: ActionExpression): action is Statement => STATEMENTS.has(action.kind);

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
      const quote = s.prefix?.includes('"') ? (s.prefix.includes("'") ? '`' : "'") : '"';
      const prefix = s.prefix === undefined ? '' : `(${quote}${s.prefix}${quote})`;
      return `${words('hook', name, s.timing, s.filter)}${prefix} = ${block(s.body)}`;
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

function exe({ labels, name, parameters: all, body, options }: NodeOf<'exe'>): string {
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

function effect({ effect: word, value: shown, target, format }: NodeOf<'effect'>): string {
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

function importing({ form, source, mode, options }: NodeOf<'import'>): string {
  const tools = source.kind === 'connector' ? 'tools' : '';
  const from =
    source.kind === 'path'
      ? template(source.path)
      : source.kind === 'connector'
        ? `mcp ${template(source.name)}`
        : `@${source.kind}`;
  const head = words('import', mode, tools);
  switch (form.kind) {
    case 'names': {
      const names = form.names.map(({ name, alias }) =>
        name === alias ? name : `${name} as @${alias}`,
      );
      return `${head} { ${names.join(', ')} } from ${from}${tail(options)}`;
    }
    case 'namespace':
      return `${head} ${tools === '' ? '' : 'from '}${from}${form.alias === undefined ? '' : ` as @${form.alias}`}${tail(options)}`;
    case 'templates':
      return `${head} templates from ${from} as @${form.alias}${parameters(form.parameters)}${tail(options)}`;
    case 'policy':
      return `${head} policy @${form.alias} from ${from}${tail(options)}`;
  }
}
