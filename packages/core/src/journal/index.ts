// The door of `core/journal`: what other packages and folders use.
export { type Boundary, boundariesOf, type ForkPoint, readForkPoint } from './boundaries.ts';
export { type Call, type CallEvents, calls, type MadeCall, madeCalls, readCalls } from './calls.ts';
export { clearedResult, compactionText } from './compaction.ts';
export {
  addToConversation,
  Conversation,
  changedInputs,
  conversation,
  DIRECTIVE_CALL,
  type Display,
  eventsInForce,
  fileValue,
  hasLastWord,
  lastReply,
  packGiven,
  packMarks,
  planReplies,
  type RecordedResult as KeptResult,
  reopenConversation,
  unpackMarks,
  type Visible,
} from './conversation.ts';
export {
  addCosts,
  COST_FIELDS,
  type CostState,
  cost,
  DENIAL_FIELDS,
  NO_COST,
  readRequests,
} from './cost.ts';
export { eventFlags, eventLine, isBookkeeping, isInTranscript, oddField } from './event-facts.ts';
export { argumentsText, type EventTone, replyText } from './event-text.ts';
export type { DataOf, EventType, JournalEvent } from './events.ts';
export { type OpenWork, openWork } from './open-work.ts';
export { project, projectStored } from './projection.ts';
export {
  decode,
  decodeAll,
  forkOf,
  hidesUntrusted,
  type Noted,
  notedOf,
  ownEvents,
  PASSED_HOOK,
  type Recorded,
  type RecordedOf,
  readJournal,
  readStored,
  shownData,
  startOf,
  withoutSeals,
  withTexts,
} from './read-journal.ts';
export type {
  ApprovalNote,
  Bounds,
  Compaction,
  HookAnswered,
  HookStart,
  Marks,
  Opening,
  Proposal,
  Reply,
  ToolResult,
  WhatRan,
} from './shapes.ts';
export { eventContent, meterName, type SlimEvent, slimEvent } from './slim-event.ts';
export { summary } from './summary.ts';
