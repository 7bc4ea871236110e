// Runs a script and reports its effects when they happen, its problems with their location, and on request
// the origin of each value.
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
  readonly path: string;
  readonly name: string;
  readonly text: string;
  readonly payload?: JsonObject;
  /** Returns the text of stdin. Absent: stdin is empty. */
  stdin?(): string;
  onEffect?(effect: ScriptEffect): void;
  /** Receives text that is printed `with { stream: true }` in pieces. */
  onOutput?(text: string): void;
  /** Collects the origin of each value. */
  readonly trail?: Trail;
  /** Asks the person at the terminal. Absent: approval requests wait in the queue. */
  readonly ask?: AskPerson;
  readonly signal?: AbortSignal;
}

export interface WatchedEnd {
  readonly code: number;
  readonly diagnostics: readonly Diagnostic[];
  readonly fault: Fault | undefined;
  readonly outputs: Json;
}

/** Runs a script under the policy for scripts, as `km script` does. */
export async function watchScript(runtime: Runtime, job: WatchedScript): Promise<WatchedEnd> {
  const { runScript, diagnosticOf } = await import('../execute-script.ts');
  const { path, name, signal } = job;
  const stage = await openScripts(runtime.rooms, {
    name,
    ...(job.ask ? { person: job.ask } : {}),
    ...(job.trail ? { trail: job.trail.note } : {}),
    ...(signal ? { signal } : {}),
  });
  // Commands receive the signal themselves, but a waiting block does not.
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

/** Runs a script and explains a value: the last value of `line`, or else the refusal, or else the last effect. */
export async function explainScript(
  runtime: Runtime,
  job: Omit<WatchedScript, 'trail'>,
  line?: number,
): Promise<WatchedEnd & { readonly explained: Outcome<Explained> }> {
  const trail = createTrail();
  let lastLine: number | undefined;
  const end = await watchScript(runtime, {
    ...job,
    trail,
    onEffect(effect) {
      lastLine = effect.line ?? lastLine;
      job.onEffect?.(effect);
    },
  });
  const { fault } = end;
  if (fault && line === undefined) {
    // The reports are loaded here, because they also load the whole harness, which few scripts need.
    const { ofScriptFault } = await import('@kernmantle/core/reports');
    return { ...end, explained: ok(ofScriptFault(fault, trail.ofFault(fault))) };
  }
  const last = line ?? lastLine;
  const value = last === undefined ? undefined : trail.atLine(job.name, last).at(-1);
  if (value) {
    const subject = `${job.name}:${last}`;
    return { ...end, explained: ok({ subject, refusal: null, ...trail.ofMarks(value) }) };
  }
  if (fault) return { ...end, explained: { ok: false, error: fault } };
  const where = line === undefined ? 'the script has no value' : `line ${line} has no value`;
  return { ...end, explained: fail('not_found', `${where} that can be explained`) };
}
