export type {
  ApprovalAnswer,
  ClosedFiles,
  Effect,
  Frame,
  Guard,
  GuardSelection,
  GuardSet,
  GuardView,
  Input,
  MaybePromise,
  ModelReader,
  OriginPort,
  PolicyRules,
  Ports,
  Question,
  RetryBudget,
  RuleState,
  ScriptHooks,
  TraceEntry,
  Verdict,
} from './frame.ts';
export { labelsOfOperation } from './guards/ask-guards.ts';
export {
  CONTEXT_VIEW,
  callOf,
  contextMember,
  contextOf,
  OPERATION_VIEW,
} from './guards/context.ts';
export {
  isCatchableDenial,
  judgementOf,
  marksOfReasons,
  operationName,
  retryHint,
} from './guards/decision.ts';
export { defineGuard } from './guards/guard.ts';
export { compileGuards, type GuardSource, guardProblems } from './guards/guard-expression.ts';
export { createGuardSet } from './guards/guard-set.ts';
export {
  type Argument,
  type ArgumentOrigin,
  isRisk,
  keyProblem,
  type LookAtPlace,
  OPERATION_TYPES,
  type Operation,
  type PreviewWrite,
  type WritePlace,
  type WritePreview,
} from './operation.ts';
export type {
  ActPorts,
  CheckpointVerdict,
  FlowCheckpoint,
  LimitReservation,
  RecordEntry,
} from './pipeline/act-ports.ts';
export { childFrame, createFrame, type FrameOptions } from './pipeline/create-frame.ts';
export { judgeOperation, perform } from './pipeline/perform.ts';
export {
  createTrail,
  type Provenance,
  type ProvenanceNode,
  type Trail,
} from './pipeline/provenance.ts';
export type { BodyScope } from './pipeline/stages.ts';
export { type ComposedPolicy, namedFolders } from './policies/compose.ts';
export {
  type KnownNames,
  labelsGivenBy,
  lintGuards,
  lintPolicy,
  OWN_LABELS,
} from './policies/lint.ts';
export { RULE_NAMES } from './policies/named-rules.ts';
export {
  COMPACT,
  COMPACT_MODES,
  type CompactMode,
  LIMIT_NAMES,
  NOTICE_KINDS,
  shownPolicyFile,
  strictestMode,
  TOOL_EFFECTS,
  type ToolEffect,
} from './policies/policy.ts';
export {
  createPolicyFiles,
  type ExaminedPolicy,
  type PolicyFiles,
  type PolicyPlace,
  type PolicyState,
  readPolicyFile,
} from './policies/policy-files.ts';
export { parsePolicy } from './policies/read-policy.ts';
export { fileLabels, folderLabel, inodeOf } from './values/file-labels.ts';
export { createLabelRecords, type LabelRecords, type SharedLines } from './values/label-records.ts';
export {
  addLabels,
  carries,
  type Descriptor,
  describe,
  descriptorOfFault,
  EMPTY,
  markFailure,
  mergeAll,
  mergeDescriptors,
  removeLabels,
  toolsIn,
} from './values/labels.ts';
export { createRecordFile, openRecords } from './values/record-file.ts';
export { isFromPerson, judgeMemory, type MemoryStanding } from './values/remembered.ts';
export {
  factsOf,
  isPassedOn,
  labelFields,
  type ResultFacts,
  restoreFields,
  singlesOf,
  vouchedAs,
  vouchedInAll,
} from './values/result-fields.ts';
export {
  addMarks,
  elementOf,
  isValue,
  makeContainer,
  makeValue,
  type Value,
  withLabels,
  withOrigin,
  withText,
} from './values/value.ts';
export { estimateValueTokens } from './values/value-view.ts';
