// Implements `eval`: evaluates an expression or a template by hand, or thousands of them from a
// file.
import { closeSync, constants, createReadStream, fstatSync, openSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import {
  EXIT,
  exitCodeOf,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  messageOf,
  type Outcome,
  ok,
  parseJson,
} from '@kernmantle/core/base';
import {
  type ContextSchema,
  compileExpression,
  expandEnv,
  fillBody,
  fillTemplate,
  unknownPaths,
} from '@kernmantle/core/expr';
import { asText, type CommandRun } from '../command.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { readInput } from './exec.ts';

function readJson(argument: string | undefined, what: string): Outcome<Json> {
  if (argument === undefined) return ok({});
  if (/^\s*[[{]/.test(argument)) return parseJson(argument);
  const text = readInput(argument);
  if (!text.ok) return fail('not_found', `${what} ${text.error.detail.message}`);
  const parsed = parseJson(text.output);
  return parsed.ok
    ? parsed
    : fail('invalid_input', `${what} \`${argument}\`: ${parsed.error.detail.message}`);
}

function evaluate(source: string, context: Json, schema?: ContextSchema): Outcome<Json> {
  const compiled = compileExpression(source);
  if (!compiled.ok) return compiled;
  const [unknown] = schema ? unknownPaths(compiled.output, schema) : [];
  if (unknown) {
    const { path, column, suggestion } = unknown;
    const hint = suggestion ? `; did you mean \`${suggestion}\`` : '';
    const message = `column ${column}: path \`${path}\` not found in the schema${hint}`;
    return fail('expression_error', message, { kind: 'syntax', column });
  }
  return compiled.output.value(context);
}

/** Evaluates a condition. The result also has its value if that is not a boolean. */
function testCase(source: string, context: Json): Outcome<JsonObject> {
  const value = evaluate(source, context);
  if (!value.ok) return value;
  const compiled = compileExpression(source);
  const holds = compiled.ok ? compiled.output.test(context) : compiled;
  if (!holds.ok) return holds;
  const result = typeof value.output === 'boolean' ? {} : { result: value.output };
  return ok({ value: holds.output, ...result });
}

/** Names used as `{name}` are required unless the case lists them as optional. */
function body(template: Json, context: JsonObject, optional: readonly string[]): Outcome<Json> {
  const used = JSON.stringify(template).matchAll(/\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}/g);
  const names = Array.from(used, ([, name = '']) => name).filter(
    (name) => !optional.includes(name),
  );
  return fillBody(template, context, new Set(names));
}

function environment(template: Json, context: JsonObject): Outcome<Json> {
  const names = new Set(Object.keys(context));
  for (const [, name = ''] of JSON.stringify(template).matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)/g))
    names.add(name);
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(context)) {
    if (value !== null) env[name] = typeof value === 'string' ? value : JSON.stringify(value);
  }
  const expanded = expandEnv(template, env, names);
  return expanded.ok ? ok(expanded.output.value) : expanded;
}

type EvalForm = (
  given: Json,
  context: Json,
  more: { schema?: ContextSchema | undefined; optional?: readonly string[] },
) => Outcome<Json>;

const FORMS: Readonly<Record<'expr' | 'template' | 'body' | 'env_template', EvalForm>> = {
  expr: (given, context, { schema }) =>
    typeof given === 'string'
      ? evaluate(given, context, schema)
      : fail('invalid_input', '`expr` must be text'),
  template: (given, context) => ok(fillTemplate(given, context)),
  body: (given, context, { optional = [] }) =>
    body(given, isObject(context) ? context : {}, optional),
  env_template: (given, context) => environment(given, isObject(context) ? context : {}),
};

/** Evaluates one line of a cases file: exactly one of the four forms, and its context. */
function evaluateCase(line: string): Outcome<JsonObject> {
  const parsed = parseJson(line);
  if (!parsed.ok) return parsed;
  const entry = parsed.output;
  if (!isObject(entry)) return fail('invalid_input', 'a case must be an object');
  const form = Object.keys(FORMS).find((name) => Object.hasOwn(entry, name));
  if (form === undefined) {
    return fail('invalid_input', 'a case needs `expr`, `template`, `body` or `env_template`');
  }
  const optional = (getOwn(entry, 'optional') as string[] | undefined) ?? [];
  const context = getOwn(entry, 'context') ?? {};
  const source = entry[form];
  if (form === 'expr' && typeof source === 'string') return testCase(source, context);
  const value = FORMS[form as keyof typeof FORMS](source ?? null, context, { optional });
  return value.ok ? ok({ value: value.output }) : value;
}

const answer = (outcome: Outcome<JsonObject>): string =>
  JSON.stringify(outcome.ok ? { ok: true, ...outcome.output } : outcome);

/** Opens a regular file, or stdin for `-`. A named pipe is refused, because it would block. */
function openCases(file: string): Readable | undefined {
  if (file === '-') return process.stdin;
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  if (fstatSync(descriptor).isFile()) return createReadStream(file, { fd: descriptor });
  closeSync(descriptor);
  return undefined;
}

async function runFile(file: string, { out, closed }: Terminal): Promise<Outcome<null>> {
  try {
    const input = openCases(file);
    if (!input) {
      const why = 'it is not a regular file; use `-` to read from a pipe';
      return fail('not_found', `cases \`${file}\` cannot be read: ${why}`);
    }
    const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
    for await (const line of lines) {
      if (closed.aborted) break;
      if (line.trim() !== '') out(answer(evaluateCase(line)));
    }
    return ok(null);
  } catch (error) {
    return fail('not_found', `cases \`${file}\` cannot be read: ${messageOf(error)}`);
  }
}

/** Reads a body as JSON, or as plain text if it is not JSON. */
const jsonOrText = (text: string): Json => {
  const parsed = parseJson(text);
  return parsed.ok ? parsed.output : text;
};

export const run: CommandRun = async ({ args, options, terminal }) => {
  const file = asText(options.file);
  if (file !== undefined) return terminal.finish(await runFile(file, terminal), () => {});
  const expression = asText(args[0]);
  const [template, bodyText, env] = [options.template, options.body, options.env].map(asText);
  const forms: [keyof typeof FORMS, Json | undefined][] = [
    ['expr', expression],
    ['template', template],
    ['body', bodyText && jsonOrText(bodyText)],
    ['env_template', env && jsonOrText(env)],
  ];
  const [chosen, second] = forms.filter(([, text]) => text !== undefined);
  if (!chosen || second) {
    const message = 'use one expression, or one of `--template`, `--body`, `--env` and `--file`';
    return fail('usage', message);
  }
  const context = readJson(asText(options.ctx), 'context');
  if (!context.ok) return context;
  const schema =
    options.schema === undefined ? ok(undefined) : readJson(asText(options.schema), 'schema');
  if (!schema.ok) return schema;
  const [form, source = null] = chosen;
  const contextSchema = schema.output as ContextSchema | undefined;
  const result = FORMS[form](source, context.output, { schema: contextSchema });
  if (terminal.json) {
    terminal.out(answer(result.ok ? ok({ value: result.output }) : result));
    return result.ok ? EXIT.done : exitCodeOf(result.error);
  }
  if (!result.ok && expression !== undefined) {
    showCaret(expression, result.error.detail, terminal.note);
  }
  return terminal.finish(result, (value) =>
    terminal.out(typeof value === 'string' ? visible(value) : JSON.stringify(value)),
  );
};

/** Prints the expression with a caret under the column of its error. */
function showCaret(source: string, detail: JsonObject, note: (line: string) => void): void {
  if (typeof detail.column !== 'number' || source.includes('\n')) return;
  note(`  ${visible(source)}\n  ${' '.repeat(detail.column - 1)}^ column ${detail.column}`);
}
