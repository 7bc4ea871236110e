export type {
  AskedAnswer,
  ContextFacts,
  Effect,
  Frame,
  Guard,
  GuardSelection,
  GuardSet,
  GuardTiming,
  GuardView,
  Input,
  InputNote,
  LabelChange,
  LabelRule,
  MaybePromise,
  Phase,
  PolicyRules,
  Ports,
  Question,
  RetryBudget,
  RuleState,
  ScriptHooks,
  TraceEntry,
  Verdict,
} from './frame.ts';
export { contextMember, contextOf } from './guards/context.ts';
export { isCatchableDenial, judgementOf, RETRY_CODE, retryHint } from './guards/decision.ts';
export { defineGuard, type GuardDefinition } from './guards/guard.ts';
export { GUARD_CONTEXT } from './guards/guard-context.ts';
export {
  compileGuards,
  type GuardOptions,
  type GuardProblem,
  type GuardSource,
  guardProblems,
} from './guards/guard-expression.ts';
export { combineGuards, createGuardSet, NO_GUARDS } from './guards/guard-set.ts';
export type { Argument, InputRole, Operation, OperationRisk } from './operation.ts';
export type {
  ActPorts,
  CheckpointVerdict,
  FlowCheckpoint,
  LimitReservation,
  RecordEntry,
} from './pipeline/act-ports.ts';
export {
  childFrame,
  createFrame,
  type FrameAdditions,
  type FrameOptions,
  withInfluence,
} from './pipeline/create-frame.ts';
export { judgeOperation, perform } from './pipeline/perform.ts';
export {
  createTrail,
  type Provenance,
  type ProvenanceNode,
  type Trail,
} from './pipeline/provenance.ts';
export type { Body, BodyScope } from './pipeline/stages.ts';
export {
  BUILT_IN_POLICY,
  type ComposedPolicy,
  composePolicies,
} from './policies/compose.ts';
export { type KnownNames, type KnownTool, lintPolicy } from './policies/lint.ts';
export { RULE_NAMES } from './policies/named-rules.ts';
export {
  closedPolicy,
  type DirectiveAccess,
  type Policy,
  type PolicyLevel,
  type SurfacePolicy,
  TOOL_EFFECTS,
  type ToolEffect,
} from './policies/policy.ts';
export {
  createPolicyFiles,
  type PolicyFiles,
  type PolicyPlace,
  type PolicyState,
} from './policies/policy-files.ts';
export { type ParsedPolicy, parsePolicy } from './policies/read-policy.ts';
export { createLabelRecords, fileLabels, type LabelRecords } from './values/label-records.ts';
export {
  addLabels,
  carries,
  type Descriptor,
  describe,
  descriptorOfFault,
  EMPTY,
  markFailure,
  matchesLabel,
  mergeAll,
  mergeDescriptors,
  removeLabels,
  withSources,
} from './values/labels.ts';
export { createRecordFile, openRecords } from './values/record-file.ts';
export {
  addMarks,
  elementOf,
  isValue,
  makeContainer,
  makeValue,
  type Origin,
  type Value,
  withLabels,
  withOrigin,
  withText,
} from './values/value.ts';
export { estimateTokens, valueContext } from './values/value-view.ts';
