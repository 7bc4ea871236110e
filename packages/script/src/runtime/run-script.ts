// Runs a script for a program. A request has a text or a file. The result has the outputs and the printed text.
import { resolve } from 'node:path';
import {
  fail,
  harmless,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import { describe, makeValue, type Value } from '@kernmantle/core/flow';
import type { Audit } from '@kernmantle/core/kernel';
import type { RuntimeContext } from '@kernmantle/core/runtime';
import type { ScriptEffect } from '../execute-script.ts';
import { readScript, runMarked, type ScriptSource, shownFile } from './script-port.ts';
import { openScripts } from './script-setup.ts';

export interface ScriptRun {
  /** Path relative to the project. A `.mld` file is strict. Other files are markdown with statements. */
  file?: string;
  /** Text instead of a file. It is strict unless `mode` is `markdown`. */
  text?: string;
  mode?: 'strict' | 'markdown';
  /** Variables with these names, which are also the fields of `@input`. */
  inputs?: JsonObject;
  payload?: JsonObject;
  /** Receives every effect when it happens. */
  onEffect?: (effect: ScriptEffect) => void;
  /** Receives output of `with { stream: true }` in pieces. At its end the whole output is an effect too. */
  onOutput?: (text: string) => void;
}

export interface ScriptRunResult {
  /** Value of `/return { … }`; null if there was none. */
  outputs: Json;
  text: string;
  /** Labels of the outputs and the text. */
  labels: readonly string[];
  taint: readonly string[];
}

/** Parts of a runtime that a script needs. */
interface ScriptHost {
  readonly project: string;
  readonly audit: Pick<Audit, 'write'>;
  readonly rooms: RuntimeContext;
}

function sourceOf({ project }: ScriptHost, { file, text, mode }: ScriptRun): Outcome<ScriptSource> {
  if (text !== undefined) {
    return ok({ file: resolve(project, '<text>'), text, mode: mode ?? 'strict' });
  }
  const path = resolve(project, file ?? '');
  const read = readScript(path, file ?? '', 'not_found');
  if (!read.ok) return read;
  const usual = path.endsWith('.mld') ? 'strict' : 'markdown';
  return ok({ file: path, text: read.output, mode: mode ?? usual });
}

const FROM_USER = describe({ taint: ['src:user'] });

const valuesOf = (inputs: JsonObject): ReadonlyMap<string, Value> =>
  new Map(
    Object.entries(inputs).map(([name, data]) => [
      name,
      // The data is copied, because a value freezes its data.
      makeValue(structuredClone(data), { descriptor: FROM_USER }),
    ]),
  );

/** Runs a script under the policy for scripts. It never throws: every failure is returned. */
export async function runScriptIn(
  place: ScriptHost,
  request: ScriptRun,
  signal?: AbortSignal,
): Promise<Outcome<ScriptRunResult>> {
  const source = sourceOf(place, request);
  if (!source.ok) return source;
  const name = shownFile(place.project, source.output.file);
  const gate = (): Outcome<null> =>
    signal?.aborted ? fail('cancelled', 'the script was stopped') : ok(null);
  const stage = await openScripts(place.rooms, { name, gate, ...(signal ? { signal } : {}) });
  const { inputs, payload, onEffect, onOutput } = request;
  const about = {
    surface: 'script',
    caller: name,
    subject: '',
    operation: 'record:effect',
    target: '',
  };
  const trouble = (reason: string): void =>
    void place.audit.write({ ...about, decision: 'failed', reason });
  const { text, marks, outputs, fault } = await runMarked(source.output.text, {
    ...stage,
    ...source.output,
    name,
    mayBePrivileged: true,
    mayLift: true,
    ...(inputs && { inputs: valuesOf(inputs) }),
    ...(payload && { payload }),
    ...(onEffect && { onEffect: harmless('onEffect', onEffect, trouble) }),
    ...(onOutput && { onOutput: harmless('onOutput', onOutput, trouble) }),
  });
  if (fault) return { ok: false, error: fault };
  const { labels, taint } = marks;
  return ok({ outputs: outputs?.data ?? null, text, labels, taint });
}
