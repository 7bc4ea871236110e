export { endUnattended } from './children/children.ts';
export type { Attachment } from './files/attachment.ts';
export { directiveLimits, packLimits } from './limits/effective-limits.ts';
export { type Ending, type LoopPorts, runLoop, type Turn } from './loop.ts';
export { runMemory } from './memory/memory-primitive.ts';
export { type FollowedRun, followThread } from './observe/follow-thread.ts';
export type { ScheduleNotice } from './observe/notify.ts';
export type { RequestSpan } from './observe/telemetry.ts';
export { auditCalls, type RunObserver, telemetry, watchThreads } from './observe/watch-threads.ts';
export { runReader } from './reading/reader-primitive.ts';
export { type CompareOptions, compareModel } from './replay/compare-model.ts';
export { type ReplayOptions, type ReplayReport, replayThread } from './replay/replay.ts';
export { answerIn, askInside, callBinding, renewed } from './rights/ask-about-call.ts';
export { helpSignal } from './rights/ask-for-help.ts';
export { callShown } from './rights/call-shown.ts';
export { answersInForce, type LastingAnswer } from './rights/lasting-answers.ts';
export { type Forked, type ForkOptions, forkThread } from './run/fork.ts';
export { prepareThread, type RunRequest, refusalsOf } from './run/prepare.ts';
export { readProgramAgent } from './run/program-agent.ts';
export { finishEnded, mendTranscript } from './run/recover.ts';
export type { ResumeOptions } from './run/reopen.ts';
export { releaseUnstarted, resumeLeasedThread, resumeThread } from './run/resume.ts';
export { unaffordableHooks } from './run/run-hook.ts';
export { enqueueDirective, type FireOptions, prepareElsewhere, runDirective } from './run/start.ts';
export { askModel } from './script-thread/script-actions.ts';
export { environmentSecrets } from './secrets/known-secrets.ts';
export {
  artifactKind,
  createThreadPrimitive,
  type ThreadAction,
  type ThreadFunction,
  threadKind,
} from './spawn/thread-primitive.ts';
export { modelFor } from './thread/choose-model.ts';
export { createLiveThreads } from './thread/live-threads.ts';
export type {
  ModelLine,
  ModelPort,
  Runner,
  ScriptAct,
  ScriptActions,
  ScriptAnswer,
  ScriptPort,
  ScriptRequest,
  ThreadResult,
  WatchPort,
} from './thread/ports.ts';
export type { HarnessPorts, LiveThreads, PreparePorts, Thread } from './thread/thread.ts';
export { createModelPort, type OpenSdkModel } from './turn/ask-model.ts';
export { type CheckResult, type ModelTest, testModel } from './turn/test-model.ts';
