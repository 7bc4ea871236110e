// Spans and metrics, made from what is recorded anyway; the loop knows nothing of them. Which SDK takes
// them is the user's choice: as long as none is registered, nothing is done.
// INVARIANT: names and numbers only, never what was said, given or returned.
import {
  type Attributes,
  type Context,
  context,
  metrics,
  ProxyTracerProvider,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { getOwn, plainText } from '../../base/index.ts';
import type { Usage } from '../../llm/index.ts';
import type {
  DataOf,
  HookAnswered,
  JournalEvent,
  Noted,
  Reply,
  ToolCall,
  ToolResult,
} from '../thread/journal-event.ts';
import type { ThreadFacts } from '../thread/ports.ts';

/** Told of every event of every thread. */
export type Telemetry = (thread: string, event: Noted) => void;

interface TelemetryPorts {
  /** Milliseconds since 1970. */
  now(): number;
  /** Of a thread that was started here or taken up again. */
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

/** All input counts as input, cached or not; the cached parts are told apart besides. */
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

/** Codes are a closed vocabulary; messages may hold values and stay here. */
function endWith(span: Span | undefined, error?: string): void {
  if (!span) return;
  if (error) {
    span.setAttribute('error.type', error);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

/** Is there an SDK behind the API? */
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

function startCall(own: Open, { tool, call_id: id }: ToolCall): void {
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

/** Told when it is over: it began as long ago as it took. */
function hook(own: Open, { directive, event, deed, duration_ms }: HookAnswered, ended: number) {
  const attributes = {
    'kernmantle.hook.directive': directive,
    'kernmantle.hook.event': event,
    'kernmantle.hook.deed': deed,
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

/** The spans of the threads that are at work here. */
function createSpans({ now, thread: describe }: TelemetryPorts): Telemetry {
  const open = new Map<string, Open>();
  function begin(id: string): Open | undefined {
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
    const made = startChild(name, parent?.within ?? context.active(), { attributes });
    const within = trace.setSpan(context.active(), made);
    const own: Open = { thread: made, within, calls: new Map() };
    open.set(id, own);
    return own;
  }
  return (id, event) => {
    // Says again what other events say; the last one comes after the end.
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

/** The instruments are made anew when another SDK has come. */
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
  return (thread, event) => {
    span(thread, event);
    measure(event);
  };
}
