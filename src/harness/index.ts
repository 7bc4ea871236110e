export {
  type Bounds,
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
} from './action.ts';
export { artifactKind } from './artifact-kind.ts';
export type { CallPrint, ObservedCall } from './call-print.ts';
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
} from './checkpoint.ts';
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
} from './cost.ts';
export {
  directiveLimits,
  effectiveLimits,
  type LimitSources,
  packLimits,
  setAside,
  unpackLimits,
} from './effective-limits.ts';
export { endUnattended } from './end-unattended.ts';
export {
  type CompiledHook,
  compileHooks,
  createHookState,
  fillInputs,
  type HookError,
  type HookState,
  type Selection,
  select,
} from './hook.ts';
export { buildContext, type HookFacts } from './hook-context.ts';
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
} from './limit.ts';
export { type Ending, type LoopPorts, runLoop, type Turn } from './loop.ts';
export {
  createLoopDetector,
  type LoopDetector,
  type LoopFound,
  loopFault,
} from './loop-detector.ts';
export { createModelPort, type ModelPort } from './model-port.ts';
export { finalOutputs, missingOutputs, resultText } from './outputs.ts';
export {
  type PlainPorts,
  type PlainRequest,
  type PlainResult,
  type PlainTool,
  runPlainLoop,
} from './plain-loop.ts';
export {
  modelFor,
  type PrepareWorld,
  prepareThread,
  type RunRequest,
} from './prepare-thread.ts';
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
} from './prompt.ts';
export { ceilingOf, type RaiseRoom, raisedLimits } from './raise-limits.ts';
export type { ReplayReport } from './replay-compare.ts';
export { type ReplayOptions, replayThread } from './replay-thread.ts';
export {
  fitRequest,
  neededFor,
  type RequestFit,
  type RequestPlan,
  requestUnit,
} from './request-fit.ts';
export { type ResumeOptions, resumeThread } from './resume-thread.ts';
export { runDirective, type Started, startPrepared } from './run-thread.ts';
export { askModel, type ModelQuestion } from './script-model.ts';
export type {
  ScriptAct,
  ScriptAnswer,
  ScriptDeeds,
  ScriptPort,
  ScriptRequest,
} from './script-port.ts';
export { type SpawnRequest, spawnThread } from './spawn.ts';
export { createLiveThreads, type LiveThread, type LiveThreads } from './spawn-live.ts';
export { createThreadPrimitive, THREAD_FUNCTIONS, type ThreadPorts } from './spawn-primitive.ts';
export type { Runner, RunnerTask } from './spawn-runner.ts';
export { THREAD_ACTIONS, type ThreadAction, threadKind } from './thread-kind.ts';
export { finishEnded } from './thread-left.ts';
export { ACTIONS, type Action, type HookVerdict, parseVerdict } from './verdict.ts';
export { auditCalls } from './watch-audit.ts';
export { type ThreadWatch, type WatchPorts, watchThreads } from './watch-threads.ts';
export type { ThreadResult, World } from './world.ts';
