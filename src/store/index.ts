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
export type { Artifacts } from './artifacts.ts';
export type { BudgetState, OpenReservation } from './budgets.ts';
export type { NewEvent } from './event-log.ts';
export type { Change, StoredEvent } from './journal.ts';
export { nameOwner } from './lease-owner.ts';
export type { Lease, Pulse } from './leases.ts';
export type { Durability } from './open-file.ts';
export { type Preview, previewOf } from './preview.ts';
export type { PruneOptions } from './prune.ts';
export type { ThreadFilter, ThreadPage } from './query.ts';
export { createRedactor, type RedactionStream, type Redactor } from './redact.ts';
export type { SealedSecret, SealedSecrets } from './sealed-secrets.ts';
export type { Signal } from './signals.ts';
export type { Standing } from './standing.ts';
export { isEnded, THREAD_STATUSES, type ThreadStatus } from './status.ts';
export { openStore, type Store, type StoreOptions } from './store.ts';
export { parseThreadId } from './thread-id.ts';
export type { FirstSteps, NewThread, ThreadRow, ThreadSummary } from './threads.ts';
export {
  createTranscript,
  rebuildTranscript,
  type Transcript,
  type TranscriptEvent,
  type TranscriptOptions,
  transcriptFile,
} from './transcript.ts';
export { readTranscript, type TranscriptLine, type TranscriptText } from './transcript-read.ts';
export { isTranscriptType, TRANSCRIPT_TYPES, type TranscriptType } from './transcript-types.ts';
export { createVault, deriveVaultKey, type Vault, type VaultOptions } from './vault.ts';
export type { Cursor, Happening } from './watch.ts';
