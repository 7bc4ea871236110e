// What a script needs from outside. The runtime brings it: files, processes, tools and models go
// through the kernel with the operator's policy or a thread's token, so the language itself never
// touches the disk or starts anything.
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
  /** The real, absolute path. */
  readonly path: string;
  readonly text: string;
  /** `src:file`, `dir:…` and whatever was recorded when the file was written. */
  readonly descriptor: Descriptor;
}

/** What a look at names found, with the marks of the places: that something is missing tells, too. */
export interface Looked<T> {
  readonly found: T;
  readonly descriptor: Descriptor;
}

export interface ProcessRequest {
  /** `cmd`: command lines, already quoted, run one after the other until one fails. */
  readonly kind: 'cmd' | 'sh';
  /** For `cmd` a list of lines; the first that fails ends it. */
  readonly source: string | readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string | undefined;
  /** Absolute; must be inside the project. */
  readonly folder: string;
  readonly timeoutMs: number | undefined;
  /** Told what it prints, as it comes. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

export interface ProcessResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
  readonly signal: string | undefined;
  /** Of all that it could look at. */
  readonly descriptor: Descriptor;
}

/** What a block of any language is given. */
interface CodeBlock {
  readonly source: string;
  readonly parameters: readonly { readonly name: string; readonly value: JsArgument }[];
  /** Functions it may call by name; those with a source are compiled there. */
  readonly helpers: readonly CodeHelper[];
  readonly timeoutMs: number | undefined;
  /** Told what it prints, as it comes. */
  readonly onOutput?: ((text: string) => void) | undefined;
}

/** A `node` or `py` block: a process of its own, values handed over as data. */
export interface CodeRequest extends CodeBlock {
  readonly kind: 'node' | 'py';
  /** What `mx` and `ctx` are. */
  readonly mx: Json;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string | undefined;
  readonly folder: string;
}

export interface CodeResult {
  /** What the block returned; undefined when it returned nothing. */
  readonly value: Json | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** Of all that it could look at. */
  readonly descriptor: Descriptor;
}

export interface ScriptWorld {
  /** The project folder, absolute. */
  readonly root: string;
  /** The person's own folder, which `~` stands for in patterns of files. */
  readonly home?: string;
  /** Patterns of what a policy's `allow` does not open by itself; read when it is first asked for. */
  dangers?(): readonly string[];
  /** Where a path leads, as far as it exists. */
  realPath?(path: string): string;
  now(): Date;
  /** `not_found`, with the marks of the place, when there is no such file. Paths are absolute. */
  readFile(path: string, frame: Frame): MaybePromise<Outcome<LoadedText>>;
  /** Absolute paths of the files an absolute glob matches, sorted. */
  glob(pattern: string, frame: Frame): MaybePromise<Outcome<Looked<readonly string[]>>>;
  exists(path: string, frame: Frame): MaybePromise<Looked<boolean>>;
  /** Names in a folder; `isFolder` for each. */
  list(
    path: string,
    frame: Frame,
  ): MaybePromise<Outcome<Looked<readonly { name: string; isFolder: boolean }[]>>>;
  /** Creates folders on the way; remembers the marks of the value for whoever reads the file. */
  writeFile(
    request: {
      path: string;
      text: string;
      append: boolean;
      descriptor: Descriptor;
      /** Of what the path was made of. */
      named: Descriptor;
      /** The content that a person approved this write over, by its hash; `new`: nothing. */
      approved?: string | undefined;
    },
    frame: Frame,
  ): MaybePromise<Outcome<null>>;
  /** The refusal that a write to this path would come to, whatever a person answers. */
  refusesWrite?(path: string): Promise<Failure | undefined>;
  /** Returns what a call of this tool would write, for the person who is asked about it. */
  previewTool?(id: string, given: ReadonlyMap<string, Value>): Promise<WritePreview | undefined>;
  /** The same for a file that a statement writes. */
  previewWrite?(
    path: string,
    write: { text: string; append: boolean },
  ): Promise<WritePreview | undefined>;
  /** A non-zero exit is an ordinary result here; only what could not be started or ran out is a fault. */
  process(request: ProcessRequest, frame: Frame): Promise<Outcome<ProcessResult>>;
  /** An exception, a non-zero exit or a timeout is a fault that shows stderr. */
  code(request: CodeRequest, frame: Frame): Promise<Outcome<CodeResult>>;
  readonly js: JsEngine;
  /**
   * Told when the script goes on along more paths at once, or fewer. It begins with one; a path that waits for
   * others does not count.
   */
  paths?(change: number): void;
  /** Any item through the kernel. */
  tool(
    id: string,
    parameters: ReadonlyMap<string, Value>,
    frame: Frame,
  ): MaybePromise<Outcome<Value>>;
  /** The tools of a connector, as their files describe them; absent: there are none here. */
  connector?(name: string, frame: Frame): MaybePromise<Outcome<readonly ConnectorTool[]>>;
  /** How this tool reads what strangers wrote; absent or undefined: as every other does. */
  reads?(id: string): Operation['reads'];
  /** Asks whoever runs the thread. */
  help(action: string, message: Value, frame: Frame): MaybePromise<Outcome<Value>>;
  /** A model through the kernel, without tools. */
  model(
    request: {
      prompt: Value;
      tier: string | undefined;
      /** Told the answer, as it comes. */
      onText?: ((text: string) => void) | undefined;
    },
    frame: Frame,
  ): MaybePromise<Outcome<Value>>;
}

export type JsArgument =
  | { readonly kind: 'data'; readonly data: Json }
  | { readonly kind: 'undefined' }
  /** Data with a text of its own; in stages also with the string methods of that text. */
  | {
      readonly kind: 'textual';
      readonly data: Json;
      readonly text: string;
      readonly isStage: boolean;
    }
  /** `.keep` */
  | {
      readonly kind: 'kept';
      readonly text: string;
      readonly data: Json;
      /** As `.mx.type` has it. */
      readonly type: string;
      readonly mx: Json;
    };

/** A function of the script that blocks may call by name. */
export interface CodeHelper {
  readonly name: string;
  readonly parameters: readonly string[];
  /** A body of the block's kind: becomes a function beside it, plain values in and out. */
  readonly source: string | undefined;
  /** What it knows by name beside its parameters. */
  readonly captured?: CodeBlock['parameters'];
  /** Without a source: called back, with the marks that everything from the block has. `js` alone. */
  call?(values: readonly Json[], descriptor: Descriptor): MaybePromise<Value>;
}

export interface JsCall extends CodeBlock {
  /** What `mx` and `ctx` are; asked for only when the block reads them. */
  mx(): Json;
  /** The marks of all that goes in, and of what led here. */
  readonly descriptor: Descriptor;
}

export interface JsResult {
  /** Undefined: the block returned nothing. */
  readonly value: Json | undefined;
  readonly logs: readonly string[];
  /** What was written to stderr (`console.error`). */
  readonly warnings: readonly string[];
  /** The marks of everything that went into the global object, by this block or before it. */
  readonly descriptor: Descriptor;
}

/** One isolated global object per run of a script. */
export interface JsEngine {
  run(call: JsCall): MaybePromise<Outcome<JsResult>>;
  close(): void;
}
