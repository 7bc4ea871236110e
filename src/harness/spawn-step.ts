// A tool call that spawns is a step of its own kind, and a spawn that is refused for its limits is a
// limit, although it is found out inside the call.
import type { CheckpointEvent } from '../flow/index.ts';
import type { Library } from '../items/index.ts';

const BASE = 'threads/spawn_thread';
const SPAWN_LIMITS: ReadonlySet<string> = new Set(['spawns_exceeded', 'depth_exceeded']);

/** Also a project's own tool that stands on the bundle's. */
export function stepKind(library: Pick<Library, 'chain'>, tool: string): 'spawn' | 'tool' {
  const chain = library.chain(tool);
  return chain.ok && chain.output.links.some(({ id }) => id === BASE) ? 'spawn' : 'tool';
}

export const asLimit = (event: CheckpointEvent): CheckpointEvent =>
  event.name === 'error' && SPAWN_LIMITS.has(event.fault.code)
    ? { ...event, name: 'limit' }
    : event;
