export type { WorkerNews, WorkerProject } from './one-thread.ts';
export { defaultSlots } from './slots.ts';
export { startTryServer, type TryServer } from './try-server.ts';
export { openWhenBack, startWorker, type WorkerEnd } from './worker.ts';
