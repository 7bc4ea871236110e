export {
  openReservations,
  readAccount,
  toBudgetState,
  writeAccount,
} from './account.ts';
export {
  type Amounts,
  BUDGET_KINDS,
  type BudgetKind,
  type BudgetLimits,
  positive,
  readAmounts,
} from './amounts.ts';
export {
  changesBudgets,
  decide,
  decideBudgets,
  LEASE_LOST,
} from './decide.ts';
export {
  approvalTexts,
  type CommitText,
  checkApproval,
  costAndTitle,
  damagedDecision,
  damageOf,
  encodeCommit,
  encodeSignal,
  encodeThread,
  eventData,
  hashArtifact,
  signalPayload,
  type ThreadText,
  valuesAt,
  withdrawRefusal,
} from './encode.ts';
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
export { isOwnerGone, nameOwner } from './leases/lease-owner.ts';
export { allThreads, threadPages } from './list-threads.ts';
export {
  MEMORY_BOUNDS,
  MEMORY_SCOPES,
  type Memories,
  type MemoryChange,
  type MemoryPlace,
  type MemoryRow,
  type MemoryScope,
  memoryBytes,
  memoryHash,
  memoryRules,
  type NewMemory,
  noMemory,
  scopeOfMemory,
  UNKNOWN_MARKS,
  wordOf,
} from './memory.ts';
export type {
  Answer,
  Approval,
  ApprovalFilter,
  ApprovalState,
  Approvals,
  ApprovalUse,
  Artifacts,
  AuditEntry,
  BudgetState,
  Commit,
  Committed,
  Decision,
  EventFields,
  EventRange,
  FireRow,
  Head,
  Journal,
  Lease,
  LeasedThread,
  Leases,
  NewApproval,
  NewEvent,
  NewFire,
  NewSignal,
  NewThread,
  OpenReservation,
  Owner,
  PruneOptions,
  Records,
  Renewed,
  Reserve,
  ScheduleChange,
  ScheduleRow,
  Schedules,
  Sealed,
  Signal,
  SignalNote,
  Signals,
  SpentThread,
  Store,
  StoredEvent,
  ThreadFilter,
  ThreadPage,
  ThreadRow,
  ThreadSummary,
  ThreadTable,
  Wanted,
  WantedFields,
} from './port.ts';
export { scheduleRules } from './schedules.ts';
export { faultOf } from './sqlite/file/errors.ts';
export { type FileOptions, openFile } from './sqlite/file/open-file.ts';
export { ENDED, EVENTS_A_THREAD } from './sqlite/file/schema.ts';
export { openSqliteStore, type SqliteOptions } from './sqlite/store.ts';
export type { StoreSteps } from './steps.ts';
export { threadQuery } from './thread-filter.ts';
export {
  AT_WORK,
  INTERRUPTED_REASONS,
  isEnded,
  noThread,
  parseThreadId,
  REVOKING,
  STATUS_CAUSES,
  secretExists,
  THREAD_STATUSES,
  type ThreadStatus,
} from './thread-id.ts';
export { readTranscript } from './transcript/read.ts';
export {
  createTranscript,
  previewOf,
  rebuildTranscript,
  type Transcript,
  type TranscriptEvent,
} from './transcript/transcript.ts';
export { createVault, type Vault } from './vault.ts';
export { createBell, createWatch } from './watch.ts';
