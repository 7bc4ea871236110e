export { contextMember, contextOf } from './context.ts';
export { isCatchableDenial, judgementOf } from './decision.ts';
export {
  addLabels,
  carries,
  type Descriptor,
  describe,
  EMPTY,
  matchesLabel,
  mergeAll,
  mergeDescriptors,
  withSources,
} from './descriptor.ts';
export { descriptorOfFault, markFailure } from './fault-marks.ts';
export {
  type ContextFacts,
  childFrame,
  createFrame,
  type Frame,
  type FrameAdditions,
  type FrameOptions,
  type RetryBudget,
  withInfluence,
} from './frame.ts';
export {
  defineGuard,
  type Guard,
  type GuardDefinition,
  type GuardTiming,
  type GuardView,
  type LabelChange,
  type Phase,
  type TraceEntry,
  type Verdict,
} from './guard.ts';
export {
  compileGuards,
  type GuardOptions,
  type GuardProblem,
  type GuardSource,
  guardProblems,
} from './guard-expression.ts';
export { GUARD_CONTEXT } from './guard-schema.ts';
export {
  combineGuards,
  createGuardSet,
  type GuardSelection,
  type GuardSet,
  NO_GUARDS,
} from './guard-set.ts';
export { createLabelRecords, fileLabels, type LabelRecords } from './label-records.ts';
export { isPromise, type MaybePromise, whenDone } from './maybe.ts';
export type {
  Argument,
  Input,
  InputNote,
  InputRole,
  Operation,
  OperationRisk,
} from './operation.ts';
export { perform } from './perform.ts';
export {
  closedPolicy,
  type DirectiveAccess,
  type LabelRule,
  type Policy,
  type PolicyLevel,
  type RuleState,
  type SurfacePolicy,
  type ToolEffect,
} from './policy.ts';
export {
  BUILT_IN_POLICY,
  type ComposedPolicy,
  composePolicies,
  narrowPolicy,
} from './policy-compose.ts';
export {
  createPolicyFiles,
  type PolicyFiles,
  type PolicyPlace,
  type PolicyState,
} from './policy-files.ts';
export { type KnownNames, type KnownTool, lintPolicy } from './policy-lint.ts';
export { type ParsedPolicy, parsePolicy } from './policy-parse.ts';
export { RULE_NAMES } from './policy-rules.ts';
export type {
  Answer,
  CheckpointEvent,
  CheckpointVerdict,
  Effect,
  Ports,
  Question,
  RecordEntry,
  Reservation,
  ScriptHooks,
} from './ports.ts';
export { createTrail, type Provenance, type ProvenanceNode, type Trail } from './provenance.ts';
export { createRecordFile, openRecords, type RecordFile } from './record-file.ts';
export { RETRY_CODE, retryHint } from './retry-request.ts';
export type { Body, Scope } from './run.ts';
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
} from './value.ts';
export { estimateTokens, valueContext } from './value-view.ts';
