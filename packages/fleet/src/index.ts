export { type CopyOptions, type CopyPlace, copyRegistry } from './copy/registry.ts';
export { startTryServer, type TryServer } from './local-server.ts';
export { openServerStore, readPlace, shownPlace } from './postgres/address.ts';
export { findWorkersFor } from './runtime/queued-threads.ts';
export type { WorkerNews, WorkerProject } from './worker/run-thread.ts';
export { defaultSlots } from './worker/slots.ts';
export { openWhenBack, startWorker, type WorkerEnd } from './worker/worker.ts';
