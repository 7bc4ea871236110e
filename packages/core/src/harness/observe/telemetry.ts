// Creates spans and metrics from recorded events. The user chooses the SDK. Without a registered SDK nothing is
// created. INVARIANT: spans and metrics have names and numbers, never the text of messages, arguments or results.
import {
  type Attributes,
  type Context,
  context,
  createTraceState,
  isSpanContextValid,
  metrics,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import {
  type Clock,
  compact,
  getOwn,
  type Json,
  numberAt,
  parseObject,
  plainText,
  textAt,
} from '../../base/index.ts';
import type {
  DataOf,
  HookAnswered,
  JournalEvent,
  Noted,
  Reply,
  ToolResult,
} from '../../journal/index.ts';
import type { Usage } from '../../llm/index.ts';
import type { RawStream, ThreadFacts } from '../thread/ports.ts';

/** Receives every event of every thread. */
export interface Telemetry {
  (thread: string, event: Noted): void;
  /** Called when a thread starts or resumes, because its span belongs to the context that is active then. */
  opened?(thread: string): void;
  /** Returns an observer of the request that the thread sends now. It keeps times, numbers and an id. */
  request?(thread: string): RawStream;
}

interface TelemetryPorts {
  clock: Clock;
  /** Returns facts of a thread that this process started or resumed. */
  thread(id: string): ThreadFacts | undefined;
}

interface Open {
  thread: Span;
  within: Context;
  turn?: Span;
  request?: Span;
  calls: Map<string, Span>;
}

const NAME = 'kernmantle';

function instruments() {
  const meter = metrics.getMeter(NAME);
  const seconds = (name: string, description: string) =>
    meter.createHistogram(`gen_ai.client.operation.${name}`, { unit: 's', description });
  return {
    duration: seconds('duration', 'time of a model request'),
    first: seconds('time_to_first_chunk', 'time from a request to the first piece of its answer'),
    next: seconds('time_per_output_chunk', 'time between two pieces of an answer'),
    tokens: meter.createHistogram('gen_ai.client.token.usage', {
      unit: '{token}',
      description: 'tokens of a model request',
    }),
    spend: meter.createCounter('kernmantle.spend', {
      unit: '{currency}',
      description: 'money of model requests, by the price row that was used',
    }),
    denials: meter.createCounter('kernmantle.denials', {
      unit: '{denial}',
      description: 'steps that a right, a policy or a guard refused',
    }),
  };
}

/** Names of the conventions, by the name of a provider. Any other provider keeps its own name. */
const PROVIDERS: Readonly<Record<string, string>> = {
  gemini: 'gcp.gemini',
  google: 'gcp.gemini',
  vertex: 'gcp.vertex_ai',
  'google-vertex': 'gcp.vertex_ai',
  bedrock: 'aws.bedrock',
  'amazon-bedrock': 'aws.bedrock',
  azure: 'azure.ai.openai',
};
const providerName = (name: string): string =>
  Object.hasOwn(PROVIDERS, name) ? (PROVIDERS[name] ?? name) : name;

const requestAttributes = ({ model, provider }: DataOf<'turn_start'>): Attributes => ({
  'gen_ai.operation.name': 'chat',
  'gen_ai.provider.name': providerName(provider),
  'gen_ai.request.model': model,
});

/** Returns the facts of a request's body. Its texts are not read. */
function bodyFacts(url: URL, body: Json): Attributes {
  const config = getOwn(body, 'generationConfig');
  const format =
    getOwn(body, 'response_format') ??
    getOwn(getOwn(body, 'output_config') ?? getOwn(body, 'text'), 'format') ??
    getOwn(config, 'responseJsonSchema');
  return compact({
    'server.address': url.hostname,
    'server.port': Number(url.port) || (url.protocol === 'http:' ? 80 : 443),
    'gen_ai.request.temperature': numberAt(body, 'temperature') ?? numberAt(config, 'temperature'),
    'gen_ai.output.type': format === undefined ? 'text' : 'json',
  });
}

/** Only an id is copied: a server could send any text in this field. */
const RESPONSE_ID = /^[\w.:-]{1,128}$/;
const REASONING = /"(?:reasoning_tokens|thoughtsTokenCount)"/;

/** Returns the id of a response and its tokens of reasoning, from an event of any protocol. */
function eventFacts(event: Json): Attributes {
  const response = getOwn(event, 'response') ?? getOwn(event, 'message') ?? event;
  const id = textAt(response, 'id') || textAt(response, 'responseId');
  const usage = getOwn(response, 'usage');
  const details =
    getOwn(usage, 'completion_tokens_details') ?? getOwn(usage, 'output_tokens_details');
  const tokens =
    numberAt(details, 'reasoning_tokens') ??
    numberAt(getOwn(response, 'usageMetadata'), 'thoughtsTokenCount');
  return compact({
    'gen_ai.response.id': RESPONSE_ID.test(id) ? id : undefined,
    'gen_ai.usage.reasoning.output_tokens': tokens,
  });
}

/** Returns the number of all input tokens. Other attributes have the cached parts. */
const inputTokens = ({ input_tokens, cache_read_tokens, cache_write_tokens }: Usage): number =>
  input_tokens + cache_read_tokens + cache_write_tokens;

const usageAttributes = ({ usage, model, stop, price_row }: Reply): Attributes => ({
  'gen_ai.response.model': model,
  'gen_ai.response.finish_reasons': [stop],
  'gen_ai.usage.input_tokens': inputTokens(usage),
  'gen_ai.usage.output_tokens': usage.output_tokens,
  'gen_ai.usage.cache_read.input_tokens': usage.cache_read_tokens,
  'gen_ai.usage.cache_creation.input_tokens': usage.cache_write_tokens,
  'kernmantle.price_row': price_row,
});

/** Ends a span with a code. A message can contain values, so it is never part of a span. */
function endWith(span: Span | undefined, error?: string): void {
  if (!span) return;
  if (error) {
    span.setAttribute('error.type', error);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

/** True if an SDK is registered. */
function isRecorded(): boolean {
  const provider = trace.getTracerProvider();
  return (
    !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer(NAME) !== undefined
  );
}

const FAILED = new Set(['failed', 'limit', 'denied', 'aborted', 'terminated', 'killed']);

const startChild = (name: string, at: Context, options: SpanOptions): Span =>
  trace.getTracer(NAME).startSpan(name, options, at);
const inTurn = (own: Open): Context =>
  own.turn ? trace.setSpan(own.within, own.turn) : own.within;

function startTurn(own: Open, data: DataOf<'turn_start'>, turn: number): void {
  endWith(own.turn);
  const attributes = { 'kernmantle.turn': turn };
  own.turn = startChild(`turn ${turn}`, own.within, { attributes });
  own.request = startChild(`chat ${data.model}`, inTurn(own), {
    kind: SpanKind.CLIENT,
    attributes: {
      ...requestAttributes(data),
      'gen_ai.request.max_tokens': data.max_tokens,
      'gen_ai.request.stream': true,
    },
  });
}

function endRequest(own: Open, { reply, error }: RequestEnd, facts: Attributes = {}): void {
  own.request?.setAttributes({ ...facts, ...(reply && usageAttributes(reply)) });
  endWith(own.request, error);
  delete own.request;
}

function startCall(own: Open, { tool, call_id: id }: DataOf<'tool_call'>): void {
  const attributes = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': tool,
    'gen_ai.tool.call.id': id,
    'gen_ai.tool.type': 'function',
  };
  own.calls.set(id, startChild(`execute_tool ${tool}`, inTurn(own), { attributes }));
}

function endCall(own: Open, { call_id: id, content, is_error }: ToolResult): void {
  const code = getOwn(getOwn(content, 'error'), 'code');
  endWith(own.calls.get(id), is_error ? plainText(code) || 'error' : undefined);
  own.calls.delete(id);
}

/** Adds the span of a hook at its end. The duration determines its start. */
function hook(own: Open, { directive, event, decision, duration_ms }: HookAnswered, ended: number) {
  const attributes = {
    'kernmantle.hook.directive': directive,
    'kernmantle.hook.event': event,
    'kernmantle.hook.decision': decision,
  };
  const startTime = ended - duration_ms;
  startChild(`hook ${directive}`, inTurn(own), { attributes, startTime }).end(ended);
}

function endThread(own: Open, { status, code }: DataOf<'thread_end'>): void {
  for (const call of own.calls.values()) endWith(call, 'cancelled');
  endWith(own.request, own.request && 'cancelled');
  endWith(own.turn);
  own.thread.setAttribute('kernmantle.thread.status', status);
  endWith(own.thread, FAILED.has(status) ? (code ?? status) : undefined);
}

interface RequestEnd {
  readonly reply?: Reply;
  readonly error?: string;
}

/** Returns the end of the open request, if the event ends one. */
function requestEnd({ type, data }: JournalEvent): RequestEnd | undefined {
  if (type === 'assistant_message') return data.injected ? undefined : { reply: data };
  if (type === 'error') return { error: data.code };
  if (type === 'stream_error') return { error: data.code ?? data.reason };
  return type === 'turn_end' || type === 'thread_end' ? { error: 'cancelled' } : undefined;
}

function describeAgent(own: Open, { version, ran }: DataOf<'thread_start'>): void {
  const id = ran?.items[0]?.sha256;
  own.thread.setAttributes(compact({ 'gen_ai.agent.id': id, 'gen_ai.agent.version': version }));
}

/** Keeps the spans of the threads that run here. */
function createSpans({ clock, thread: describe }: TelemetryPorts) {
  const open = new Map<string, Open>();
  const startedIn = new Map<string, Context>();
  function begin(id: string): Open | undefined {
    const around = startedIn.get(id) ?? context.active();
    startedIn.delete(id);
    if (!isRecorded()) return undefined;
    const about = describe(id);
    const parent = about?.parent === undefined ? undefined : open.get(about.parent);
    const name = `invoke_agent ${about?.directive ?? ''}`.trim();
    const attributes = {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': about?.directive ?? '',
      'gen_ai.conversation.id': id,
      'kernmantle.thread.kind': about?.kind ?? 'thread',
    };
    const span = startChild(name, parent?.within ?? around, { attributes });
    const within = trace.setSpan(around, span);
    const own: Open = { thread: span, within, calls: new Map() };
    open.set(id, own);
    return own;
  }
  const opened = (id: string): void => void startedIn.set(id, context.active());
  const onEvent = (id: string, event: Noted, facts?: Attributes): void => {
    // This event repeats other events, and the last one comes after the end of the thread.
    if (event.type === 'status') return;
    const own = open.get(id) ?? begin(id);
    if (!own) return;
    const { type, data } = event;
    const end = own.request && requestEnd(event);
    if (end) endRequest(own, end, facts);
    if (type === 'thread_start') describeAgent(own, data);
    else if (type === 'turn_start') startTurn(own, data, event.turn);
    else if (type === 'tool_call') startCall(own, data);
    else if (type === 'tool_result') endCall(own, data);
    else if (type === 'hook') hook(own, data, clock.now());
    else if (type === 'thread_end') {
      endThread(own, data);
      open.delete(id);
    }
  };
  return Object.assign(onEvent, { opened });
}

type Instruments = ReturnType<typeof instruments>;

function countUsage({ tokens, spend }: Instruments, reply: Reply, request: Attributes): void {
  const attributes = { ...request, 'gen_ai.response.model': reply.model };
  const { usage } = reply;
  tokens.record(inputTokens(usage), { ...attributes, 'gen_ai.token.type': 'input' });
  tokens.record(usage.output_tokens, { ...attributes, 'gen_ai.token.type': 'output' });
  const spent = Number(reply.spend);
  if (spent > 0) spend.add(spent, attributes);
}

interface OpenRequest {
  readonly at: number;
  readonly attributes: Attributes;
  facts: Attributes;
  lastChunk?: number;
}

/** Measures events and the streams of requests. Another SDK gets new instruments. */
function createMeasures({ clock }: TelemetryPorts) {
  const open = new Map<string, OpenRequest>();
  let measured: { provider: unknown; by: Instruments } | undefined;
  const instrumentsNow = (): Instruments => {
    const provider = metrics.getMeterProvider();
    if (measured?.provider !== provider) measured = { provider, by: instruments() };
    return measured.by;
  };
  const secondsSince = (at: number): number => (clock.monotonic() - at) / 1000;
  function chunk(request: OpenRequest, data: string): void {
    const { lastChunk, attributes } = request;
    const isFirst = lastChunk === undefined;
    const seconds = secondsSince(lastChunk ?? request.at);
    request.lastChunk = clock.monotonic();
    instrumentsNow()[isFirst ? 'first' : 'next'].record(seconds, attributes);
    const facts = isFirst || REASONING.test(data) ? eventFacts(parseObject(data) ?? null) : {};
    const time = isFirst && { 'gen_ai.response.time_to_first_chunk': seconds };
    request.facts = { ...request.facts, ...facts, ...time };
  }
  return {
    facts: (id: string): Attributes | undefined => open.get(id)?.facts,
    request: (id: string): RawStream => ({
      sent(url, body) {
        const request = open.get(id);
        if (request) request.facts = bodyFacts(url, parseObject(body) ?? null);
      },
      write({ data }) {
        const request = open.get(id);
        if (request) chunk(request, data);
      },
      end: () => undefined,
    }),
    onEvent(id: string, event: JournalEvent): void {
      const { type, data } = event;
      if (type === 'permission_denied') {
        const missing = plainText(data.detail.missing) || 'policy';
        instrumentsNow().denials.add(1, { 'kernmantle.capability': missing });
      } else if (type === 'turn_start') {
        open.set(id, { at: clock.monotonic(), attributes: requestAttributes(data), facts: {} });
      }
      const request = open.get(id);
      const end = request && requestEnd(event);
      if (!request || !end) return;
      open.delete(id);
      const error = end.error === undefined ? {} : { 'error.type': end.error };
      instrumentsNow().duration.record(secondsSince(request.at), {
        ...request.attributes,
        ...error,
      });
      if (end.reply) countUsage(instrumentsNow(), end.reply, request.attributes);
    },
  };
}

export function createTelemetry(ports: TelemetryPorts): Telemetry {
  const [span, measure] = [createSpans(ports), createMeasures(ports)];
  const onEvent = (thread: string, event: Noted): void => {
    span(thread, event, measure.facts(thread));
    measure.onEvent(thread, event);
  };
  return Object.assign(onEvent, { opened: span.opened, request: measure.request });
}

interface WrittenTrace {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

export interface RequestSpan {
  readonly name: string;
  readonly side: 'server' | 'client';
  readonly attributes: Readonly<Record<string, string | number>>;
  /** Trace of the caller. Absent: the active context. */
  readonly parent?: WrittenTrace;
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

function contextOf({ traceparent = '', tracestate = '' }: WrittenTrace): Context | undefined {
  const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(traceparent) ?? [];
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return undefined;
  const traceFlags = Number.parseInt(flags, 16);
  const state = tracestate === '' ? {} : { traceState: createTraceState(tracestate) };
  const remote = { traceId, spanId, traceFlags, isRemote: true, ...state };
  return trace.setSpanContext(ROOT_CONTEXT, remote);
}

/** Returns the context for a peer. Empty without a trace: an SDK that records nothing has an id of zeros. */
function writtenContext(span: Span): WrittenTrace {
  if (!isSpanContextValid(span.spanContext())) return {};
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  const flags = traceFlags.toString(16).padStart(2, '0');
  const tracestate = traceState?.serialize() ?? '';
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate && { tracestate }) };
}

/** Runs work in a span. `failed` returns the code of an answer that is a failure. Exceptions are rethrown. */
export async function inSpan<T>(
  { name, side, attributes, parent = {} }: RequestSpan,
  work: (own: WrittenTrace) => Promise<T>,
  failed: (answer: T) => string | undefined,
): Promise<T> {
  const around = contextOf(parent) ?? context.active();
  const kind = side === 'server' ? SpanKind.SERVER : SpanKind.CLIENT;
  const span = startChild(name, around, { kind, attributes });
  try {
    const own = writtenContext(span);
    const answer = await context.with(trace.setSpan(around, span), () => work(own));
    endWith(span, failed(answer));
    return answer;
  } catch (error) {
    endWith(span, 'exception');
    throw error;
  }
}
