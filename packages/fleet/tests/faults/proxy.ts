// Stands between one worker and the database: what flows through can be held back, as on a network that
// has lost packets, or broken off.
import { connect, createServer, type Socket } from 'node:net';

export interface WireProxy {
  readonly port: number;
  /** Nothing gets through in either direction, and nobody is told. */
  freeze(): void;
  /** Flows again; `cut`: what was open is broken off instead. */
  thaw(how?: 'cut'): void;
  close(): Promise<void>;
}

/** At this port of ours, or at any that is free. */
export async function startProxy(target: number, at = 0): Promise<WireProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let frozen = false;
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    const pair = [near, far] as const;
    pairs.add(pair);
    const pass = (from: Socket, to: Socket): void => {
      from.on('data', (bytes) => {
        if (!to.write(bytes)) from.pause();
      });
      to.on('drain', () => {
        if (!frozen) from.resume();
      });
      from.on('error', () => to.destroy());
      from.on('close', () => {
        to.destroy();
        pairs.delete(pair);
      });
      from.on('end', () => to.end());
      if (frozen) from.pause();
    };
    pass(near, far);
    pass(far, near);
  });
  await new Promise<void>((resolve) => server.listen(at, '127.0.0.1', resolve));
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    freeze() {
      frozen = true;
      for (const sockets of pairs) for (const socket of sockets) socket.pause();
    },
    thaw(how) {
      frozen = false;
      for (const sockets of pairs) {
        for (const socket of sockets) {
          if (how === 'cut') socket.destroy();
          else socket.resume();
        }
      }
    },
    close: () =>
      new Promise((resolve) => {
        for (const sockets of pairs) for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
