// Turns a tool's module into a command line: the interpreter of the runtime, the runner script, the
// module. The runner reads `{parameters, config}` as JSON on stdin and answers on descriptor 4, so that
// output of the module cannot pass for its result.
import { existsSync } from 'node:fs';
import { dirname, extname, join, resolve, sep } from 'node:path';
import {
  fail,
  getOwn,
  isInside,
  isOwnCode,
  type Json,
  type JsonObject,
  type Outcome,
  objectAt,
  ok,
  packagePath,
  parseJson,
  textAt,
} from '../../base/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { realOf } from '../rights/project-path.ts';
import { CHANNEL_FD } from '../sandbox/plan.ts';
import type { ProcessConfig, ScriptRuntime } from './config.ts';
import type { Ended } from './run.ts';

type ModuleProgram = Extract<ProcessConfig['program'], { kind: 'module' }>;

const EXTENSIONS: Readonly<Record<ScriptRuntime, readonly string[]>> = {
  node: ['.ts', '.mts', '.js', '.mjs', '.cjs', '.cts'],
  python: ['.py'],
};

/**
 * Returns the real path of `config.module`. The module must be in the folder of its tool: another file
 * of the project could be changed by anyone who may write there, and would run with the tool's rights.
 */
export function resolveModule(
  tool: PrimitiveCall['tool'],
  module: string,
  projectRoot: string,
): Outcome<string> {
  const refuse = (message: string) =>
    fail('config_invalid', `module \`${module}\` of tool \`${tool.id}\` ${message}`, {
      config_path: 'config.module',
    });
  if (/[\u0000-\u001f]/.test(module)) return refuse('contains a control character');
  const real = realOf(resolve(tool.dir, module));
  if (real === undefined) return refuse('not found; its path is relative to the tool file');
  // A module may be in its own folder and, for a project's tool, anywhere in `.ai/`.
  const shared = tool.source === 'project' ? [join(projectRoot, '.ai')] : [];
  const places = [tool.dir, ...shared].flatMap((folder) => realOf(folder) ?? []);
  if (!places.some((folder) => isInside(real, folder))) {
    return refuse('is outside of the folder of its tool');
  }
  return ok(real);
}

/** Returns the whole package of an installed module, so that its modules find one another. */
function packageOf(dir: string): string {
  for (let folder = dir; folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
  }
  return dir;
}

/**
 * Returns the interpreter of a runtime (a bare name is looked up on the path), its arguments, and the
 * folders that it must read.
 */
export function moduleCommand(
  tool: PrimitiveCall['tool'],
  program: ModuleProgram,
  projectRoot: string,
  { environment = '', isSink }: { environment: string | undefined; isSink: boolean },
): Outcome<{ interpreter: string; args: string[]; shown: string[] }> {
  const { runtime, module } = program;
  const file = resolveModule(tool, module, projectRoot);
  if (!file.ok) return file;
  const refuse = (message: string) =>
    fail('config_invalid', `module \`${module}\` ${message}`, { config_path: 'config.module' });
  const extension = EXTENSIONS[runtime];
  if (!extension.includes(extname(file.output))) {
    return refuse(`must end in ${extension.join(', ')} to run in \`runtime/${runtime}\``);
  }
  if (/\.[cm]?ts$/.test(file.output) && file.output.includes(`${sep}node_modules${sep}`)) {
    return refuse(
      'is TypeScript inside `node_modules`, which Node does not run; ship it as JavaScript',
    );
  }
  const mode = isSink ? 'sink' : 'call';
  const common = [file.output, program.function, mode, String(CHANNEL_FD), environment];
  const runners = packagePath('bundle/runtime');
  const readable = [tool.source === 'installed' ? packageOf(tool.dir) : tool.dir, runners];
  if (runtime === 'node') {
    const flags = ['--disable-warning=ExperimentalWarning', join(runners, 'node.mjs')];
    return ok({ interpreter: process.execPath, args: [...flags, ...common], shown: readable });
  }
  const interpreter = environment === '' ? 'python3' : join(environment, 'bin', 'python');
  return ok({
    interpreter,
    args: ['-u', '-B', join(runners, 'python.py'), ...common],
    shown: readable,
  });
}

/** Codes that count more than the answer: a timeout with an answer is a timeout. */
const OVERRULES = new Set(['timeout', 'cancelled', 'overrun', 'not_started']);

export function readOutcome(
  ended: Ended,
  facts: JsonObject,
  failure: Outcome<never> | undefined,
): Outcome<Json> {
  if (failure && (OVERRULES.has(ended.reason) || !ended.hasBegun || ended.channel.bytes === 0)) {
    return failure;
  }
  const bad = (why: string) => fail('tool_failed', `the module ${why}`, facts);
  if (ended.channel.truncated)
    return bad(`answered with ${ended.channel.bytes} bytes, more than the limit`);
  if (ended.channel.bytes === 0) return bad('ended without an answer');
  const parsed = parseJson(ended.channel.text);
  if (!parsed.ok) return bad('did not answer with JSON');
  const answer = parsed.output;
  if (getOwn(answer, 'ok') === true) return ok(getOwn(answer, 'output') ?? null);
  const error = getOwn(answer, 'error');
  const code = textAt(error, 'code');
  if (code === '') return bad('did not answer with an outcome');
  const { message, ...fields } = objectAt(error, 'detail');
  const text = typeof message === 'string' ? message : 'the module reported a failure';
  const { stdout = '', stderr = '', truncated = false } = facts;
  const isOwn = isOwnCode(code);
  return fail(isOwn ? 'tool_failed' : code, text, {
    stdout,
    stderr,
    truncated,
    ...(isOwn && { reported: code }),
    ...(Object.keys(fields).length > 0 && { reported_detail: fields }),
  });
}
