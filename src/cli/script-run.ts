// One run of a script on the command line: its project, the operator's policy for scripts, effects as
// they happen, problems with their place.
import { dirname, relative, resolve } from 'node:path';
import {
  type Fault,
  fail,
  formatDiagnostic,
  type JsonObject,
  type Outcome,
  ok,
  readRegularFile,
} from '../base/index.ts';
import type { Trail } from '../flow/index.ts';
import { createRuntime, findScriptProject } from '../runtime.ts';
import type { ScriptEffect } from '../script/index.ts';
import { EXIT, exitCodeOf } from './command.ts';
import { MAX_SCRIPT_BYTES } from './script-files.ts';

export interface ScriptJob {
  /** Path as given, or undefined for `text`. */
  readonly file: string | undefined;
  readonly text: string | undefined;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly payload: JsonObject;
  stdin(): string;
  onEffect(effect: ScriptEffect): void;
  /** Keeps track of how values came to be. */
  readonly trail?: Trail;
  /** Absent: nobody is there to answer now, so a question stays open. */
  ask?(question: string): Promise<boolean>;
  readonly signal?: AbortSignal;
  readonly project?: string;
}

export interface ScriptEnd {
  readonly code: number;
  /** Everything that is wrong, ready to be shown. */
  readonly problems: readonly string[];
  readonly fault: Fault | undefined;
  readonly outputs: unknown;
}

function read(job: ScriptJob): Outcome<{ path: string; text: string }> {
  if (job.text !== undefined)
    return ok({ path: resolve(job.cwd, '<command line>.mld'), text: job.text });
  const path = resolve(job.cwd, job.file ?? '');
  const read = readRegularFile(path, { max: MAX_SCRIPT_BYTES, followsLinks: true });
  if ('bytes' in read) return ok({ path, text: read.bytes.toString('utf8') });
  const { errno, message } = read.problem;
  const why = errno === 'ENOENT' ? 'there is no such file' : message;
  return fail('not_found', `\`${job.file ?? ''}\` cannot be read: ${why}`);
}

/** As a person would type it, seen from where they stand. */
export function shownName(path: string, job: Pick<ScriptJob, 'cwd' | 'text'>): string {
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

const exitOf = (fault: Fault): number => (fault.code === 'bail' ? EXIT.failed : exitCodeOf(fault));

export async function runScriptJob(job: ScriptJob): Promise<ScriptEnd> {
  const source = read(job);
  if (!source.ok) return refused(source.error);
  const { path, text } = source.output;
  const project = job.project ?? findScriptProject(dirname(path), job.env['KERNMANTLE_HOME'] ?? '');
  const opened = await createRuntime({ project, cwd: job.cwd, env: job.env });
  if (!opened.ok) return refused(opened.error);
  try {
    const { runScript, diagnosticOf } = await import('../script/index.ts');
    const stage = await opened.output.scripts({
      name: shownName(path, job),
      ask: async ({ questions }) =>
        ok(job.ask ? ((await job.ask(questions.join('; '))) ? 'approved' : 'denied') : 'pending'),
      ...(job.trail ? { trail: job.trail.note } : {}),
      ...(job.signal ? { signal: job.signal } : {}),
    });
    // Commands hear of it by themselves; a block that waits for something does not.
    job.signal?.addEventListener('abort', () => stage.world.js.close(), { once: true });
    const { fault, diagnostics, outputs } = await runScript(text, {
      ...stage,
      file: path,
      name: shownName(path, job),
      mode: path.endsWith('.mld') ? 'strict' : 'markdown',
      payload: job.payload,
      stdin: () => job.stdin(),
      mayBePrivileged: true,
      onEffect: (effect) => job.onEffect(effect),
    });
    const list = diagnostics.length > 0 ? diagnostics : fault ? [diagnosticOf(fault, path)] : [];
    return {
      code: fault ? exitOf(fault.fault) : EXIT.done,
      problems: list.map(formatDiagnostic),
      fault: fault?.fault,
      outputs: outputs?.data ?? null,
    };
  } finally {
    await opened.output.close();
  }
}

/** Which stream an effect goes to, as text; undefined: it is seen elsewhere. */
export function printed(effect: ScriptEffect): { stream: 'out' | 'err'; text: string } | undefined {
  const { kind, text } = effect;
  switch (kind) {
    case 'text':
      return { stream: 'out', text };
    case 'show':
    case 'run':
      return { stream: 'out', text: `${text}\n` };
    case 'log':
      return { stream: 'err', text: `${text}\n` };
    case 'stderr':
      return { stream: 'err', text: text.endsWith('\n') ? text : `${text}\n` };
    case 'warning':
      return { stream: 'err', text: `warning: ${text}\n` };
    default:
      return undefined;
  }
}
