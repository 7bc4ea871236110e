// A minimal OpenTelemetry SDK that keeps spans and measurements, and the names that the documentation lists.
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  type Context,
  context,
  type Meter,
  metrics,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { onTestFinished } from 'vitest';
import { readPage } from './docs-page.ts';

export interface SeenSpan {
  name: string;
  /** Id of the span or of the remote caller above it. */
  parent: string | undefined;
  id: string;
  attributes: Attributes;
  ended: boolean;
}

export interface Measurement {
  name: string;
  value: number;
  attributes: Attributes;
}

/** Registers the SDK until the test ends. */
export function recordTraces() {
  const spans: SeenSpan[] = [];
  const measurements: Measurement[] = [];
  const tracer = {
    startSpan(name: string, { attributes }: SpanOptions = {}, at: Context = context.active()) {
      const parent = trace.getSpanContext(at)?.spanId;
      const id = `${spans.length}`.padStart(16, 'a');
      const seen: SeenSpan = { name, parent, id, attributes: { ...attributes }, ended: false };
      spans.push(seen);
      const span = {
        setAttribute: (key: string, value: string) => span.setAttributes({ [key]: value }),
        setAttributes(more: Attributes) {
          Object.assign(seen.attributes, more);
          return span;
        },
        setStatus: () => span,
        isRecording: () => true,
        spanContext: () => ({ traceId: 'b'.repeat(32), spanId: id, traceFlags: 1 }),
        end() {
          seen.ended = true;
        },
      };
      return span as unknown as Span;
    },
  };
  const instrument = (name: string) => {
    const keep = (value: number, attributes: Attributes) =>
      measurements.push({ name, value, attributes });
    return { add: keep, record: keep };
  };
  const storage = new AsyncLocalStorage<Context>();
  trace.setGlobalTracerProvider({ getTracer: () => tracer as unknown as Tracer });
  metrics.setGlobalMeterProvider({
    getMeter: () =>
      ({ createCounter: instrument, createHistogram: instrument }) as unknown as Meter,
  });
  context.setGlobalContextManager({
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (at, work, self, ...args) => storage.run(at, () => work.call(self as never, ...args)),
    bind: (_at, target) => target,
    enable() {
      return this;
    },
    disable() {
      return this;
    },
  });
  onTestFinished(() => {
    trace.disable();
    metrics.disable();
    context.disable();
  });
  return { spans, measurements };
}

/** Returns the first column of a table of `docs/telemetry.md`, by the rows whose second column has this word. */
export function documentedNames(where: string): string[] {
  const rows = readPage('docs/telemetry.md').matchAll(/^\| `([^`]+)` \| ([^|]+) \|/gm);
  return [...rows].flatMap(([, name = '', on = '']) =>
    on.split(',').some((word) => word.trim() === where) ? [name] : [],
  );
}

/** Returns the names of all attributes, sorted. */
export const attributeNames = (seen: readonly { attributes: Attributes }[]): string[] =>
  [...new Set(seen.flatMap(({ attributes }) => Object.keys(attributes)))].sort();
