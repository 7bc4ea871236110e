// Defines the port through which a script reaches files, processes, tools and models. The runtime implements
// it with the rights of the operator's policy or of a thread's token. The language itself never touches the
// disk and starts no process.
import type { Failure, Json, Outcome } from '@kernmantle/core/base';
import type {
  Descriptor,
  Frame,
  MaybePromise,
  Operation,
  Value,
  WritePreview,
} from '@kernmantle/core/flow';
import type { ConnectorTool } from '@kernmantle/core/items';

export interface LoadedText {
  /** Absolute path of the file, with all links resolved. */
  readonly path: string;
  readonly text: string;
  /** Marks of the content: `src:file`, `dir:…` and the marks recorded when the file was written. */
  readonly descriptor: Descriptor;
}

/** A result of a lookup. It has the marks of the folders that were read, because a missing file reveals them too. */
export interface LookupResult<T> {
  readonly found: T;
  readonly descriptor: Descriptor;
}

export interface ProcessRequest {
  /** `cmd` runs command lines one after the other until one fails. `sh` runs a shell script. */
  readonly kind: 'cmd' | 'sh';
  /** A list of quoted command lines for `cmd`; a script for `sh`. */
  readonly source: string | readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string | undefined;
  /** Absolute path inside of the project. */
  readonly folder: string;
  readonly timeoutMs: number | undefined;
  /** Receives the output in pieces while the code runs. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

export interface ProcessResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
  readonly signal: string | undefined;
  /** Marks of every file that the process could read. */
  readonly descriptor: Descriptor;
}

interface CodeBlock {
  readonly source: string;
  readonly parameters: readonly { readonly name: string; readonly value: JsArgument }[];
  /** Functions that the block may call by name. A helper with a source is compiled in the block's engine. */
  readonly helpers: readonly CodeHelper[];
  readonly timeoutMs: number | undefined;
  /** Receives the output in pieces while the code runs. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

/** Runs a `node` or `py` block in a process of its own. Values are passed as JSON. */
export interface CodeRequest extends CodeBlock {
  readonly kind: 'node' | 'py';
  readonly mx: Json;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string | undefined;
  readonly folder: string;
}

export interface CodeResult {
  /** Absent if the block returned nothing. */
  readonly value: Json | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** Marks of every file that the process could read. */
  readonly descriptor: Descriptor;
}

export interface ScriptWorld {
  readonly root: string;
  /** Home folder of the user; `~` in file patterns means this folder. */
  readonly home?: string;
  /** Returns the patterns that a policy's `allow` alone does not permit. They are read at the first call. */
  dangers?(): readonly string[];
  /** Resolves the links in the existing part of a path. */
  realPath?(path: string): string;
  now(): Date;
  /** Fails with `not_found` and the marks of the folder if the file does not exist. The path is absolute. */
  readFile(path: string, frame: Frame): MaybePromise<Outcome<LoadedText>>;
  /** Returns the sorted absolute paths of the files that an absolute glob matches. */
  glob(pattern: string, frame: Frame): MaybePromise<Outcome<LookupResult<readonly string[]>>>;
  exists(path: string, frame: Frame): MaybePromise<LookupResult<boolean>>;
  list(
    path: string,
    frame: Frame,
  ): MaybePromise<Outcome<LookupResult<readonly { name: string; isFolder: boolean }[]>>>;
  /** Writes a file and creates missing folders. The marks of the value are recorded for later reads. */
  writeFile(
    request: {
      path: string;
      text: string;
      append: boolean;
      descriptor: Descriptor;
      /** Marks of the values that the path was built from. */
      named: Descriptor;
      /** Hash of the content that the person agreed to overwrite; `new` if no file existed. */
      approved?: string | undefined;
    },
    frame: Frame,
  ): MaybePromise<Outcome<null>>;
  /** Returns the refusal that no approval can change; `undefined` if the write may be allowed. */
  refusesWrite?(path: string): Promise<Failure | undefined>;
  /** Returns what a call of this tool would write, for the approval request. */
  previewTool?(id: string, inputs: ReadonlyMap<string, Value>): Promise<WritePreview | undefined>;
  /** Returns what a statement would write to a file, for the approval request. */
  previewWrite?(
    path: string,
    write: { text: string; append: boolean },
  ): Promise<WritePreview | undefined>;
  /** Runs a process. A non-zero exit is an ordinary result. Fails if the process cannot start or times out. */
  process(request: ProcessRequest, frame: Frame): Promise<Outcome<ProcessResult>>;
  /** Runs a block. Fails with stderr in the message after an exception, a non-zero exit or a timeout. */
  code(request: CodeRequest, frame: Frame): Promise<Outcome<CodeResult>>;
  readonly js: JsEngine;
  /** Called when the number of concurrent paths changes. A path that waits for others does not count. */
  paths?(change: number): void;
  /** Executes a tool or another item through the kernel. */
  tool(
    id: string,
    parameters: ReadonlyMap<string, Value>,
    frame: Frame,
  ): MaybePromise<Outcome<Value>>;
  /** Returns the tools of a connector from their files. Absent: connectors are not available. */
  connector?(name: string, frame: Frame): MaybePromise<Outcome<readonly ConnectorTool[]>>;
  /** Returns how this tool reads untrusted data. Absent or `undefined`: it reads like every other tool. */
  reads?(id: string): Operation['reads'];
  /** Creates a help request of the thread for a person. */
  help(action: string, message: Value, frame: Frame): MaybePromise<Outcome<Value>>;
  /** Sends a prompt to a model through the kernel, without tools. */
  model(
    request: {
      prompt: Value;
      tier: string | undefined;
      /** Receives the answer in pieces while the model writes. */
      onText?: ((text: string) => void) | undefined;
    },
    frame: Frame,
  ): MaybePromise<Outcome<Value>>;
}

export type JsArgument =
  | { readonly kind: 'data'; readonly data: Json }
  | { readonly kind: 'undefined' }
  /** Data with a text of its own. In stages it also has the string methods of that text. */
  | {
      readonly kind: 'textual';
      readonly data: Json;
      readonly text: string;
      readonly isStage: boolean;
    }
  /** A value that was passed with `.keep`. */
  | {
      readonly kind: 'kept';
      readonly text: string;
      readonly data: Json;
      /** Type of the value, as `.mx.type` returns it. */
      readonly type: string;
      readonly mx: Json;
    };

/** A function of the script that blocks may call by name. */
export interface CodeHelper {
  readonly name: string;
  readonly parameters: readonly string[];
  /** Source of a function in the language of the block. Its values are plain in both directions. */
  readonly source: string | undefined;
  readonly captured?: CodeBlock['parameters'];
  /** Calls a function without a source, for `js` blocks only. `descriptor` has the marks of the block. */
  call?(values: readonly Json[], descriptor: Descriptor): MaybePromise<Value>;
}

export interface JsCall extends CodeBlock {
  /** Returns the value of `mx` and `ctx`. It is called only if the block reads them. */
  mx(): Json;
  /** Marks of all inputs, and of the conditions under which the block runs. */
  readonly descriptor: Descriptor;
}

export interface JsResult {
  /** Absent if the block returned nothing. */
  readonly value: Json | undefined;
  readonly logs: readonly string[];
  /** Lines that `console.error` and `console.warn` wrote. */
  readonly warnings: readonly string[];
  /** Marks of everything that this block and earlier blocks have put into the global object. */
  readonly descriptor: Descriptor;
}

/** The engine of js blocks. Each run of a script has one isolated global object. */
export interface JsEngine {
  run(call: JsCall): MaybePromise<Outcome<JsResult>>;
  close(): void;
}
