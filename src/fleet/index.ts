export type { WorkerNews, WorkerProject } from './one-thread.ts';
export { defaultSlots } from './slots.ts';
export { startWorker, type WorkerEnd, type WorkerOptions } from './worker.ts';
