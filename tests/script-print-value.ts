// Expressions as they are written. Parentheses leave no trace in the tree, so they are set wherever
// leaving them out could change how a value is read.
import type {
  Action,
  ArrayExpression,
  BinaryOperator,
  Block,
  CodeExpression,
  CommandExpression,
  Condition,
  Expression,
  FileExpression,
  ForExpression,
  LabelEdit,
  Options,
  Sections,
  Stage,
  Step,
  TemplateExpression,
  WhenExpression,
} from '../src/script/ast.ts';
import { OPERATOR_LEVEL } from '../src/script/parse-value.ts';
import { printKey, printLines, printSingle, printTemplate } from './script-print-text.ts';

/** Statements are printed by whoever knows them all. */
export type PrintAction = (action: Action) => string;

export function createValuePrinter(action: PrintAction) {
  const lines = (items: readonly string[]): string =>
    items.length === 0 ? '[ ]' : `[\n${items.join('\n')}\n]`;
  const block = ({ body }: Block): string => lines(body.map(action));

  /** Never carried on by what follows it. */
  const operand = (e: Expression): string => (isPrimary(e) ? value(e) : `(${value(e)})`);
  /** Before `=>`, `[` or a pipe. */
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

  /** Alone in brackets, some values would be the line of a block; a comma says they are not. */
  function array({ items }: ArrayExpression): string {
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
        return `foreach ${value(e.call)}${tail(e.options)}`;
      case 'loop': {
        const head = e.limit === undefined ? 'loop' : `loop(${limits(e.limit, e.pauseMs)})`;
        return `${head}${e.until === undefined ? '' : ` until ${bounded(e.until)}`} ${block(e.body)}`;
      }
      default:
        return '';
    }
  }

  function when({ subject, isSimple, items }: WhenExpression): string {
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
      case 'any':
        return '*';
      default:
        return c.kind;
    }
  }

  function forLoop({ parallel, bind, collection, filter, body, batch }: ForExpression): string {
    const { key, name, path } = bind;
    const cap = parallel?.cap === undefined ? '' : `(${limits(parallel.cap, parallel.pauseMs)})`;
    const bound = `${key === undefined ? '' : `@${key}, `}@${[name, ...path].join('.')}`;
    const head = `for ${parallel === undefined ? '' : `parallel${cap} `}${bound} in ${condition(collection)}`;
    const filtered = filter === undefined ? head : `${head} when ${bounded(filter)}`;
    if (body.kind === 'block') return `${filtered} ${block(body)}`;
    const open = body.kind === 'for' || body.kind === 'when' || body.kind === 'run-value';
    const acted = batch !== undefined && open ? `(${value(body)})` : action(body);
    return `${filtered} => ${acted}${batch === undefined ? '' : ` => ${stages(batch, false)}`}`;
  }

  const limits = (cap: Expression, pauseMs: number): string =>
    value(cap) + (pauseMs === 0 ? '' : `, ${pauseMs}ms`);

  function side(e: Expression, operator: BinaryOperator, tighter: 0 | 1): string {
    if (e.kind === 'unary') return value(e);
    if (e.kind !== 'binary') return operand(e);
    const isTight = OPERATOR_LEVEL[e.operator] >= OPERATOR_LEVEL[operator] + tighter;
    return isTight ? value(e) : `(${value(e)})`;
  }

  const entry = (e: Extract<Expression, { kind: 'object' }>['entries'][number]): string =>
    e.kind === 'spread'
      ? `...${value(e.value)}`
      : `${printKey(e.key)}${e.isOptional ? '?' : ''}: ${value(e.value)}`;

  const steps = (all: readonly Step[]): string => all.map(step).join('');

  function step(s: Step): string {
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

  function template(e: TemplateExpression): string {
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
  }: FileExpression): string {
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

  function code(e: CommandExpression | CodeExpression): string {
    const folder = e.folder === undefined ? '' : `:${template(e.folder)}`;
    const using = e.using === undefined ? '' : ` using ${value(e.using.value)} as ${e.using.name}`;
    if (e.kind === 'command') return `cmd${folder} {${e.raw}}${using}`;
    const names = e.names.length === 0 ? '' : ` (${list(e.names)})`;
    return `${e.language}${folder}${names} {${e.body}}${using}`;
  }

  /** What stands behind `run`. */
  function run(e: Expression): string {
    if (e.kind === 'with' && e.value.kind === 'pipeline') return value(e);
    return e.kind === 'with' ? `${operand(e.value)} ${options(e.options)}` : value(e);
  }

  const stages = (all: readonly Stage[], leads: boolean): string =>
    all.map((s, index) => (leads && index === 0 ? '' : '| ') + stage(s)).join(' ');

  function stage(s: Stage): string {
    switch (s.kind) {
      case 'call-stage':
        return value(s.target);
      case 'code-stage':
        return code(s.code);
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

  function options({ entries, pipeline }: Options): string {
    const pairs = [...entries].map(([key, e]) => `${key}: ${value(e)}`);
    if (pipeline !== undefined) pairs.push(`pipeline: ${stageList(pipeline)}`);
    return `with { ${pairs.join(', ')} }`;
  }

  const stageList = (all: readonly Stage[]): string =>
    `[${all.map((s) => (s.kind === 'group-stage' ? stageList(s.members) : stage(s))).join(', ')}]`;

  const tail = (e: Options | undefined): string => (e === undefined ? '' : ` ${options(e)}`);

  return { value, operand, condition, run, template, options, tail, block };
}

/** Before a value: `label`, `!label`, `trusted!`, `clear!`. */
export function edit(labels: LabelEdit | undefined): string[] {
  if (labels === undefined) return [];
  if (labels.clear) return ['clear!'];
  if (labels.add.length === 0) return labels.remove.map((label) => `!${label}`);
  return [labels.remove.length > 0 ? `${labels.add.join(',')}!` : labels.add.join(',')];
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
