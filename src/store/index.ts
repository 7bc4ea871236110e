export { type Amounts, type BudgetKind, type BudgetLimits } from './amounts.ts';
export {
  type Entering,
  type Fleet,
  type FleetContents,
  type FleetLimits,
  GONE_MS,
  type QueueRow,
  SEND_WITHIN_MS,
  type SharedLimit,
  type WorkerRow,
  type WorkerState,
} from './fleet-port.ts';
export { nameOwner } from './leases/lease-owner.ts';
export { allThreads, threadPages } from './list-threads.ts';
export type {
  Answer,
  Approval,
  ApprovalState,
  AuditEntry,
  Commit,
  Committed,
  Decision,
  EventFields,
  Held,
  Lease,
  NewApproval,
  NewEvent,
  NewThread,
  OpenReservation,
  PruneOptions,
  Renewed,
  Reserve,
  Sealed,
  Signal,
  SpentThread,
  Store,
  StoredEvent,
  ThreadFilter,
  ThreadPage,
  ThreadRow,
  ThreadSummary,
} from './port.ts';
export { openSqliteStore, type SqliteOptions } from './sqlite/store.ts';
export {
  isEnded,
  parseThreadId,
  STATUS_CAUSES,
  type StatusCause,
  THREAD_STATUSES,
  type ThreadStatus,
} from './thread-id.ts';
export { readTranscript } from './transcript/read.ts';
export {
  createTranscript,
  isTranscriptType,
  previewOf,
  rebuildTranscript,
  type Transcript,
  type TranscriptEvent,
} from './transcript/transcript.ts';
export { createVault, type Vault } from './vault.ts';
