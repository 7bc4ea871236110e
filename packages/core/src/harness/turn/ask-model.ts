// Sends one request to a model through the provider's tool, which is prepared once per conversation. The events
// of the stream go straight into the reader.
import { text as wholeText } from 'node:stream/consumers';
import {
  compact,
  type Failure,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  textAt,
} from '../../base/index.ts';
import {
  type EmbeddedKernel,
  type FormedBody,
  type StreamEvent,
  type ToolLine,
} from '../../kernel/index.ts';
import {
  askSdkModel,
  bytesForTokens,
  createReader,
  createRequestWriter,
  FOUR_TOOLS,
  type Protocol,
  putFiles,
  type RequestWriter,
  type ResolvedModel,
  replyOf,
  type SdkModel,
  type StreamReader,
  type ToolDefinition,
  type WrittenMessages,
} from '../../llm/index.ts';
import { fitFiles } from '../files/fit-files.ts';
import type { ModelLine, ModelPort, ModelRequest } from '../thread/ports.ts';
import type { Thread } from '../thread/thread.ts';

/** The prepared requests of one conversation, and the tool that sends them. */
interface Sender {
  readonly line: ToolLine;
  readonly model: string;
  /** Model whose seals are sent. Absent: none are sent. */
  readonly by: string | undefined;
  readonly system: string;
  readonly tools: readonly ToolDefinition[];
  readonly writer: RequestWriter;
  formed: FormedBody | undefined;
}

function createSender(
  line: ToolLine,
  protocol: Protocol,
  { model, max_tokens_parameter, reasoning }: ResolvedModel,
  { system, tools, cacheKey }: Pick<ModelRequest, 'system' | 'tools' | 'cacheKey'>,
  thread: string | undefined,
  by: string | undefined,
): Sender {
  const own = compact({ sealedBy: by, max_tokens_parameter, reasoning, cache_key: cacheKey });
  const fixed = { model, system, tools, stream: true, ...own };
  const writer = createRequestWriter(protocol, fixed, (parameters) => {
    const formed = line.form(parameters, 'messages', thread);
    if (!formed.ok) return formed;
    sender.formed = formed.output;
    return ok(formed.output.text);
  });
  const sender: Sender = { line, model, by, system, tools, writer, formed: undefined };
  return sender;
}

/** Returns the name of a model in its seals. */
export const sealerOf = ({ provider, model }: ResolvedModel): string => `${provider}/${model}`;

/** Returns a line for each failed sink. The stream continued without them. */
const failedSinks = (reports: Json): string[] =>
  (Array.isArray(reports) ? reports : []).flatMap((report) => {
    const error = textAt(report, 'error');
    return error === '' ? [] : `sink \`${textAt(report, 'type')}\` of the stream: ${error}`;
  });

/** Feeds events to the reader. After an error the stream continues without it. */
function feed(reader: StreamReader, raw: ModelRequest['raw'] = []) {
  let isOpen = true;
  return {
    events(events: readonly StreamEvent[]): void {
      for (const event of events) {
        for (const stream of raw) stream.write(event);
        if (isOpen) isOpen = reader.push(event).ok;
      }
    },
    end: () => raw.forEach((stream) => stream.end()),
  };
}

/** Opens a model object of the AI SDK for one request. */
export type OpenSdkModel = (model: ResolvedModel) => Promise<
  Outcome<{
    readonly model: SdkModel;
    /** Returns the failure of our own `fetch` that caused an error of the object. */
    failureIn?(error: unknown): Failure | undefined;
    close?(): void;
  }>
>;

/** Returns the line to a model object. The object is asked with `doStream`, once for each request. */
async function sdkLine(resolved: ResolvedModel, open: OpenSdkModel): Promise<Outcome<ModelLine>> {
  const opened = await open(resolved);
  if (!opened.ok) return opened;
  const { model, failureIn, close } = opened.output;
  const by = sealerOf(resolved);
  return ok({
    async ask({ raw = [], areSealsOff, ...request }, signal) {
      const onPart = (part: JsonObject): void => {
        for (const stream of raw) stream.write({ data: JSON.stringify({ part }) });
      };
      const reading = { ...request.reading, sealedBy: by };
      const sealedBy = areSealsOff ? undefined : by;
      const fields = { ...request, reading, sealedBy, ...(raw.length > 0 && { onPart }) };
      try {
        return await askSdkModel(model, failureIn ? { ...fields, failureIn } : fields, signal);
      } finally {
        for (const stream of raw) stream.end();
        close?.();
      }
    },
  });
}

export function createModelPort(
  kernel: Pick<EmbeddedKernel, 'line'>,
  openSdk: OpenSdkModel,
): ModelPort {
  const senders = new WeakMap<WrittenMessages, Sender>();
  /** Returns the same sender until something besides the messages changes. */
  function senderFor(
    line: ToolLine,
    protocol: Protocol,
    model: ResolvedModel,
    request: ModelRequest,
    thread: string | undefined,
  ): Sender {
    const cached = senders.get(request.written);
    const by = request.areSealsOff ? undefined : sealerOf(model);
    const isSame =
      cached?.line === line &&
      cached.model === model.model &&
      cached.by === by &&
      cached.system === request.system &&
      cached.tools === request.tools;
    if (cached && isSame) return cached;
    const sender = createSender(line, protocol, model, request, thread, by);
    senders.set(request.written, sender);
    return sender;
  }

  return async (model, caller) => {
    const { protocol } = model;
    if (protocol === 'ai_sdk') return await sdkLine(model, openSdk);
    const { __thread_id: thread } = caller;
    const tool = thread === undefined ? model.plain_tool : model.provider_tool;
    const admitted = await kernel.line(tool, caller, model.endpoint);
    if (!admitted.ok) return admitted;
    const { line, authority } = admitted.output;
    return ok({
      async ask(request, signal) {
        const { messages, maxTokens, written, raw, marks, sinks, sendBy, files } = request;
        const reading = { ...request.reading, sealedBy: sealerOf(model) };
        const sender = senderFor(line, protocol, model, request, thread);
        const body = sender.writer.body({ messages, maxTokens, written });
        let reader: StreamReader | undefined;
        // A tool with sinks of its own sends its parameters instead of the body.
        const isWhole = sender.formed?.text !== '';
        const whole = body.ok && files && isWhole ? putFiles(body.output, files) : undefined;
        const { url, text } = sender.formed ?? {};
        if (url) for (const stream of raw ?? []) stream.sent?.(url, text ?? '');
        const sent: Outcome<Json> =
          body.ok && sender.formed
            ? await sender.formed.send(whole ?? body.output, {
                caller,
                authority,
                signal,
                ...(marks && { marks }),
                ...(files && !isWhole && { fill: (text) => wholeText(putFiles(text, files)) }),
                ...(sendBy !== undefined && { sendBy }),
                ...(sinks && { filter: () => sinks()?.filter() }),
                reader() {
                  reader = createReader(protocol, reading);
                  return feed(reader, raw);
                },
              })
            : body;
        const reports = getOwn(sent.ok ? sent.output : sent.error.detail, 'stream_destinations');
        if (reports) for (const words of failedSinks(reports)) sinks?.()?.trouble(words);
        const { provider } = model;
        return replyOf(protocol, sent, { ...reading, provider, ...(reader && { reader }) });
      },
    });
  };
}

export const MODEL_TOOLS: readonly ToolDefinition[] = FOUR_TOOLS.map(
  ({ name, description, input }) => ({ name, description, input_schema: input }),
);
export const MODEL_TOOLS_BYTES = JSON.stringify(MODEL_TOOLS).length;

const toolBytes = (tools: readonly ToolDefinition[] = MODEL_TOOLS): number =>
  tools === MODEL_TOOLS ? MODEL_TOOLS_BYTES : JSON.stringify(tools).length;

/** Returns the size of the next request in bytes. Files count as the text that would have as many tokens. */
export function requestBytes(thread: Pick<Thread, 'ports' | 'talk'>): number {
  const { conversation, system, tools } = thread.talk;
  const files = bytesForTokens(fitFiles(thread).tokens);
  return (
    conversation.bytes() + system.length + (tools?.length === 0 ? 0 : toolBytes(tools)) + files
  );
}
