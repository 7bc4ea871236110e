// One request to a model, through the kernel's tool chain like any other HTTP call. The events of
// the stream go straight into the reader; the text is handed on as it comes.
import { ok } from '../../base/index.ts';
import { FOUR_TOOLS, type Kernel, type Sink, type StreamEvent } from '../../kernel/index.ts';
import {
  createReader,
  replyOf,
  requestParameters,
  type StreamReader,
  type ToolDefinition,
} from '../../llm/index.ts';
import type { ModelPort, RawStream } from '../thread/ports.ts';

/** A sink that feeds the reader; what the reader refuses ends the reading, not the stream. */
function readerSink(reader: StreamReader): Sink {
  let delivered = 0;
  let isOpen = true;
  const write = (event: StreamEvent): void => {
    if (!isOpen) return;
    delivered++;
    isOpen = reader.push(event).ok;
  };
  return {
    type: 'model',
    write,
    writeAll(events) {
      for (const event of events) write(event);
    },
    close: async () => ({ type: 'model', delivered, dropped: 0 }),
  };
}

const rawSink = (raw: RawStream): Sink => ({
  type: 'raw',
  write: (event) => raw.write(event),
  async close() {
    raw.end();
    return { type: 'raw', delivered: 0, dropped: 0 };
  },
});

export function createModelPort(kernel: Kernel): ModelPort {
  return async ({ model, reading, written, maxTokens, raw, ...request }, caller) => {
    let reader: StreamReader | undefined;
    const sinks = (): Sink[] => {
      reader = createReader(model.protocol, reading);
      return raw ? [readerSink(reader), rawSink(raw)] : [readerSink(reader)];
    };
    const { max_tokens_parameter } = model;
    const parameters = requestParameters(
      model.protocol,
      {
        ...request,
        model: model.model,
        max_tokens: maxTokens,
        stream: true,
        ...(max_tokens_parameter ? { max_tokens_parameter } : {}),
      },
      written,
    );
    const sent = await kernel.execute(
      { item_type: 'tool', item_id: model.plain_tool, parameters },
      { ...caller, sinks },
    );
    const result = sent.ok ? ok(sent.output.data) : sent;
    return replyOf(model.protocol, result, { ...reading, ...(reader ? { reader } : {}) });
  };
}

/** Exactly the four, as a model is told about them. */
export const MODEL_TOOLS: readonly ToolDefinition[] = FOUR_TOOLS.map(
  ({ name, description, input }) => ({ name, description, input_schema: input }),
);
/** What they add to every request. */
export const MODEL_TOOLS_BYTES = JSON.stringify(MODEL_TOOLS).length;
