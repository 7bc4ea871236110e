// Implements `script`: runs a script in its project under the operator's policy for scripts. It
// prints effects when they happen, and problems with their location. `--worker` reads one job per
// line from stdin and writes one answer per line, until stdin ends. Each job runs as if it were a
// process of its own.
import { readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import {
  compact,
  EXIT,
  exitCodeOf,
  type Fault,
  fail,
  formatDiagnostic,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import type { ScriptEffect, WatchedEnd, WatchedScript } from '@kernmantle/script';
import { asList, asText, type CommandCall, type CommandRun } from '../command.ts';
import { openRuntime } from '../project.ts';
import { interruptible, type Terminal, visible } from '../terminal/terminal.ts';
import { personAt } from '../threads/ask-person.ts';
import { parseParameters } from './exec.ts';
import { printed } from './script-output.ts';
import { readScript } from './script-problems.ts';

interface ScriptJob extends Omit<WatchedScript, 'path' | 'name' | 'text' | 'trail'> {
  /** Path as the user wrote it, or undefined for `text`. */
  readonly file?: string | undefined;
  readonly text?: string | undefined;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly project?: string;
  readonly store?: string;
}

interface ScriptEnd {
  readonly code: number;
  /** Text of each problem, for people. */
  readonly problems: readonly string[];
  readonly fault: Fault | undefined;
  readonly outputs: unknown;
}

function read(job: ScriptJob): Outcome<{ path: string; text: string }> {
  if (job.text !== undefined)
    return ok({ path: resolve(job.cwd, '<command line>.mld'), text: job.text });
  const path = resolve(job.cwd, job.file ?? '');
  const read = readScript(path);
  if ('bytes' in read) return ok({ path, text: read.bytes.toString('utf8') });
  const { errno, message } = read.problem;
  const why = errno === 'ENOENT' ? 'the file does not exist' : message;
  return fail('not_found', `\`${job.file ?? ''}\` cannot be read: ${why}`);
}

/** Returns the path relative to the current folder. */
function shownName(path: string, job: Pick<ScriptJob, 'cwd' | 'text'>): string {
  if (job.text !== undefined) return '<command line>';
  const short = relative(job.cwd, path);
  return short === '' || short.startsWith('..') ? path : short;
}

const refused = (fault: Fault): ScriptEnd => ({
  code: exitCodeOf(fault),
  problems: [`error: ${fault.detail.message}`],
  fault,
  outputs: null,
});

/** Runs a script in the runtime of its project. `watch` starts the run and can observe it. */
export async function runScriptJob(
  job: ScriptJob,
  watch?: (runtime: Runtime, script: WatchedScript) => Promise<WatchedEnd>,
): Promise<ScriptEnd> {
  const source = read(job);
  if (!source.ok) return refused(source.error);
  const { path, text } = source.output;
  const { findScriptProject, watchScript } = await import('@kernmantle/script');
  const project = job.project ?? findScriptProject(dirname(path), job.env['KERNMANTLE_HOME'] ?? '');
  const opened = await openRuntime({
    project,
    cwd: job.cwd,
    env: job.env,
    ...compact({ store: job.store }),
  });
  if (!opened.ok) return refused(opened.error);
  try {
    const run = watch ?? watchScript;
    const end = await run(opened.output, { ...job, path, text, name: shownName(path, job) });
    return { ...end, problems: end.diagnostics.map(formatDiagnostic) };
  } finally {
    await opened.output.close();
  }
}

/** Reads stdin when the script first uses `@input`. A person at the terminal is not waited for. */
function readStdin(): string {
  if (process.stdin.isTTY) return '';
  try {
    return readFileSync(0, 'utf8');
  } catch {
    return '';
  }
}

function jobOf({ args, options, terminal }: CommandCall, payload: JsonObject): ScriptJob {
  return compact<ScriptJob>({
    file: asText(args[0]),
    text: asText(options.eval),
    cwd: terminal.cwd,
    env: terminal.env,
    payload,
    stdin: readStdin,
    project: asText(options.project),
    store: asText(options.store),
  });
}

/** Implements `--json`: prints the list of effects and the result as one document. */
async function runForMachines(call: CommandCall, job: ScriptJob): Promise<number> {
  const effects: ScriptEffect[] = [];
  const end = await runScriptJob({ ...job, onEffect: (effect) => effects.push(effect) });
  const { code, fault, outputs } = end;
  const outcome = fault ? { ok: false, error: fault } : { ok: true, output: outputs };
  call.terminal.out(JSON.stringify({ effects, outcome, exit_code: code }));
  return code;
}

async function runForPeople(call: CommandCall, job: ScriptJob): Promise<number> {
  const end = await runScriptJob({
    ...job,
    onEffect(effect) {
      const line = printed(effect);
      if (line) call.terminal.print(line.stream, line.text);
    },
    onOutput: (text) => call.terminal.print('out', text),
  });
  for (const problem of end.problems) call.terminal.note(visible(problem));
  return end.code;
}

export const run: CommandRun = async (call) => {
  const { options, terminal } = call;
  if (options.worker === true) return await runWorker(terminal);
  const payload = parseParameters(asList(options.payload));
  if (!payload.ok) return payload;
  const job = jobOf(call, payload.output);
  if (job.file === undefined && job.text === undefined) {
    return fail('usage', 'a file is missing; use a file, or a text with `-e`');
  }
  return await interruptible(async (signal) => {
    const work = compact<ScriptJob>({ ...job, signal, ask: personAt(terminal, signal) });
    const code = await (terminal.json ? runForMachines : runForPeople)(call, work);
    return signal.aborted ? EXIT.interrupted : code;
  });
};

async function answer(line: string, env: ScriptJob['env']) {
  const refuse = (err: string) => ({ id: null, code: EXIT.usage, out: '', err });
  const parsed = parseJson(line);
  if (!parsed.ok || !isObject(parsed.output))
    return refuse('a job must be one JSON object per line');
  const { id, work, file } = parsed.output;
  if (typeof work !== 'string' || typeof file !== 'string') {
    return refuse('a job needs `work` and `file`');
  }
  const text = { out: '', err: '' };
  const onEffect = (effect: ScriptEffect): void => {
    const output = printed(effect);
    if (output) text[output.stream] += output.text;
  };
  try {
    const { code, problems } = await runScriptJob({ file, cwd: work, env, onEffect });
    return { id, code, out: text.out, err: [text.err, ...problems].join('') };
  } catch (error) {
    return { id, code: EXIT.failed, out: '', err: String(error) };
  }
}

async function runWorker({ env, out, closed }: Terminal): Promise<number> {
  for await (const line of createInterface({ input: process.stdin, signal: closed })) {
    if (line.trim() === '') continue;
    out(JSON.stringify(await answer(line, env)));
  }
  return EXIT.done;
}
