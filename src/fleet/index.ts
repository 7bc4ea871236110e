export { whoServes } from '../runtime/queued-threads.ts';
export { type CopyOptions, type CopyPlace, copyRegistry } from '../store/copy/registry.ts';
export { openServerStore, readPlace, shownPlace } from '../store/place.ts';
export type { WorkerNews, WorkerProject } from './one-thread.ts';
export { defaultSlots } from './slots.ts';
export { startTryServer, type TryServer } from './try-server.ts';
export { openWhenBack, startWorker, type WorkerEnd } from './worker.ts';
