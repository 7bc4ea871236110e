// `value with { … }`: options for one statement or process.
import { childFrame, type GuardSelection, type Value } from '../../flow/index.ts';
import { raise } from '../fault.ts';
import type { Compiler, Environment, Eval, ProcessOptions } from '../run/environment.ts';
import type { Expression, Node } from '../syntax/ast.ts';
import { isTruthy } from '../values/kinds.ts';

const KNOWN = new Set([
  'stdin',
  'pipeline',
  'format',
  'parallel',
  'delay',
  'stream',
  'guards',
  'timeout',
  'separator',
  'template',
  'skipDirs',
  'description',
]);

function refuseUnknown({ entries }: Node<'options'>): void {
  for (const key of entries.keys()) {
    if (!KNOWN.has(key))
      raise('invalid_input', `\`with { ${key}: … }\` is no option`, {
        hint: [...KNOWN].join(', '),
      });
  }
}

/** Milliseconds: a number is seconds, `"250ms"`, `"5s"` and `"2m"` say it. */
function durationMs(value: Value): number {
  const { data } = value;
  if (typeof data === 'number' && data > 0) return data * 1000;
  const match = typeof data === 'string' ? /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(data.trim()) : null;
  if (!match)
    return raise('invalid_input', `\`${value.text}\` is no duration`, {
      hint: '"500ms", "10s", "2m"',
    });
  const unit = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[match[2] ?? 's'] ?? 1000;
  return Number(match[1]) * unit;
}

function names(value: unknown): string[] {
  const list = Array.isArray(value) ? value : [value];
  return list.map((name) => (String(name).startsWith('@') ? String(name) : `@${String(name)}`));
}

/** `false`, `{ only: […] }`, `{ except: […] }`. */
function selectionOf({ data }: Value): GuardSelection | undefined {
  if (data === false) return { only: [] };
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return undefined;
  if (data['only'] !== undefined) return { only: names(data['only']) };
  if (data['except'] !== undefined) return { except: names(data['except']) };
  return raise('invalid_input', '`guards` takes `false`, `{ only: […] }` or `{ except: […] }`');
}

function compileProcessOptions(
  c: Compiler,
  { entries }: Node<'options'>,
): ((env: Environment) => ReturnType<typeof readProcess>) | undefined {
  const of = (name: string): Eval | undefined => {
    const node = entries.get(name);
    return node && c.expression(node, 'value');
  };
  const [stdin, timeout, stream] = [of('stdin'), of('timeout'), of('stream')];
  return stdin || timeout || stream ? (env) => readProcess(env, stdin, timeout, stream) : undefined;
}

async function readProcess(
  env: Environment,
  stdin?: Eval,
  timeout?: Eval,
  stream?: Eval,
): Promise<ProcessOptions> {
  const input = await stdin?.(env);
  const limit = await timeout?.(env);
  const flag = await stream?.(env);
  return {
    stdin: input,
    timeoutMs: limit && durationMs(limit),
    isStream: flag !== undefined && isTruthy(flag),
  };
}

export function compileWith(c: Compiler, node: Node<'with'>): Eval {
  const { options } = node;
  refuseUnknown(options);
  const format = options.entries.get('format');
  const inner: Eval = options.pipeline
    ? c.stages(
        node.value,
        options.pipeline,
        format ? { format: c.expression(format, 'value') } : {},
      )
    : c.expression(node.value, 'value');
  const process = compileProcessOptions(c, options);
  const guards = options.entries.get('guards');
  const selected = guards ? withGuards(c, guards, inner) : inner;
  if (!process) return selected;
  return async (env) => await selected({ ...env, process: await process(env) });
}

/** INVARIANT: privileged guards and policies run all the same; leaving others out is said aloud. */
export function withGuards(c: Compiler, node: Expression, inner: Eval, isStatement = false): Eval {
  const evaluate = c.expression(node, 'value');
  return async (env) => {
    const selection = selectionOf(await evaluate(env));
    if (!selection) return await inner(env);
    if (isStatement) env.run.warn('guards are left out for this statement', env.unit, node.at);
    return await inner({ ...env, frame: childFrame(env.frame, { selection }) });
  };
}
