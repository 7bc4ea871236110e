export {
  type Decision,
  type Deed,
  decide,
  decideFailure,
  MAX_HOOK_NESTING,
  MAX_RETRIES,
  MAX_SKIPS,
  NO_BOUNDS,
  type Situation,
  stepDone,
  withoutHook,
} from './hooks/action.ts';
export {
  afterStep,
  beforeStep,
  type Checkpoint,
  type CheckpointEvent,
  checkpointOf,
  faultOf,
  onError,
  type Step,
  type StepKind,
  stepName,
} from './hooks/checkpoint.ts';
export { ACTIONS, type Action, type HookVerdict, parseVerdict } from './hooks/hook-answer.ts';
export {
  buildContext,
  type CompiledHook,
  compileHooks,
  createHookState,
  fillInputs,
  type HookError,
  type HookFacts,
  type HookState,
  type Selection,
  select,
} from './hooks/select-hook.ts';
export {
  fitRequest,
  neededFor,
  type RequestFit,
  type RequestPlan,
  requestUnit,
} from './limits/answer-length.ts';
export {
  type ChildCost,
  type Cost,
  type CostMeter,
  costView,
  createCostMeter,
  type HookCost,
  NO_COST,
  packCost,
  unpackCost,
  usedAmounts,
} from './limits/cost.ts';
export {
  directiveLimits,
  effectiveLimits,
  type LimitSources,
  packLimits,
  setAside,
  unpackLimits,
} from './limits/effective-limits.ts';
export {
  contextWarning,
  crossedMarks,
  type EffectiveLimit,
  type EffectiveLimits,
  firstExceeded,
  LIMIT_NAMES,
  type LimitAmounts,
  type LimitEvent,
  type LimitName,
  limitEvent,
  limitNumber,
  limitsView,
  markKey,
  readLimit,
  UNITS,
  type WarningEvent,
} from './limits/limit.ts';
export { ceilingOf, type RaiseRoom, raisedLimits } from './limits/raise-limits.ts';
export { type Ending, type LoopPorts, runLoop, type Turn } from './loop.ts';
export {
  auditCalls,
  type ThreadWatch,
  type WatchPorts,
  watchThreads,
} from './observe/watch-threads.ts';
export {
  type PlainPorts,
  type PlainRequest,
  type PlainResult,
  type PlainTool,
  runPlainLoop,
} from './plain-loop.ts';
export type { ReplayReport } from './replay/replay.ts';
export { type ReplayOptions, replayThread } from './replay/replay.ts';
export { finalOutputs, missingOutputs, resultText } from './run/finish.ts';
export {
  modelFor,
  type PrepareWorld,
  prepareThread,
  type RunRequest,
} from './run/prepare.ts';
export { type ResumeOptions, resumeThread } from './run/resume.ts';
export type { Runner, RunnerTask } from './run/runner.ts';
export { runDirective, type Started, startPrepared } from './run/start.ts';
export { finishEnded } from './run/unfinished-work.ts';
export { askModel, type ModelQuestion } from './script/script-actions.ts';
export { type SpawnRequest, spawnThread } from './spawn/spawn.ts';
export { endUnattended } from './spawn/steer.ts';
export {
  artifactKind,
  THREAD_ACTIONS,
  type ThreadAction,
  threadKind,
} from './spawn/thread-kind.ts';
export {
  createThreadPrimitive,
  THREAD_FUNCTIONS,
  type ThreadPorts,
} from './spawn/thread-primitive.ts';
export type { CallPrint, ObservedCall } from './step/loop-detector.ts';
export {
  createLoopDetector,
  type LoopDetector,
  type LoopFound,
  loopFault,
} from './step/loop-detector.ts';
export { decode, decodeAll } from './thread/journal-codec.ts';
export type {
  DataOf,
  EventType,
  JournalEvent,
  Noted,
  Recorded,
  RecordedOf,
} from './thread/journal-event.ts';
export { createLiveThreads, type LiveThread, type LiveThreads } from './thread/live-threads.ts';
export type {
  ScriptAct,
  ScriptAnswer,
  ScriptDeeds,
  ScriptPort,
  ScriptRequest,
  ThreadResult,
  World,
} from './thread/ports.ts';
export {
  badArgumentsResult,
  countedResult,
  discardedLine,
  errorLine,
  errorResult,
  type Injection,
  injection,
  loopLine,
  notesLine,
  raisedLine,
  skippedResult,
  systemPrompt,
  warningLine,
  withheldResult,
} from './thread/prompt.ts';
export { readJournal } from './thread/read-journal.ts';
export { createModelPort, type ModelPort } from './turn/ask-model.ts';
