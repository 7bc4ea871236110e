// The sinks that ship: `return` is built in, the others stand behind tools of the bundle.

import { createWebSocketSinkFactory, type WebSocketSinkPorts } from '../http/websocket-sink.ts';
import type { SinkFactory } from '../sink.ts';
import { createFileSinkFactory } from './file.ts';
import { createNullSink, createReturnSink } from './return.ts';

export type SinkName = 'return' | 'file_sink' | 'null_sink' | 'websocket_sink';

export const createSinkFactories = (
  ports: WebSocketSinkPorts,
): Readonly<Record<SinkName, SinkFactory>> => ({
  return: createReturnSink,
  file_sink: createFileSinkFactory(),
  null_sink: createNullSink,
  websocket_sink: createWebSocketSinkFactory(ports),
});

/** With nothing granted: a `websocket_sink` of these reaches public addresses only. */
export const sinkFactories = createSinkFactories({ isHostAllowed: () => false });
