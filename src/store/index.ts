export { type Amounts, BUDGET_KINDS, type BudgetKind, type BudgetLimits } from './amounts.ts';
export { nameOwner } from './leases/lease-owner.ts';
export type {
  Answer,
  Approval,
  ApprovalKind,
  ApprovalState,
  BudgetState,
  Commit,
  Committed,
  Decision,
  Held,
  HumanChannel,
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
  Store,
  StoredEvent,
  ThreadFilter,
  ThreadPage,
  ThreadRow,
  ThreadSummary,
} from './port.ts';
export type { Durability } from './sqlite/file/open-file.ts';
export { openSqliteStore, type SqliteOptions } from './sqlite/store.ts';
export { isEnded, parseThreadId, THREAD_STATUSES, type ThreadStatus } from './thread-id.ts';
export { readTranscript, type TranscriptLine, type TranscriptText } from './transcript/read.ts';
export {
  createTranscript,
  isTranscriptType,
  type Preview,
  previewOf,
  rebuildTranscript,
  TRANSCRIPT_TYPES,
  type Transcript,
  type TranscriptEvent,
  type TranscriptOptions,
  type TranscriptType,
  transcriptFile,
} from './transcript/transcript.ts';
export { createVault, deriveVaultKey, type Vault, type VaultOptions } from './vault.ts';
