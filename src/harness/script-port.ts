// What the harness asks of the script language, and what a script may ask of the thread that runs it.
// Neither room knows the other: the runtime stands in between.
import type { Fault, Json, JsonObject, Outcome } from '../base/index.ts';
import type { Descriptor, Frame, MaybePromise, Value } from '../flow/index.ts';
import type { Effect } from '../items/index.ts';
import type { Caller } from '../kernel/index.ts';

/** Something a script does by itself: a command, a block of code, a file. */
export interface ScriptAct {
  /** `cmd`, `sh`, `node`, `py`, `write`, `append`, `read` …: events call it `script:cmd`. */
  name: string;
  effect: Effect;
  /** What it is about, as the journal keeps it; the same act has the same arguments. */
  arguments: JsonObject;
}

/** What a script reaches outside of itself. Every one of them is a step of the thread. */
export interface ScriptDeeds {
  /** The right it works with now. */
  auth(): Pick<Caller, '__auth' | '__thread_id' | '__directive_id'>;
  tool(id: string, parameters: ReadonlyMap<string, Value>, frame: Frame): Promise<Outcome<Value>>;
  help(action: string, message: Value, frame: Frame): Promise<Outcome<Value>>;
  model(
    request: { prompt: Value; tier: string | undefined },
    frame: Frame,
  ): Promise<Outcome<Value>>;
  act(act: ScriptAct, work: () => MaybePromise<Outcome<Json>>): Promise<Outcome<Json>>;
}

export interface ScriptRequest {
  text: string;
  /** The file it stands in, and where its first character is. */
  file: string;
  line: number;
  column: number;
  /** Variables, and the fields of `@input`. */
  inputs: ReadonlyMap<string, Value>;
  /** Somebody vouches for it: its guards may be privileged. */
  isSigned: boolean;
  /** What `@now` is: the same when it runs again. */
  now: number;
  signal: AbortSignal;
  /** Asked before every operation: may the script go on? */
  gate(): Outcome<null>;
  /** Absent: it may only compute; whatever else it tries ends it. */
  deeds?: ScriptDeeds;
}

export interface ScriptAnswer {
  /** Of `/return { … }`. */
  outputs?: Value;
  /** What it printed. */
  text: string;
  /** Of everything it gave back, printed or said in its fault. */
  marks: Descriptor;
  /** With its place in `detail`: `file`, `line`, `column`. */
  fault?: Fault;
  /** It was only to compute and wanted more; it has done nothing. */
  needsThread?: boolean;
}

/** Never rejects. */
export type ScriptPort = (request: ScriptRequest) => Promise<ScriptAnswer>;
