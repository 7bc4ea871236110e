// `eval`: try an expression or a template form by hand, or thousands of them from a file.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  messageOf,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import {
  type ContextSchema,
  compileExpression,
  expandEnv,
  fillBody,
  fillTemplate,
  unknownPaths,
} from '../../expr/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { EXIT } from '../terminal/exit-code.ts';
import { visible } from '../terminal/terminal.ts';
import { readInput } from './exec.ts';

/** JSON given on the command line, or the name of a file that holds it. */
function readJson(given: string | undefined, what: string): Outcome<Json> {
  if (given === undefined) return ok({});
  if (/^\s*[[{]/.test(given)) return parseJson(given);
  const text = readInput(given);
  if (!text.ok) return fail('not_found', `${what} ${text.error.detail.message}`);
  const parsed = parseJson(text.output);
  return parsed.ok
    ? parsed
    : fail('invalid_input', `${what} \`${given}\`: ${parsed.error.detail.message}`);
}

function evaluate(source: string, context: Json, schema?: ContextSchema): Outcome<Json> {
  const compiled = compileExpression(source);
  if (!compiled.ok) return compiled;
  const [unknown] = schema ? unknownPaths(compiled.output, schema) : [];
  if (unknown) {
    const hint = unknown.suggestion ? `; did you mean \`${unknown.suggestion}\`` : '';
    return fail(
      'expression_error',
      `column ${unknown.column}: unknown path \`${unknown.path}\`${hint}`,
      {
        kind: 'syntax',
        column: unknown.column,
      },
    );
  }
  return compiled.output.test(context);
}

/** Names used as `{name}` count as required unless the case lists them as optional. */
function body(given: Json, context: JsonObject, optional: readonly string[]): Outcome<Json> {
  const names = new Set<string>();
  for (const [, name = ''] of JSON.stringify(given).matchAll(
    /\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}/g,
  )) {
    if (!optional.includes(name)) names.add(name);
  }
  return fillBody(given, context, names);
}

function environment(given: Json, context: JsonObject): Outcome<Json> {
  const names = new Set(Object.keys(context));
  for (const [, name = ''] of JSON.stringify(given).matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)/g))
    names.add(name);
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(context)) {
    if (value !== null) env[name] = typeof value === 'string' ? value : JSON.stringify(value);
  }
  const expanded = expandEnv(given, env, names);
  return expanded.ok ? ok(expanded.output.value) : expanded;
}

/** One line of a cases file: exactly one of the four forms, and its context. */
function evaluateCase(line: string): Outcome<Json> {
  const parsed = parseJson(line);
  if (!parsed.ok) return parsed;
  const given = parsed.output;
  if (!isObject(given)) return fail('invalid_input', 'a case must be an object');
  const context = getOwn(given, 'context') ?? {};
  const asContext = isObject(context) ? context : {};
  const optional = (getOwn(given, 'optional') as string[] | undefined) ?? [];
  const form = ['expr', 'template', 'body', 'env_template'].find((name) =>
    Object.hasOwn(given, name),
  );
  const text = form === undefined ? null : (given[form] ?? null);
  switch (form) {
    case 'expr':
      return typeof text === 'string'
        ? evaluate(text, context)
        : fail('invalid_input', '`expr` must be text');
    case 'template':
      return ok(fillTemplate(text, context));
    case 'body':
      return body(text, asContext, optional);
    case 'env_template':
      return environment(text, asContext);
    default:
      return fail('invalid_input', 'a case needs `expr`, `template`, `body` or `env_template`');
  }
}

const answer = (outcome: Outcome<Json>): string =>
  JSON.stringify(outcome.ok ? { ok: true, value: outcome.output } : outcome);

async function runFile(file: string, out: (line: string) => void): Promise<Outcome<null>> {
  try {
    const lines = createInterface({
      input: createReadStream(file),
      crlfDelay: Number.POSITIVE_INFINITY,
    });
    for await (const line of lines) if (line.trim() !== '') out(answer(evaluateCase(line)));
    return ok(null);
  } catch (error) {
    return fail('not_found', `cases \`${file}\` cannot be read: ${messageOf(error)}`);
  }
}

/** A body may be given as JSON or as plain text. */
const jsonOrText = (given: string): Json => {
  const parsed = parseJson(given);
  return parsed.ok ? parsed.output : given;
};

export const run: CommandRun = async ({ args, options, terminal }) => {
  const file = asText(options.file);
  if (file !== undefined) return terminal.finish(await runFile(file, terminal.out), () => {});
  const [expression] = args;
  const [template, bodyText, env] = [options.template, options.body, options.env].map(asText);
  const given = [asText(expression), template, bodyText, env].filter((form) => form !== undefined);
  if (given.length !== 1) {
    return terminal.finish(
      fail('usage', 'give one expression, or one of --template, --body, --env, --file'),
      () => {},
    );
  }
  const context = readJson(asText(options.ctx), 'context');
  const schema =
    options.schema === undefined ? undefined : readJson(asText(options.schema), 'schema');
  if (!context.ok) return terminal.finish(context, () => {});
  if (schema && !schema.ok) return terminal.finish(schema, () => {});
  const values = isObject(context.output) ? context.output : {};
  const result =
    template !== undefined
      ? ok(fillTemplate(template, context.output))
      : bodyText !== undefined
        ? body(jsonOrText(bodyText), values, [])
        : env !== undefined
          ? environment(jsonOrText(env), values)
          : evaluate(
              asText(expression) ?? '',
              context.output,
              schema?.output as ContextSchema | undefined,
            );
  if (terminal.json) {
    terminal.out(answer(result));
    return result.ok ? EXIT.done : terminal.exitCode(result.error);
  }
  if (!result.ok && expression !== undefined)
    showCaret(String(expression), result.error.detail, terminal.note);
  return terminal.finish(result, (value) =>
    terminal.out(typeof value === 'string' ? visible(value) : JSON.stringify(value)),
  );
};

/** The expression with a caret under the column of its error. */
function showCaret(source: string, detail: JsonObject, note: (line: string) => void): void {
  if (typeof detail.column !== 'number' || source.includes('\n')) return;
  note(`  ${visible(source)}\n  ${' '.repeat(detail.column - 1)}^ column ${detail.column}`);
}
