// Asks a model object of the AI SDK (specification v3 or v4) and reads its stream by the rules of every protocol. The
// object is code of a program or of a package that the user installed. What its parts contain is untrusted.
import {
  canonicalJson,
  type Failure,
  fail,
  getOwn,
  isObject,
  type JsonObject,
  messageOf,
  type Outcome,
  parseJson,
  plainText,
  textAt,
} from '../base/index.ts';
import type { FileSource } from './file-marks.ts';
import {
  type Block,
  type FileBlock,
  type Message,
  type ModelReply,
  type Stop,
  sealFor,
  type ToolDefinition,
} from './message.ts';
import { providerFault } from './provider-fault.ts';
import type { ReaderOptions } from './reader.ts';
import { finishReply } from './reply.ts';
import { type Draft, type DraftKind, ReplyDraft, stopIn } from './reply-draft.ts';
import { completeUsage, readSdkUsage } from './usage.ts';

/** The used part of a model object. */
export interface SdkModel {
  readonly specificationVersion: 'v3' | 'v4';
  readonly provider: string;
  readonly modelId: string;
  doStream(options: object): PromiseLike<{
    stream: ReadableStream<unknown>;
  }>;
}

interface SdkRequest {
  readonly system: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  readonly maxTokens: number;
  readonly files?: FileSource | undefined;
  /** Provider and model whose seals are sent. Absent: none are sent. */
  readonly sealedBy?: string | undefined;
  readonly reading: ReaderOptions;
  /** Receives every part before it is read. */
  onPart?(part: JsonObject): void;
  /** Returns the refusal or failure of our own `fetch` inside of an error. */
  failureIn?(error: unknown): Failure | undefined;
}

/** Returns a field of an object that other code made. */
export const propertyIn = (value: unknown, name: string): unknown =>
  (typeof value === 'object' && value !== null) || typeof value === 'function'
    ? Reflect.get(value, name)
    : undefined;

/** True for a model object whose specification this program speaks. */
export function isSdkModel(value: unknown): value is SdkModel {
  const version = propertyIn(value, 'specificationVersion');
  return (
    (version === 'v3' || version === 'v4') &&
    typeof propertyIn(value, 'provider') === 'string' &&
    typeof propertyIn(value, 'modelId') === 'string' &&
    typeof propertyIn(value, 'doStream') === 'function'
  );
}

type Form = Pick<SdkRequest, 'files' | 'sealedBy'> & Pick<SdkModel, 'specificationVersion'>;

const sealOptions = (
  block: Block & { seal?: { by: string; data: string } },
  by: string | undefined,
) => {
  const data = sealFor(block, by);
  const options = data === undefined ? undefined : parseJson(data);
  return options?.ok ? { providerOptions: options.output } : {};
};

async function fileData({ sha256 }: FileBlock, files: FileSource | undefined): Promise<string> {
  const bytes = files?.sizes.has(sha256) ? await files.read(sha256) : new Uint8Array();
  return Buffer.from(bytes).toString('base64');
}

async function filePart(
  file: FileBlock,
  { files, specificationVersion }: Form,
): Promise<JsonObject> {
  const data = await fileData(file, files);
  const { mime: mediaType, name: filename } = file;
  const named = { mediaType, ...(filename !== undefined && { filename }) };
  return specificationVersion === 'v4'
    ? { type: 'file', data: { type: 'data', data }, ...named }
    : { type: 'file', data, ...named };
}

/** Writes a result with its files. Version 3 has another part for a file in a result. */
async function resultOutput(block: Extract<Block, { type: 'tool_result' }>, form: Form) {
  const { content, files, is_error: isError } = block;
  if (!files) {
    const kind = isError ? 'error-' : '';
    return typeof content === 'string'
      ? { type: `${kind}text`, value: content }
      : { type: `${kind}json`, value: content };
  }
  const value: JsonObject[] = [{ type: 'text', text: plainText(content) }];
  for (const file of files) {
    if (file.type === 'text') value.push({ type: 'text', text: file.text });
    else if (form.specificationVersion === 'v4') value.push(await filePart(file, form));
    else {
      const data = await fileData(file, form.files);
      value.push({ type: 'file-data', data, mediaType: file.mime });
    }
  }
  return { type: 'content', value };
}

async function assistantPart(block: Block, { sealedBy }: Form): Promise<JsonObject | undefined> {
  const options = 'seal' in block ? sealOptions(block, sealedBy) : {};
  if (block.type === 'text') return { type: 'text', text: block.text, ...options };
  if (block.type === 'tool_call') {
    const { id: toolCallId, name: toolName, arguments: input } = block;
    return { type: 'tool-call', toolCallId, toolName, input, ...options };
  }
  // A thought without its seal is of no use to a provider.
  if (block.type !== 'thinking' || !('providerOptions' in options)) return undefined;
  return { type: 'reasoning', text: block.text, ...options };
}

/** Writes the conversation. A result needs the name of its call, which only the call has. */
async function promptOf(
  { system, messages, ...request }: SdkRequest,
  form: Form,
): Promise<JsonObject[]> {
  const prompt: JsonObject[] = system === '' ? [] : [{ role: 'system', content: system }];
  const names = new Map<string, string>();
  for (const { role, content } of messages) {
    const [own, results]: [JsonObject[], JsonObject[]] = [[], []];
    for (const block of content) {
      if (block.type === 'tool_call') names.set(block.id, block.name);
      if (block.type === 'tool_result') {
        const toolName = names.get(block.id) ?? 'unknown';
        const output = await resultOutput(block, { ...form, ...request });
        results.push({ type: 'tool-result', toolCallId: block.id, toolName, output });
      } else if (block.type === 'file') own.push(await filePart(block, { ...form, ...request }));
      else {
        const part = await assistantPart(block, { ...form, ...request });
        if (part && (block.type !== 'text' || block.text !== '')) own.push(part);
      }
    }
    if (results.length > 0) prompt.push({ role: 'tool', content: results });
    if (own.length > 0) prompt.push({ role, content: own });
  }
  return prompt;
}

const STOPS: Readonly<Record<string, Stop>> = {
  stop: 'end',
  'tool-calls': 'tool_use',
  length: 'max_tokens',
  'content-filter': 'refusal',
};

const incomplete = (message: string, reason: string): Failure =>
  fail('stream_incomplete', message, { reason });

const disorder = (reply: ReplyDraft, problem: string): void => {
  reply.fault ??= incomplete(`the stream is out of order: ${problem}`, 'garbage');
};

/** Maps an error of a model object. Only an `APICallError` has a status, headers and a body. */
function sdkFault(error: unknown, request: Pick<SdkRequest, 'failureIn'>): Failure {
  const own = request.failureIn?.(error);
  if (own) return own;
  const text = (typeof error === 'string' ? error : messageOf(error)).slice(0, MAX_MESSAGE);
  const message = `the provider reported: ${text}`.replace(/\s+/g, ' ');
  const status = propertyIn(error, 'statusCode');
  if (typeof status !== 'number' || status < 400) {
    const transient = propertyIn(error, 'isRetryable') === true;
    return fail('provider_error', message, { reason: 'server_error', transient });
  }
  const wait = propertyIn(propertyIn(error, 'responseHeaders'), 'retry-after');
  const seconds = typeof wait === 'string' ? Number(wait) : Number.NaN;
  const body = propertyIn(error, 'responseBody');
  return providerFault(
    fail('http_error', message, {
      status,
      sent: true,
      ...(typeof body === 'string' && { body_excerpt: body.slice(0, MAX_BODY) }),
      ...(seconds >= 0 && { retry_after_ms: Math.min(seconds, MAX_WAIT_S) * 1000 }),
    }),
  );
}
const MAX_MESSAGE = 500;
const MAX_BODY = 64 * 1024;
const MAX_WAIT_S = 24 * 60 * 60;

/** Keeps provider data as canonical JSON, so that a later request has the same bytes. */
function addSeal(reply: ReplyDraft, draft: Draft | undefined, part: JsonObject): void {
  const metadata = getOwn(part, 'providerMetadata');
  if (!draft || !isObject(metadata) || Object.keys(metadata).length === 0) return;
  const copy = parseJson(JSON.stringify(metadata));
  if (!copy.ok) return disorder(reply, 'provider data that is no JSON');
  draft.seal = '';
  reply.append(draft, 'seal', canonicalJson(copy.output));
}

type Take = (reply: ReplyDraft, part: JsonObject, open: Map<string, Draft>) => void;

const beginBlock =
  (kind: DraftKind): Take =>
  (reply, part, open) => {
    const draft = reply.begin(kind);
    if (draft) open.set(`${kind}:${textAt(part, 'id')}`, draft);
  };

const appendDelta =
  (kind: DraftKind): Take =>
  (reply, part, open) => {
    const draft = open.get(`${kind}:${textAt(part, 'id')}`);
    if (draft) reply.append(draft, 'text', textAt(part, 'delta'));
    else disorder(reply, `a delta for a ${kind} block that is not open`);
  };

const endBlock =
  (kind: DraftKind): Take =>
  (reply, part, open) => {
    const key = `${kind}:${textAt(part, 'id')}`;
    const draft = open.get(key);
    if (!draft) return disorder(reply, `the end of a ${kind} block that is not open`);
    draft.isClosed = true;
    open.delete(key);
    addSeal(reply, draft, part);
  };

/** A call that the provider executes is refused, because no policy has seen it. */
const refuseProviderTool: Take = (reply, part) => {
  const name = textAt(part, 'toolName').slice(0, 100);
  reply.fault ??= fail(
    'provider_error',
    `the provider executes tool \`${name}\` by itself, which no policy allows`,
    {
      reason: 'provider_tool',
      transient: false,
    },
  );
};

/** Parts of any other type, such as `tool-input-delta`, only show progress and are ignored. */
const PARTS: Readonly<Record<string, Take>> = {
  'text-start': beginBlock('text'),
  'text-delta': appendDelta('text'),
  'text-end': endBlock('text'),
  'reasoning-start': beginBlock('thinking'),
  'reasoning-delta': appendDelta('thinking'),
  'reasoning-end': endBlock('thinking'),
  'tool-call'(reply, part, open) {
    if (getOwn(part, 'providerExecuted') === true) return refuseProviderTool(reply, part, open);
    const draft = reply.begin('tool_call', textAt(part, 'toolCallId'), textAt(part, 'toolName'));
    if (!draft) return;
    reply.append(draft, 'text', textAt(part, 'input'));
    draft.isClosed = true;
    addSeal(reply, draft, part);
  },
  'tool-result': refuseProviderTool,
  'tool-approval-request': refuseProviderTool,
  'tool-input-start'(reply, part, open) {
    if (getOwn(part, 'providerExecuted') === true) refuseProviderTool(reply, part, open);
  },
  'response-metadata'(reply, part) {
    reply.model = textAt(part, 'modelId').slice(0, 200);
  },
  finish(reply, part) {
    const reason = getOwn(part, 'finishReason');
    const unified = typeof reason === 'string' ? reason : textAt(reason, 'unified');
    reply.reported = readSdkUsage(getOwn(part, 'usage'));
    if (unified === 'interrupted') return;
    reply.isDone = true;
    reply.isFinal = reply.reported.output_tokens !== undefined;
    reply.stop = stopIn(STOPS, unified) ?? 'end';
    if (unified !== 'error') return;
    reply.fault ??= fail('provider_error', 'the provider ended the reply with an error', {
      reason: 'server_error',
      transient: true,
    });
  },
};

/** Rejects when the signal aborts, so that a model object that ignores it cannot hold the thread. */
function aborted(signal: AbortSignal): { promise: Promise<never>; release(): void } {
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(signal.reason);
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  promise.catch(() => undefined);
  return { promise, release: () => signal.removeEventListener('abort', stop) };
}

/** Reads parts until the end of the reply. Never rejects; an error is the fault of the reply. */
async function readParts(
  model: SdkModel,
  options: JsonObject,
  request: SdkRequest,
  reply: ReplyDraft,
  signal: AbortSignal,
): Promise<void> {
  const open = new Map<string, Draft>();
  const abort = aborted(signal);
  let reader: ReadableStreamDefaultReader<unknown> | undefined;
  try {
    const answer = await Promise.race([
      model.doStream({ ...options, abortSignal: signal }),
      abort.promise,
    ]);
    reader = answer.stream.getReader();
    while (!reply.isDone && !reply.fault) {
      const { done, value: part } = await Promise.race([reader.read(), abort.promise]);
      if (done) return;
      if (!isObject(part)) {
        disorder(reply, 'a part that is no object');
        return;
      }
      request.onPart?.(part);
      const type = textAt(part, 'type');
      if (type === 'error') reply.fault ??= sdkFault(getOwn(part, 'error'), request);
      else if (Object.hasOwn(PARTS, type)) PARTS[type]?.(reply, part, open);
    }
  } catch (error) {
    reply.fault ??= signal.aborted ? stoppedBy(signal) : sdkFault(error, request);
  } finally {
    abort.release();
    void reader?.cancel().catch(() => undefined);
  }
}

const stoppedBy = ({ reason }: AbortSignal): Failure =>
  propertyIn(reason, 'name') === 'TimeoutError'
    ? fail('timeout', 'the model did not finish in time', { sent: true })
    : fail('cancelled', 'the request was cancelled', { sent: true });

/** Time after which a request ends, as for the tools of the other providers. */
const TOTAL_MS = 15 * 60_000;

/** Sends one request with `doStream`. The cap always travels in it. */
export async function askSdkModel(
  model: SdkModel,
  request: SdkRequest,
  signal: AbortSignal,
): Promise<Outcome<ModelReply>> {
  const { reading, tools, maxTokens } = request;
  const { requestBytes = 0, ratio = 0, sealedBy } = reading;
  const reply = new ReplyDraft(reading.maxCharacters, reading.onText);
  const prompt = await promptOf(request, model);
  const functions = tools.map(({ name, description, input_schema: inputSchema }) => {
    return { type: 'function', name, description, inputSchema };
  });
  const options = {
    prompt,
    maxOutputTokens: maxTokens,
    ...(functions.length > 0 && { tools: functions, toolChoice: { type: 'auto' } }),
  };
  const own = AbortSignal.any([signal, AbortSignal.timeout(TOTAL_MS)]);
  await readParts(model, options, request, reply, own);
  const cut = incomplete('the stream ended without its end marker', 'no_end_marker');
  const fault = reply.fault ?? (reply.isDone ? undefined : cut);
  const measure = { requestBytes, replyBytes: reply.bytes(), ratio, isFinal: reply.isFinal };
  const usage = completeUsage(reply.reported, measure);
  // INVARIANT: a request that was cancelled, or whose provider executed a tool, never yields calls.
  const isVoid =
    fault?.error.code === 'cancelled' || fault?.error.detail.reason === 'provider_tool';
  if (!isVoid) return finishReply(reply, usage, fault, sealedBy);
  const reported = reply.reported.input_tokens !== undefined;
  const { code, detail } = fault.error;
  return fail(code, detail.message, { ...detail, usage: { ...usage }, reported, sent: true });
}
