// Implements the primitive `script`, for tools that are scripts. The text is in the config (`script`) or in a
// file beside the YAML (`module`). It runs with those rights of its caller that the tool requires.
import {
  fail,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import { addMarks, makeValue, type Value } from '@kernmantle/core/flow';
import {
  type Primitive,
  type PrimitiveCall,
  type PrimitiveResult,
  resolveModule,
} from '@kernmantle/core/kernel';
import type { OpenProject, RuntimeContext } from '@kernmantle/core/runtime';
import { readScript, runMarked, type ScriptSource, shownFile } from './script-port.ts';
import { APPROVED, openScripts, type ScriptUse } from './script-setup.ts';

/** Maximum number of script tools that run at once, which limits tools that call each other. */
const MAX_AT_WORK = 64;

/** Returns the script of a tool. `file` has the form that errors show. */
function sourceOf({ tool, config, projectRoot }: PrimitiveCall): Outcome<ScriptSource> {
  const { script, module } = config;
  if (typeof script === 'string') return ok({ text: script, file: tool.id, mode: 'strict' });
  if (typeof module !== 'string') {
    return fail('config_invalid', `tool \`${tool.id}\` has no script`, {
      config_path: 'config.script',
      hint: 'set `config.script` to its text, or `config.module` to a file beside the tool',
    });
  }
  const file = resolveModule(tool, module, projectRoot);
  if (!file.ok) return file;
  const read = readScript(file.output, module, 'config_invalid');
  if (!read.ok) return read;
  const mode = file.output.endsWith('.md') ? 'markdown' : 'strict';
  return ok({ text: read.output, file: shownFile(projectRoot, file.output), mode });
}

/** Returns the parameters as variables, each with the marks of all inputs. */
const inputsOf = ({ parameters, given }: PrimitiveCall): ReadonlyMap<string, Value> =>
  new Map(
    Object.entries(parameters).map(([name, data]) => [
      name,
      makeValue(data, given ? { descriptor: given } : {}),
    ]),
  );

function outputOf(returned: Json | undefined, text: string): JsonObject {
  const fields: JsonObject =
    returned === undefined ? {} : isObject(returned) ? returned : { result: returned };
  return text === '' || Object.hasOwn(fields, 'text') ? fields : { ...fields, text };
}

/** Inside of a thread the thread sends the prompt, because it has the budget and records the cost. */
function modelOf(open: OpenProject, thread: string | undefined): Pick<ScriptUse, 'model'> {
  if (thread === undefined) return {};
  return {
    async model(question, frame) {
      const running = open.live?.get(thread);
      if (!running) return fail('model_unavailable', `thread \`${thread}\` is not running here`);
      const { askModel } = await import('@kernmantle/core/harness');
      const prompt = addMarks(question.prompt, frame.influence);
      return await askModel(running.thread, { prompt, tier: question.tier }, async () => ({
        status: 'interrupted',
        reason: 'the thread received a signal',
      }));
    },
  };
}

/** Returns the rules of the calling thread. A call that a person approved needs no second approval. */
function rulesOf(
  open: OpenProject,
  { from, tool, idempotencyKey = '' }: PrimitiveCall,
): Pick<ScriptUse, 'guards' | 'ask'> {
  const running = open.live?.get(from?.__thread_id ?? '')?.thread;
  const guards = running ? { guards: running.rights.rules.guards() } : {};
  if (from?.isApproved) return { ...guards, ask: APPROVED };
  if (!running) return {};
  const ask: ScriptUse['ask'] = async (question, frame) => {
    const { askInside } = await import('@kernmantle/core/harness');
    return await askInside(running, idempotencyKey, tool.effect)(question, frame);
  };
  return { ...guards, ask };
}

function useOf(open: OpenProject, call: PrimitiveCall, signal: AbortSignal): ScriptUse {
  const { tool, from, idempotencyKey } = call;
  const { surface, name = '', isApproved: _, ...auth } = from ?? { surface: 'script' };
  const gate = (): Outcome<null> =>
    signal.aborted
      ? fail(call.signal.aborted ? 'cancelled' : 'timeout', `\`${tool.id}\` was stopped`)
      : ok(null);
  return {
    surface,
    name,
    signal,
    gate,
    only: tool.requires,
    auth: () => auth,
    ...(idempotencyKey === undefined ? {} : { key: idempotencyKey }),
    ...modelOf(open, from?.__thread_id),
    ...rulesOf(open, call),
  };
}

async function runTool(
  rooms: RuntimeContext,
  call: PrimitiveCall,
): Promise<Outcome<PrimitiveResult>> {
  const { open } = rooms;
  const source = sourceOf(call);
  if (!source.ok) return source;
  const { text, file, mode } = source.output;
  const signal = AbortSignal.any([call.signal, AbortSignal.timeout(call.timeoutMs)]);
  const stage = await openScripts(rooms, useOf(open, call, signal));
  const answer = await runMarked(text, {
    ...stage,
    file: `${open.project}/${file}`,
    name: file,
    folder: open.project,
    mode,
    inputs: inputsOf(call),
  });
  if (answer.fault) return { ok: false, error: answer.fault };
  return ok({ output: outputOf(answer.outputs?.data, answer.text), marks: answer.marks });
}

export function createScriptPrimitive(rooms: () => RuntimeContext): Primitive {
  let atWork = 0;
  return {
    name: 'script',
    async run(call) {
      if (atWork >= MAX_AT_WORK) {
        return fail('quota_exceeded', `at most ${MAX_AT_WORK} script tools can run at once`);
      }
      atWork += 1;
      try {
        return await runTool(rooms(), call);
      } finally {
        atWork -= 1;
      }
    },
    plan(call) {
      const source = sourceOf(call);
      return source.ok ? { script: source.output.text } : { problem: source.error.detail.message };
    },
  };
}
