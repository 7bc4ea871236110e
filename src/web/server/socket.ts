// Stands here until the socket does: every upgrade is refused.
import type { Server } from 'node:http';
import type { AdmitSocket, WebParts } from './parts.ts';

export function addSocket(
  server: Server,
  _admit: AdmitSocket,
  _parts: WebParts,
): { close(): Promise<void> } {
  server.on('upgrade', (_incoming, socket) => socket.destroy());
  return { close: async () => {} };
}
