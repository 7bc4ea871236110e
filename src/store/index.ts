export { type Amounts, BUDGET_KINDS, type BudgetKind, type BudgetLimits } from './amounts.ts';
export type {
  Approval,
  ApprovalKind,
  ApprovalRequest,
  ApprovalState,
  Approvals,
  Decision,
  HumanChannel,
} from './approvals.ts';
export type { BudgetState, OpenReservation } from './budgets/budgets.ts';
export type { NewEvent } from './database/event-log.ts';
export type { Durability } from './database/open-file.ts';
export type { Artifacts } from './journal/artifacts.ts';
export type { Change, StoredEvent } from './journal/journal.ts';
export type { Signal } from './journal/signals.ts';
export type { Standing } from './journal/standing.ts';
export type { Cursor, Happening } from './journal/watch.ts';
export { nameOwner } from './leases/lease-owner.ts';
export type { Lease, Pulse } from './leases/leases.ts';
export { openStore, type Store, type StoreOptions } from './store.ts';
export { isEnded, parseThreadId, THREAD_STATUSES, type ThreadStatus } from './thread-id.ts';
export type { PruneOptions } from './threads/prune.ts';
export type { ThreadFilter, ThreadPage } from './threads/query.ts';
export type { FirstSteps, NewThread, ThreadRow, ThreadSummary } from './threads/threads.ts';
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
export type { SealedSecret, SealedSecrets } from './vault.ts';
export { createVault, deriveVaultKey, type Vault, type VaultOptions } from './vault.ts';
