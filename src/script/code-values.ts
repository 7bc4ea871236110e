// Values on their way into code blocks: data as data, files as bare text or data, and the whole value
// only where `.keep` asks for it.
import type { Json } from '../base/index.ts';
import { makeValue, type Value } from '../flow/index.ts';
import { isAbsent } from './absent.ts';
import { given } from './call.ts';
import type { Env } from './env.ts';
import { type Executable, isExecutable } from './executable.ts';
import { raise } from './fault.ts';
import { textOf } from './text-of.ts';
import { mxOf } from './value-access.ts';
import { stageInput } from './value-data.ts';
import { andThen as then } from './wait.ts';
import type { JsArgument, JsHelper } from './world.ts';

export function jsArgument(value: Value, isStage: boolean): JsArgument {
  if (isAbsent(value)) return { kind: 'undefined' };
  if (isExecutable(value.data)) {
    return raise(
      'invalid_input',
      'a function cannot be handed to code; make it a helper with `exe js = { … }`',
    );
  }
  if (value.meta.origin['keep'] === true) {
    return { kind: 'kept', text: textOf(value), data: value.data, mx: plain(mxOf(value).data) };
  }
  const ready = isStage ? stageInput(value) : value;
  const isData = typeof ready.data === 'object' && ready.data !== null;
  if (isData && (ready.hasOwnText || isStage)) {
    return { kind: 'textual', data: ready.data, text: textOf(ready), isStage };
  }
  return { kind: 'data', data: ready.data };
}

const plain = (data: Json): Json => JSON.parse(JSON.stringify(data)) as Json;

export const jsHelpers = (
  helpers: ReadonlyMap<string, Executable>,
  env: Env,
): readonly JsHelper[] =>
  helpers.size === 0
    ? NONE
    : [...helpers].map(([name, executable]) => helperOf(name, executable, env));

const NONE: readonly JsHelper[] = Object.freeze([]);

function helperOf(name: string, executable: Executable, env: Env): JsHelper {
  const { parameters, source } = executable.signature;
  return {
    name,
    parameters,
    source,
    call: (values) =>
      then(
        executable.call(
          values.map((data) => given(makeValue(data))),
          { env, at: 0, isStage: false },
        ),
        ({ data }) => data,
      ),
  };
}
