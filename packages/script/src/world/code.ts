// Runs `node` and `py` blocks, each in a process of its own. The values are one JSON text on stdin, which
// the runner reads before the block starts. The result of the block follows at the end of stdout, after a
// random mark that the block cannot guess.
import {
  type Failure,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import { type Frame, markFailure } from '@kernmantle/core/flow';
import { identifier, readJsBody } from '../js/block-body.ts';
import {
  addArgument,
  createArguments,
  createDecoder,
  createEncoder,
  createTextual,
  dataText,
  type Primitive,
  readData,
} from '../js/data.ts';
import type { CodeRequest, CodeResult, JsArgument, ProcessResult } from '../world.ts';
import { networkHint, type Processes } from './process.ts';

/** Source of the node runner in the child process. It contains no object of this process. */
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
for (const { name, names, code, free, shape, parts } of job.helpers) {
  const run = code === null ? () => { throw new Error('\`' + name + '\` cannot be called from a node block; only js and node functions can') } : new Function(...names, ...free, code);
  const own = names.slice(0, names.length - shape.length);
  named[name] = (...args) => run(...own.map((_, at) => args[at]), ...Array.from(argumentsOf(shape, parts, free, named)));
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
def plain(value, above=()):
    if isinstance(value, str): return "~" + value if value[:1] == "~" else str(value)
    if value is None or isinstance(value, bool): return value
    if isinstance(value, int): return int(value) if abs(value) < 2 ** 53 else str(int(value))
    if isinstance(value, float):
        number = float(value)
        if number != number: return "~NaN"
        return number if abs(number) != float("inf") else "~Infinity" if number > 0 else "~-Infinity"
    if any(one is value for one in above): raise ValueError("a py block cannot return data that contains itself")
    here = (*above, value)
    if isinstance(value, dict): return {key_of(key): plain(item, here) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)): return [plain(item, here) for item in value]
    if hasattr(value, "isoformat"): return str(value.isoformat())
    if hasattr(value, "tolist"): return plain(value.tolist(), here)
    raise TypeError("a py block cannot return a " + type(value).__name__ + "; return data")
def key_of(key):
    if isinstance(key, str): return str(key)
    if key is None or isinstance(key, (bool, int, float)): return json.dumps(key)
    raise TypeError("a key of returned data must be a text, not a " + type(key).__name__)
def parse(source, file):
    text = textwrap.dedent(source).strip("\\n")
    try: return compile(text, file, "exec", 1024), text
    except IndentationError:
        first, line, rest = source.lstrip(" \\t").partition("\\n")
        if not first.strip(): raise
        text = (first + line + textwrap.dedent(rest)).strip("\\n")
        return compile(text, file, "exec", 1024), text
def returns(nodes):
    import ast
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return): return True
        if not isinstance(node, inner): waiting.extend(ast.iter_child_nodes(node))
    return False
def within(head, tree, file, globals):
    import ast
    outer = ast.parse(head)
    inner = outer
    while isinstance(inner.body[0], ast.FunctionDef): inner = inner.body[0]
    inner.body[0:1] = tree.body or [ast.Pass()]
    code, names = compile(ast.fix_missing_locations(outer), file, "exec"), {}
    exec(code, globals, names)
    return names
def shared(tree):
    import ast
    class Bare(ast.NodeTransformer):
        def visit_Global(self, node): return ast.copy_location(ast.Pass(), node)
        def visit_AnnAssign(self, node):
            if not isinstance(node.target, ast.Name): return node
            bare = ast.Assign(targets=[node.target], value=node.value) if node.value else ast.Pass()
            return ast.copy_location(bare, node)
        def visit_FunctionDef(self, node): return node
        visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef
    return Bare().visit(tree)
def block(tree):
    # The block is compiled as a function, because it may return. Its names belong to the file.
    import ast
    head, file = "def block():\\n pass", "<py block>"
    whole = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.names[0].name == "*"]
    for one in whole: exec(compile(ast.Module(body=[one], type_ignores=[]), file, "exec"), scope)
    tree.body = [one for one in tree.body if one not in whole]
    tree = shared(tree)
    code = within(head, tree, file, {})["block"].__code__
    names = sorted({*code.co_varnames, *code.co_cellvars})
    if names: tree.body.insert(0, ast.Global(names=names))
    return within(head, tree, file, scope)["block"]
scope, shelf = {"__name__": "__main__"}, {"__name__": "helpers"}
mx = decode(job["mx"])
for space in (scope, shelf): space["mx"], space["ctx"] = mx, mx
sys.path.insert(0, "")
for name, names, values, source in job["helpers"]:
    taken = ", ".join([*(one + "=None" for one in names), "*_others"])
    head = "def make(%s):\\n def %s(%s):\\n  pass\\n return %s" % (", ".join(one for one, _ in values), name, taken, name)
    file = "<py helper " + name + ">"
    make = within(head, parse(source, file)[0], file, shelf)["make"]
    scope[name] = shelf[name] = make(*(decode(text) for _, text in values))
for name, value in job["values"]: scope[name] = decode(value)
tree, text = parse(job["source"], "<py block>")
if "return" in text and returns(tree.body):
    value = block(tree)()
    if value is not None:
        answer = "o" + json.dumps(plain(value), allow_nan=False)
        sys.stdout.flush()
        sys.__stdout__.flush()
        sys.__stdout__.buffer.write((job["mark"] + answer + "\\n").encode())
        sys.__stdout__.flush()
else: exec(compile(tree, "<py block>", "exec"), scope)
`;

const PYTHON_WORDS = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for ' +
    'from global if import in is lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
);

/** Returns a Python name for a script name, which may contain `-` or be a Python keyword. */
function pythonName(name: string): string {
  const plain = name.replace(/[^\p{ID_Continue}]/gu, '_').replace(/^(?=\d)/, '_');
  return PYTHON_WORDS.has(plain) ? `${plain}_` : plain;
}

const pythonValues = (values: CodeRequest['parameters']): [string, string][] =>
  values.map(({ name, value }) => [
    pythonName(name),
    value.kind === 'undefined' ? 'u' : dataText(jsonOf(value)),
  ]);

/** Compiles a helper. A helper without a source is not js and cannot be called. */
function nodeUnit(
  source: string | undefined,
  parameters: readonly string[],
  knownNames: readonly string[],
): Outcome<{ names: string[]; free: string[]; code: string | null }> {
  if (source === undefined) return ok({ names: [], free: [], code: null });
  const names = parameters.map(identifier);
  const isFree = (name: string): boolean =>
    source.includes(name) && !names.includes(name) && identifier(name) === name;
  const free = [...new Set(knownNames)].filter(isFree);
  const body = readJsBody(source, [...names, ...free], true);
  return body.ok ? ok({ names, free, code: body.output }) : body;
}

/** Returns the fault of a non-zero exit or a signal, with stderr; `undefined` after success. */
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
    const input = { ...job, mx: dataText(request.mx), stdin: request.stdin ?? null };
    return processes.start({
      config: { command, args },
      request: { ...request, stdin: JSON.stringify(input) },
      operation: `run:${request.kind}`,
      frame,
    });
  }

  async function node(request: CodeRequest, frame: Frame): Promise<Outcome<CodeResult>> {
    const helpers = request.helpers.map(({ name }) => name);
    const knownNames = [...helpers, 'require', 'mx', 'ctx'];
    const names = request.parameters.map(({ name }) => name);
    const main = nodeUnit(request.source, names, knownNames);
    if (!main.ok) return main;
    const units: Json[] = [];
    for (const { name, source, parameters, captured = [] } of request.helpers) {
      const unit = nodeUnit(
        source,
        [...parameters, ...captured.map((one) => one.name)],
        knownNames,
      );
      if (!unit.ok) return unit;
      const own: Primitive[] = [];
      const shape = captured.map(({ value }) => addArgument(value, own)).join('');
      units.push({ name, ...unit.output, shape, parts: own });
    }
    const mark = `${random()}:`;
    const parts: Primitive[] = [];
    const shape = request.parameters.map(({ value }) => addArgument(value, parts)).join('');
    const job = { ...main.output, mark, shape, parts, helpers: units };
    const { onOutput } = request;
    const quietRequest = { ...request, onOutput: onOutput && withoutMarked(mark, onOutput) };
    const ended = await start(quietRequest, frame, job, [process.execPath, '-e', nodeRunner()]);
    if (!ended.ok) return ended;
    return failure(request, ended.output) ?? markedResult(request, ended.output, mark);
  }

  async function python(request: CodeRequest, frame: Frame): Promise<Outcome<CodeResult>> {
    const { source, parameters, onOutput } = request;
    const helpers = request.helpers.map((one): Json[] => [
      pythonName(one.name),
      one.parameters.map(pythonName),
      pythonValues(one.captured ?? []),
      one.source ?? '',
    ]);
    const mark = `${random()}:`;
    const job = { source, values: pythonValues(parameters), helpers, mark };
    // Python buffers its output to a pipe unless it gets the flag `-u`.
    const flags = onOutput ? ['-u', '-c'] : ['-c'];
    const quiet = { ...request, onOutput: onOutput && withoutMarked(mark, onOutput) };
    const ended = await start(quiet, frame, job, ['python3', ...flags, PYTHON_RUNNER]);
    if (!ended.ok) return ended;
    return failure(request, ended.output) ?? markedResult(request, ended.output, mark);
  }

  return (request: CodeRequest, frame: Frame): Promise<Outcome<CodeResult>> =>
    request.kind === 'node' ? node(request, frame) : python(request, frame);
}

/** Returns the JSON of a value. A value with `.keep` has its metadata. */
function jsonOf(value: Exclude<JsArgument, { kind: 'undefined' }>): Json {
  if (value.kind !== 'kept') return value.data;
  const { text, data, type, mx } = value;
  return { text, data, type, mx };
}

/** Passes on printed text, except for the line that begins with the mark. */
function withoutMarked(mark: string, onOutput: (text: string) => void): (text: string) => void {
  let buffer = '';
  return (text) => {
    buffer += text;
    const at = buffer.indexOf(mark);
    const line = at < 0 ? -1 : buffer.indexOf('\n', at);
    if (line >= 0) buffer = buffer.slice(0, at) + buffer.slice(line + 1);
    // Text that may be the start of the mark is delivered later, when more text has arrived.
    const end = line < 0 && at >= 0 ? at : buffer.length - sharedEnd(buffer, mark);
    onOutput(buffer.slice(0, end));
    buffer = buffer.slice(end);
  };
}

/** Returns the number of characters at the end of a text that begin the other text. */
function sharedEnd(text: string, other: string): number {
  for (let size = Math.min(other.length - 1, text.length); size > 0; size -= 1) {
    if (text.endsWith(other.slice(0, size))) return size;
  }
  return 0;
}

/** Reads the output of a block: printed text before the mark, the result or the error after it. */
function markedResult(
  { source }: CodeRequest,
  { stdout, stderr, descriptor }: ProcessResult,
  mark: string,
): Outcome<CodeResult> {
  const at = stdout.lastIndexOf(mark);
  if (at < 0) return ok({ value: undefined, stdout, stderr, descriptor });
  // The result is one line of JSON, and timers may have printed after it.
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
