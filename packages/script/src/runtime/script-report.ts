// One run of a script, watched: its effects as they happen, problems with their place, and, where somebody
// asks for it, how each value came to be.
import {
  type Diagnostic,
  exitCodeOf,
  type Fault,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import { createTrail, type Trail } from '@kernmantle/core/flow';
import type { Explained } from '@kernmantle/core/reports';
import type { AskPerson, Runtime } from '@kernmantle/core/runtime';
import type { ScriptEffect } from '../execute-script.ts';
import { openScripts } from './script-setup.ts';

export interface WatchedScript {
  /** The absolute path, and as people know it. */
  readonly path: string;
  readonly name: string;
  readonly text: string;
  readonly payload?: JsonObject;
  /** What is piped in; nothing when absent. */
  stdin?(): string;
  onEffect?(effect: ScriptEffect): void;
  /** Told what is printed `with { stream: true }`, as it comes. */
  onOutput?(text: string): void;
  /** Keeps track of how values came to be. */
  readonly trail?: Trail;
  /** Absent: nobody is there to answer now, so a question waits in the queue. */
  readonly ask?: AskPerson;
  readonly signal?: AbortSignal;
}

export interface WatchedEnd {
  readonly code: number;
  readonly diagnostics: readonly Diagnostic[];
  readonly fault: Fault | undefined;
  readonly outputs: Json;
}

/** Under the policy for scripts, as `km script` runs it. */
export async function watchScript(runtime: Runtime, job: WatchedScript): Promise<WatchedEnd> {
  const { runScript, diagnosticOf } = await import('../execute-script.ts');
  const { path, name, signal } = job;
  const stage = await openScripts(runtime.rooms, {
    name,
    ...(job.ask ? { person: job.ask } : {}),
    ...(job.trail ? { trail: job.trail.note } : {}),
    ...(signal ? { signal } : {}),
  });
  // Commands hear of it by themselves; a block that waits for something does not.
  signal?.addEventListener('abort', () => stage.world.js.close(), { once: true });
  const { fault, diagnostics, outputs } = await runScript(job.text, {
    ...stage,
    file: path,
    name,
    mode: path.endsWith('.mld') ? 'strict' : 'markdown',
    payload: job.payload ?? {},
    stdin: () => job.stdin?.() ?? '',
    mayBePrivileged: true,
    mayLift: true,
    onEffect: (effect) => job.onEffect?.(effect),
    ...(job.onOutput && { onOutput: job.onOutput }),
  });
  const list = diagnostics.length > 0 ? diagnostics : fault ? [diagnosticOf(fault, path)] : [];
  return {
    code: exitCodeOf(fault?.fault),
    diagnostics: list,
    fault: fault?.fault,
    outputs: outputs?.data ?? null,
  };
}

/**
 * The same with a trail. Asked for a line: the last thing made there. Otherwise the refusal, or the last
 * thing that left.
 */
export async function explainScript(
  runtime: Runtime,
  job: Omit<WatchedScript, 'trail'>,
  line?: number,
): Promise<WatchedEnd & { readonly explained: Outcome<Explained> }> {
  const trail = createTrail();
  let left: number | undefined;
  const end = await watchScript(runtime, {
    ...job,
    trail,
    onEffect(effect) {
      left = effect.line ?? left;
      job.onEffect?.(effect);
    },
  });
  const { fault } = end;
  if (fault && line === undefined) {
    // Only here: it reads journals too, and would bring the whole harness into every run of a script.
    const { ofScriptFault } = await import('@kernmantle/core/reports');
    return { ...end, explained: ok(ofScriptFault(fault, trail.ofFault(fault))) };
  }
  const last = line ?? left;
  const made = last === undefined ? undefined : trail.atLine(job.name, last).at(-1);
  if (made) {
    const subject = `${job.name}:${last}`;
    return { ...end, explained: ok({ subject, refusal: null, ...trail.ofMarks(made) }) };
  }
  if (fault) return { ...end, explained: { ok: false, error: fault } };
  const where = line === undefined ? 'the script made nothing' : `nothing was made at line ${line}`;
  return { ...end, explained: fail('not_found', `${where}, so there is nothing to explain`) };
}
