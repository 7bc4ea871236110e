import type { SinkFactory } from './sink.ts';
import { createFileSinkFactory } from './sink-file.ts';
import { createNullSink } from './sink-null.ts';
import { createReturnSink } from './sink-return.ts';

export const sinkFactories = {
  return: createReturnSink,
  file_sink: createFileSinkFactory(),
  null_sink: createNullSink,
} satisfies Record<string, SinkFactory>;
