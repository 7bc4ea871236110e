// Implements the Gemini API: the used parts of its request body, and the frames of `streamGenerateContent`. A part
// with a function call is whole, because no request asks for calls in pieces. Usage is cumulative in every frame.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  parseObject,
  plainText,
  setOwn,
  textAt,
} from '../base/index.ts';
import { fileMark } from './file-marks.ts';
import {
  type Block,
  type FileBlock,
  type Message,
  type ProviderRequest,
  type Receiver,
  type Stop,
  sealFor,
  type ToolDefinition,
} from './message.ts';
import { errorFault } from './provider-fault.ts';
import {
  type Draft,
  type DraftKind,
  type ReplyDraft,
  type ReplyProtocol,
  stopIn,
} from './reply-draft.ts';
import { readGeminiUsage } from './usage.ts';

/** Text that the API documents for a call whose signature another model wrote or nobody has. */
const NO_SIGNATURE = 'skip_thought_signature_validator';
/** Models before Gemini 3, which need no signature and know no such text. */
const IS_OLDER = /^gemini-[12]\b/;
/** Id that `finishReply` gives to a call without one. The API does not know it. */
const LOCAL_ID = /^call_\d+$/;

const idOf = (id: string): JsonObject => (LOCAL_ID.test(id) ? {} : { id });

const writeInlineData = ({ mime, sha256 }: FileBlock): JsonObject => ({
  inlineData: { mimeType: mime, data: fileMark(sha256) },
});

const writeParts = (content: readonly Block[]): JsonObject[] =>
  content.flatMap((block): JsonObject[] => {
    if (block.type === 'file') return [writeInlineData(block)];
    return block.type === 'text' && block.text !== '' ? [{ text: block.text }] : [];
  });

/** Writes results in the order of their calls, each with its files, and then the texts of the user. */
function writeUser(content: readonly Block[], before: Message | undefined): JsonObject[] {
  const calls = before?.content.filter((block) => block.type === 'tool_call') ?? [];
  const callIndex = (id: string): number => calls.findIndex((call) => call.id === id);
  const results = content
    .filter((block) => block.type === 'tool_result')
    .toSorted((a, b) => callIndex(a.id) - callIndex(b.id));
  const written = results.flatMap(({ id, content: result, is_error, files = [] }): JsonObject[] => {
    const name = calls.find((call) => call.id === id)?.name ?? 'unknown';
    const response: JsonObject = is_error ? { error: plainText(result) } : { result };
    return [{ functionResponse: { ...idOf(id), name, response } }, ...writeParts(files)];
  });
  return [...written, ...writeParts(content)];
}

/** Writes parts as they came. A part with a signature is never merged with another one. */
function writeReply(content: readonly Block[], { model, sealedBy }: Receiver): JsonObject[] {
  let isFirst = !IS_OLDER.test(model);
  return content.flatMap((block): JsonObject[] => {
    if (block.type === 'tool_result' || block.type === 'file') return [];
    const seal = sealFor(block, sealedBy);
    if (block.type === 'tool_call') {
      const { id, name, arguments: args } = block;
      const signature = seal ?? (isFirst ? NO_SIGNATURE : undefined);
      isFirst = false;
      const sealed = signature !== undefined && { thoughtSignature: signature };
      return [{ functionCall: { ...idOf(id), name, args }, ...sealed }];
    }
    const isThought = block.type === 'thinking';
    if (seal === undefined) return isThought || block.text === '' ? [] : [{ text: block.text }];
    return [{ text: block.text, ...(isThought && { thought: true }), thoughtSignature: seal }];
  });
}

/** `before`: the message before this one, which has the calls of its results. */
export function writeGeminiMessage(
  { role, content }: Message,
  to: Receiver,
  before?: Message,
): readonly JsonObject[] {
  const isReply = role === 'assistant';
  const parts = isReply ? writeReply(content, to) : writeUser(content, before);
  return parts.length === 0 ? [] : [{ role: isReply ? 'model' : 'user', parts }];
}

/** Keywords of a schema that the API accepts. The kernel checks the whole schema. */
const KEYWORDS: ReadonlySet<string> = new Set(
  '$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf properties additionalProperties required'.split(
    ' ',
  ),
);
/** Keywords whose value has names of its own. */
const TABLES: ReadonlySet<string> = new Set(['properties', '$defs']);

function reduced(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(reduced);
  if (!isObject(schema)) return schema;
  const result: JsonObject = {};
  for (const [key, value] of Object.entries(schema)) {
    if (!KEYWORDS.has(key)) continue;
    if (key === 'enum' || key === 'required') result[key] = value;
    else if (!TABLES.has(key) || !isObject(value)) result[key] = reduced(value);
    else {
      const table: JsonObject = {};
      for (const [name, child] of Object.entries(value)) setOwn(table, name, reduced(child));
      result[key] = table;
    }
  }
  return result;
}

export function writeGeminiTool({ name, description, input_schema }: ToolDefinition): JsonObject {
  const parametersJsonSchema = isObject(input_schema) ? reduced(input_schema) : { type: 'object' };
  return { name, description, parametersJsonSchema };
}

export function geminiParameters(
  request: ProviderRequest,
  messages: JsonObject[],
  tools: JsonObject[],
): JsonObject {
  const { model, system, max_tokens, stream, temperature, reasoning } = request;
  return {
    model,
    stream,
    ...(system !== '' && { system_instruction: { parts: [{ text: system }] } }),
    messages,
    ...(tools.length > 0 && { tools: [{ functionDeclarations: tools }] }),
    generation_config: {
      maxOutputTokens: max_tokens,
      ...(reasoning !== 'off' && { thinkingConfig: { includeThoughts: true } }),
      ...(temperature !== undefined && { temperature }),
    },
  };
}

const STOPS: Readonly<Record<string, Stop>> = {
  STOP: 'end',
  MAX_TOKENS: 'max_tokens',
  CONTINUATION: 'max_tokens',
  ...Object.fromEntries(
    'SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY LANGUAGE'
      .split(' ')
      .map((reason) => [reason, 'refusal' as const]),
  ),
};

/** Reasons that are faults. The output is charged. */
const FAULTS: Readonly<Record<string, { reason: string; transient: boolean }>> = {
  MALFORMED_FUNCTION_CALL: { reason: 'malformed_call', transient: true },
  UNEXPECTED_TOOL_CALL: { reason: 'malformed_call', transient: true },
  MISSING_THOUGHT_SIGNATURE: { reason: 'seal_rejected', transient: false },
};

/** Closes a text or a thought, because another part follows. A call is closed by its own part. */
function closeLast({ blocks }: ReplyDraft): void {
  const last = blocks.at(-1);
  if (last && last.kind !== 'tool_call') last.isClosed = true;
}

/** Returns a block for a text: the last one, unless it is of another kind or one of the two has a signature. */
function textBlock(reply: ReplyDraft, kind: DraftKind, signature: string): Draft | undefined {
  const last = reply.blocks.at(-1);
  if (last?.kind === kind && !last.isClosed && signature === '') return last;
  closeLast(reply);
  return reply.begin(kind);
}

function addCall(reply: ReplyDraft, call: JsonObject): Draft | undefined {
  closeLast(reply);
  const draft = reply.begin('tool_call', textAt(call, 'id'), textAt(call, 'name'));
  if (!draft) return undefined;
  const { args, partialArgs, willContinue } = call;
  if (partialArgs !== undefined || willContinue === true) return draft;
  draft.isClosed = true;
  // Without arguments it is complete only if the reply is. An object can never continue.
  if (isObject(args)) [draft.given, draft.isFollowed] = [args, true];
  else if (args !== undefined) reply.append(draft, 'text', JSON.stringify(args));
  return draft;
}

function addPart(reply: ReplyDraft, part: Json): void {
  const [text, call] = [getOwn(part, 'text'), getOwn(part, 'functionCall')];
  const signature = textAt(part, 'thoughtSignature');
  let draft: Draft | undefined;
  if (isObject(call)) draft = addCall(reply, call);
  else if (typeof text === 'string' && (text !== '' || signature !== '')) {
    draft = textBlock(reply, getOwn(part, 'thought') === true ? 'thinking' : 'text', signature);
    if (draft) reply.append(draft, 'text', text);
  }
  if (!draft || signature === '') return;
  reply.append(draft, 'seal', signature);
  if (draft.kind !== 'tool_call') draft.isClosed = true;
}

function endReply(reply: ReplyDraft, reason: string): void {
  const fault = Object.hasOwn(FAULTS, reason) ? FAULTS[reason] : undefined;
  if (fault) {
    const message = `the model did not write a valid call: ${reason}`;
    reply.fault ??= fail('provider_error', message, { ...fault, provider_code: reason });
  }
  reply.stop = stopIn(STOPS, reason);
  for (const block of reply.blocks) if (block.kind !== 'tool_call') block.isClosed = true;
}

/** Reads a frame, or a whole answer. */
function takeFrame(reply: ReplyDraft, frame: JsonObject): void {
  reply.model = textAt(frame, 'modelVersion').slice(0, 200) || reply.model;
  const usage = readGeminiUsage(getOwn(frame, 'usageMetadata'));
  if (usage.input_tokens !== undefined) reply.reported = usage;
  if (reply.stop !== undefined) return;
  const [candidate] = listAt(frame, 'candidates');
  for (const part of listAt(getOwn(candidate, 'content'), 'parts')) addPart(reply, part);
  const reason = textAt(candidate, 'finishReason');
  if (reason !== '') endReply(reply, reason);
  if (textAt(getOwn(frame, 'promptFeedback'), 'blockReason') !== '') reply.stop = 'refusal';
}

export const geminiReply: ReplyProtocol = {
  // After the reason for the end only usage counts.
  takeText: ({ stop }, data) => stop !== undefined && parseObject(data) === undefined,
  take(reply, event) {
    const { error } = event;
    if (!isObject(error) || reply.stop !== undefined) return takeFrame(reply, event);
    const { code } = error;
    reply.fault ??= errorFault(error, typeof code === 'number' && code >= 400 ? code : undefined);
  },
  finish(reply) {
    reply.isDone = reply.stop !== undefined;
    reply.isFinal = reply.isDone && reply.reported.output_tokens !== undefined;
  },
  takeBody(reply, body) {
    takeFrame(reply, body);
    return reply.stop === undefined ? '`finishReason`' : undefined;
  },
};
