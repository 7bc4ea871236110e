// `node` and `py` blocks: processes of their own. The values go in as one JSON text on stdin, which
// the runner takes away before the block starts; what a node block returns comes back at the end of
// stdout, behind a mark nobody else can know.
import {
  type Failure,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import { type Frame, markFailure } from '../../flow/index.ts';
import { identifier, readJsBody } from '../js/block-body.ts';
import {
  createArguments,
  createDecoder,
  createEncoder,
  createTextual,
  dataText,
  give,
  type Part,
  readData,
} from '../js/data.ts';
import type { CodeRequest, CodeResult, JsArgument, ProcessResult } from '../world.ts';
import { networkHint, type Processes } from './process.ts';

/** Runs in the child: text in, text out, nothing of ours is there. */
const nodeRunner = (): string => `
const fs = require('node:fs'), path = require('node:path');
const job = JSON.parse(fs.readFileSync(0, 'utf8'));
const encode = (${createEncoder.toString()})(), decode = (${createDecoder.toString()})(), textual = (${createTextual.toString()})();
const argumentsOf = (${createArguments.toString()})({ decode, textual });
const from = process.cwd();
const require_ = require('node:module').createRequire(path.join(from, 'block.js'));
const { Readable } = require('node:stream');
Object.defineProperty(process, 'stdin', { value: Readable.from(job.stdin === null ? [] : [job.stdin]), configurable: true });
const frozen = (value) => { if (typeof value !== 'object' || value === null) return value; for (const part of Object.values(value)) frozen(part); return Object.freeze(value) };
const mx = frozen(decode(job.mx)), named = { require: require_, mx, ctx: mx };
for (const { name, names, code, free } of job.helpers) {
  const run = code === null ? () => { throw new Error('\`' + name + '\` cannot be called from a node block; only js and node functions can') } : new Function(...names, ...free, code);
  named[name] = (...args) => run(...names.map((_, at) => args[at]), ...free.map((word) => named[word]));
}
const leave = (text) => fs.writeSync(1, job.mark + text + '\\n');
const failed = (error) => leave('e' + JSON.stringify({ name: String(error?.name ?? ''), message: String(error?.message ?? error) }));
(async () => {
  try {
    const run = new Function(...job.names, ...job.free, job.code);
    leave(encode(await run.apply(undefined, argumentsOf(job.shape, job.parts, job.free, named))));
  } catch (error) { failed(error) }
})();
`;

const PYTHON_RUNNER = `
import io, json, sys, textwrap
job = json.load(sys.stdin)
sys.stdin = io.StringIO(job["stdin"] or "")
def odd(value):
    if isinstance(value, str) and value[:1] == "~":
        return float(value[1:]) if value in ("~NaN", "~Infinity", "~-Infinity") else value[1:]
    if isinstance(value, list): return [odd(item) for item in value]
    return {key: odd(item) for key, item in value.items()} if isinstance(value, dict) else value
def decode(text):
    if text[0] == "u": return None
    data = json.loads(text[1:])
    return odd(data) if text[0] == "o" else data
scope = {"__name__": "__main__"}
mx = decode(job["mx"])
scope["mx"], scope["ctx"] = mx, mx
for name, value in job["values"]: scope[name] = decode(value)
sys.path.insert(0, "")
exec(compile(textwrap.dedent(job["source"]).strip("\\n"), "<py block>", "exec"), scope)
`;

/** Without a source it is no js, and cannot be called. */
function nodeUnit(
  source: string | undefined,
  parameters: readonly string[],
  known: readonly string[],
): Outcome<{ names: string[]; free: string[]; code: string | null }> {
  if (source === undefined) return ok({ names: [], free: [], code: null });
  const names = parameters.map(identifier);
  const free = [...new Set(known)].filter((name) => source.includes(name) && !names.includes(name));
  const body = readJsBody(source, [...names, ...free], true);
  return body.ok ? ok({ names, free, code: body.output }) : body;
}

/** A non-zero exit or a signal, as a fault that shows stderr. */
function failure(
  { kind, source }: CodeRequest,
  { code, signal, stderr, descriptor }: ProcessResult,
): Failure | undefined {
  if (code === 0 && signal === undefined) return undefined;
  const how = signal === undefined ? `ended with exit code ${code}` : `was ended by ${signal}`;
  const message = stderr.trimEnd().split('\n').at(-1) || `the ${kind} block ${how}`;
  const detail = { exit_code: code, stderr, ...networkHint(source, stderr) };
  return markFailure(fail('tool_failed', message, detail), descriptor);
}

export function createCode(processes: Processes, random: () => string) {
  function start(
    request: CodeRequest,
    frame: Frame,
    job: JsonObject,
    [command = '', ...args]: string[],
  ) {
    const given = { ...job, mx: dataText(request.mx), stdin: request.stdin ?? null };
    return processes.start({
      config: { command, args },
      request: { ...request, stdin: JSON.stringify(given) },
      operation: `run:${request.kind}`,
      frame,
    });
  }

  async function node(request: CodeRequest, frame: Frame): Promise<Outcome<CodeResult>> {
    const helpers = request.helpers.map(({ name }) => name);
    const known = [...helpers, 'require', 'mx', 'ctx'];
    const names = request.parameters.map(({ name }) => name);
    const main = nodeUnit(request.source, names, known);
    if (!main.ok) return main;
    const units: Json[] = [];
    for (const { name, source, parameters } of request.helpers) {
      const unit = nodeUnit(source, parameters, known);
      if (!unit.ok) return unit;
      units.push({ name, ...unit.output });
    }
    const mark = `${random()}:`;
    const parts: Part[] = [];
    const shape = request.parameters.map(({ value }) => give(value, parts)).join('');
    const job = { ...main.output, mark, shape, parts, helpers: units };
    const { onOutput } = request;
    const told = { ...request, onOutput: onOutput && withoutMarked(mark, onOutput) };
    const ended = await start(told, frame, job, [process.execPath, '-e', nodeRunner()]);
    if (!ended.ok) return ended;
    return failure(request, ended.output) ?? nodeResult(request, ended.output, mark);
  }

  async function python(request: CodeRequest, frame: Frame): Promise<Outcome<CodeResult>> {
    const values = request.parameters.map(({ name, value }) => [
      identifier(name),
      value.kind === 'undefined' ? 'u' : dataText(handedOver(value)),
    ]);
    const job = { source: request.source, values };
    // Into a pipe Python prints in blocks, unless it is told not to.
    const flags = request.onOutput ? ['-u', '-c'] : ['-c'];
    const ended = await start(request, frame, job, ['python3', ...flags, PYTHON_RUNNER]);
    if (!ended.ok) return ended;
    const { stdout, stderr, descriptor } = ended.output;
    return failure(request, ended.output) ?? ok({ value: undefined, stdout, stderr, descriptor });
  }

  return (request: CodeRequest, frame: Frame): Promise<Outcome<CodeResult>> =>
    request.kind === 'node' ? node(request, frame) : python(request, frame);
}

/** `.keep`: all of it. */
function handedOver(value: Exclude<JsArgument, { kind: 'undefined' }>): Json {
  if (value.kind !== 'kept') return value.data;
  const { text, data, type, mx } = value;
  return { text, data, type, mx };
}

/** Hands on what is printed, as it comes, without the line that begins with the mark. */
function withoutMarked(mark: string, onOutput: (text: string) => void): (text: string) => void {
  let held = '';
  return (text) => {
    held += text;
    const at = held.indexOf(mark);
    const line = at < 0 ? -1 : held.indexOf('\n', at);
    if (line >= 0) held = held.slice(0, at) + held.slice(line + 1);
    // What may be the beginning of the mark waits for the rest of it.
    const end = line < 0 && at >= 0 ? at : held.length - sharedEnd(held, mark);
    onOutput(held.slice(0, end));
    held = held.slice(end);
  };
}

/** How many characters at the end of a text are the first ones of another. */
function sharedEnd(text: string, other: string): number {
  for (let size = Math.min(other.length - 1, text.length); size > 0; size -= 1) {
    if (text.endsWith(other.slice(0, size))) return size;
  }
  return 0;
}

/** Everything before the mark was printed; what follows is what the block returned or threw. */
function nodeResult(
  { source }: CodeRequest,
  { stdout, stderr, descriptor }: ProcessResult,
  mark: string,
): Outcome<CodeResult> {
  const at = stdout.lastIndexOf(mark);
  if (at < 0) return ok({ value: undefined, stdout, stderr, descriptor });
  // The result is one line of JSON; timers may have printed after it.
  const line = stdout.indexOf('\n', at);
  const text = stdout.slice(at + mark.length, line < 0 ? undefined : line);
  const printed = stdout.slice(0, at) + (line < 0 ? '' : stdout.slice(line + 1));
  if (text[0] === 'e') {
    const { message, name } = JSON.parse(text.slice(1)) as { message: string; name: string };
    const line = message.split('\n', 1)[0] || 'an error without a message';
    const detail = { ...(name ? { error: name } : {}), stderr, ...networkHint(source, line) };
    const failed = fail('tool_failed', line, detail);
    return markFailure(failed, descriptor);
  }
  return ok({ value: readData(text), stdout: printed, stderr, descriptor });
}
