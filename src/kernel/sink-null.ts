// Takes everything and keeps nothing: for calls made for their effect, and for measuring.
import { ok } from '../base/index.ts';
import type { SinkFactory } from './sink.ts';

export const createNullSink: SinkFactory = () => {
  let delivered = 0;
  return ok({
    type: 'null_sink',
    write() {
      delivered++;
    },
    writeAll(events) {
      delivered += events.length;
    },
    close: async () => ({ type: 'null_sink', delivered, dropped: 0 }),
  });
};
