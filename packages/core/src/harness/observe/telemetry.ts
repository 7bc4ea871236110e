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
import { getOwn, plainText } from '../../base/index.ts';
import type {
  DataOf,
  HookAnswered,
  JournalEvent,
  Noted,
  Reply,
  ToolResult,
} from '../../journal/index.ts';
import type { Usage } from '../../llm/index.ts';
import type { ThreadFacts } from '../thread/ports.ts';

/** Receives every event of every thread. */
export interface Telemetry {
  (thread: string, event: Noted): void;
  /** Called when a thread starts or resumes, because its span belongs to the context that is active then. */
  opened?(thread: string): void;
}

interface TelemetryPorts {
  now(): number;
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
  return {
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
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': data.provider,
      'gen_ai.request.model': data.model,
      'gen_ai.request.max_tokens': data.max_tokens,
    },
  });
}

function endRequest(own: Open, reply: Reply | undefined, error?: string): void {
  if (reply) own.request?.setAttributes(usageAttributes(reply));
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

/** Keeps the spans of the threads that run here. */
function createSpans({ now, thread: describe }: TelemetryPorts) {
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
  const onEvent = (id: string, event: Noted): void => {
    // This event repeats other events, and the last one comes after the end of the thread.
    if (event.type === 'status') return;
    const own = open.get(id) ?? begin(id);
    if (!own) return;
    const { type, data } = event;
    if (type === 'turn_start') startTurn(own, data, event.turn);
    else if (type === 'assistant_message' && !data.injected) endRequest(own, data);
    else if (type === 'tool_call') startCall(own, data);
    else if (type === 'tool_result') endCall(own, data);
    else if (type === 'hook') hook(own, data, now());
    else if (type === 'error') endRequest(own, undefined, data.code);
    else if (type === 'thread_end') {
      endThread(own, data);
      open.delete(id);
    }
  };
  return Object.assign(onEvent, { opened });
}

type Instruments = ReturnType<typeof instruments>;

function countUsage({ tokens, spend }: Instruments, reply: Reply): void {
  const attributes = { 'gen_ai.operation.name': 'chat', 'gen_ai.response.model': reply.model };
  const { usage } = reply;
  tokens.record(inputTokens(usage), { ...attributes, 'gen_ai.token.type': 'input' });
  tokens.record(usage.output_tokens, { ...attributes, 'gen_ai.token.type': 'output' });
  const spent = Number(reply.spend);
  if (spent > 0) spend.add(spent, attributes);
}

/** Returns a function that counts events. Another SDK gets new instruments. */
function createMeasures(): (event: JournalEvent) => void {
  let measured: { provider: unknown; by: Instruments } | undefined;
  const instrumentsNow = (): Instruments => {
    const provider = metrics.getMeterProvider();
    if (measured?.provider !== provider) measured = { provider, by: instruments() };
    return measured.by;
  };
  return ({ type, data }) => {
    if (type === 'permission_denied') {
      const missing = plainText(data.detail.missing) || 'policy';
      instrumentsNow().denials.add(1, { 'kernmantle.capability': missing });
    } else if (type === 'assistant_message' && !data.injected) countUsage(instrumentsNow(), data);
  };
}

export function createTelemetry(ports: TelemetryPorts): Telemetry {
  const [span, measure] = [createSpans(ports), createMeasures()];
  const onEvent = (thread: string, event: Noted): void => {
    span(thread, event);
    measure(event);
  };
  return Object.assign(onEvent, { opened: span.opened });
}

interface WrittenTrace {
  readonly traceparent?: string;
  readonly tracestate?: string;
}

interface RequestSpan {
  readonly name: string;
  readonly side: 'server' | 'client';
  readonly attributes: Attributes;
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
