// What a stage can know about its pipeline: `@p`, `@mx.pipe`. One object per pipeline run; each stage
// sees a frozen picture of it.
import type { Json, JsonObject } from '../base/index.ts';
import type { Value } from '../flow/index.ts';

/** One pass through one stage. */
export interface Pipe {
  /** From 1; the source is 0. */
  readonly stage: number;
  readonly attempt: number;
  readonly hint: Value | undefined;
  readonly input: Value;
  /** `outputs[0]` is the source. */
  readonly outputs: readonly Value[];
  readonly tries: readonly Try[];
  readonly history: readonly (readonly Value[])[];
  /** Grows while the pipeline runs. */
  readonly guards: Json[];
}

/** One attempt of the retry context we are in. */
export interface Try {
  readonly attempt: number;
  readonly result: 'retry' | 'done';
  readonly hint: Value | undefined;
  readonly output: Value;
}

const data = (value: Value | undefined): Json => value?.data ?? null;

const tryJson = ({ attempt, result, hint, output }: Try): JsonObject => ({
  attempt,
  result,
  hint: data(hint),
  output: data(output),
});

/** For `@mx.pipe` and its aliases. */
export const pipeFacts = (pipe: Pipe): JsonObject => ({
  try: pipe.attempt,
  tries: pipe.tries.map(tryJson),
  stage: pipe.stage,
  length: pipe.outputs.length - 1,
  input: data(pipe.input),
  lastOutput: pipe.outputs.length > 1 ? data(pipe.outputs.at(-1)) : null,
  hint: data(pipe.hint),
  guards: [...pipe.guards],
  isPipeline: true,
});
