// What `tests/architecture.test.ts` lets pass for now. Each list only gets shorter: an entry that is
// not needed any more fails the test as a new offence does.

/** Files that have not found their folder. */
export const KNOWN_UNPLACED: readonly string[] = [
  'flow/maybe.ts',
  'flow/redact.ts',
  'kernel/builtin-pattern-syntax.ts',
  'kernel/builtin-pattern.ts',
  'kernel/http-address.ts',
  'kernel/http-body.ts',
  'kernel/http-call.ts',
  'kernel/http-client.ts',
  'kernel/http-connect.ts',
  'kernel/http-delivery.ts',
  'kernel/http-exchange.ts',
  'kernel/http-fault.ts',
  'kernel/http-framing.ts',
  'kernel/http-head.ts',
  'kernel/http-line.ts',
  'kernel/http-pool.ts',
  'kernel/http-redact.ts',
  'kernel/http-request.ts',
  'kernel/http-source.ts',
  'kernel/http-sse.ts',
  'kernel/http-watch.ts',
  'kernel/http-websocket.ts',
  'kernel/http-wire-body.ts',
  'kernel/http-wire.ts',
  'kernel/sse-plain.ts',
  'kernel/sse.ts',
  'kernel/websocket-client.ts',
  'kernel/websocket-frames.ts',
  'script/js-answers.ts',
  'script/js-arguments.ts',
  'script/js-body.ts',
  'script/js-bounded.ts',
  'script/js-data.ts',
  'script/js-engine.ts',
  'script/js-inside.ts',
  'script/js-job.ts',
  'script/js-realm-calls.ts',
  'script/js-realm-extras.ts',
  'script/js-realm-fence.ts',
  'script/js-realm-globals.ts',
  'script/js-realm-values.ts',
  'script/js-realm.ts',
  'script/js-rejections.ts',
  'script/js-scan.ts',
  'script/js-timers.ts',
  'script/js-units.ts',
  'script/wait.ts',
];

/** Folders that nothing has moved into yet. */
export const KNOWN_UNBUILT: readonly string[] = ['script/js'];

/** Folders with too many files. */
export const KNOWN_LARGE: readonly string[] = ['kernel', 'script', 'script/compile'];

/** Imports inside a room that point up. */
export const KNOWN_UPWARD: readonly string[] = [
  'cli/terminal/terminal.ts -> cli/command.ts',
  'flow/guards/ask-guards.ts -> flow/pipeline/frame.ts',
  'flow/guards/context.ts -> flow/pipeline/frame.ts',
  'flow/guards/decision.ts -> flow/pipeline/frame.ts',
  'flow/guards/guard.ts -> flow/pipeline/frame.ts',
  'flow/operation.ts -> flow/pipeline/frame.ts',
  'harness/children/resume-children.ts -> harness/run/create.ts',
  'harness/hooks/improve-directive.ts -> harness/run/prepare.ts',
  'harness/rights/thread-token.ts -> harness/run/prepare.ts',
  'harness/script/run-script-thread.ts -> harness/run/prepare.ts',
  'harness/script/script-actions.ts -> harness/run/prepare.ts',
  'harness/secrets/sealed-store.ts -> harness/thread/read-journal.ts',
  'harness/thread/opening.ts -> harness/run/prepare.ts',
  'harness/thread/ports.ts -> harness/observe/raw-stream.ts',
  'harness/thread/ports.ts -> harness/run/runner.ts',
  'harness/thread/ports.ts -> harness/turn/ask-model.ts',
  'harness/thread/prompt.ts -> harness/step/loop-detector.ts',
  'harness/thread/restore.ts -> harness/hooks/action.ts',
  'harness/thread/thread.ts -> harness/hooks/action.ts',
  'harness/thread/thread.ts -> harness/hooks/select-hook.ts',
  'harness/thread/thread.ts -> harness/rights/approved-rights.ts',
  'harness/thread/thread.ts -> harness/rights/ask-for-help.ts',
  'harness/thread/thread.ts -> harness/rights/thread-token.ts',
  'harness/thread/thread.ts -> harness/step/call-intent.ts',
  'harness/thread/thread.ts -> harness/step/loop-detector.ts',
  'harness/turn/ask-model.ts -> harness/observe/raw-stream.ts',
  'items/data/catalog-settings.ts -> items/library/write.ts',
  'items/directive/parse.ts -> items/signature.ts',
  'items/knowledge.ts -> items/signature.ts',
  'items/tool/parse.ts -> items/signature.ts',
  'kernel/primitives/program-tools.ts -> kernel/tool/plan.ts',
  'kernel/process/dependencies.ts -> kernel/tool/plan.ts',
  'kernel/rights/closed-places.ts -> kernel/process/environment.ts',
  'kernel/sandbox/decide.ts -> kernel/process/config.ts',
  'kernel/sandbox/project.ts -> kernel/process/environment.ts',
  'kernel/sandbox/visible.ts -> kernel/process/environment.ts',
  'kernel/sinks/factories.ts -> kernel/http/websocket-sink.ts',
  'script/run/environment.ts -> script/compile/policy.ts',
  'script/values/executable.ts -> script/run/environment.ts',
];

/** One file of each circle. */
export const KNOWN_CIRCLES: readonly string[] = [
  'cli/terminal/terminal.ts',
  'flow/guards/guard.ts',
  'harness/rights/approved-rights.ts',
  'items/library/check.ts',
  'kernel/process/dependencies.ts',
  'kernel/sandbox/traps.ts',
  'llm/openai.ts',
  'script/run/environment.ts',
];

/** How many files are shorter than they should be. */
export const KNOWN_SHORT = 20;

/** Rooms with exports that nobody uses. */
export const KNOWN_UNUSED_ROOMS: readonly string[] = [
  'base',
  'cli',
  'expr',
  'flow',
  'harness',
  'items',
  'kernel',
  'llm',
  'mcp',
  'runtime',
  'script',
  'store',
  'trust',
];

/** Exports that only tests use. */
export const KNOWN_FOR_TESTS: readonly string[] = [];

/** Fields that a file may declare and that nothing puts in force. */
export const KNOWN_IDLE: readonly string[] = [
  'ComposedPolicy.approve',
  'DeviationRules.ask_first',
  'DeviationRules.auto_fix',
  'DeviationRules.escalate',
  'Directive.expose',
  'Directive.guards',
  'Directive.opaque',
  'Tool.background',
  'Tool.expose',
  'Tool.free_text',
  'Tool.output_schema',
  'Tool.result',
  'ToolAction.parameters',
];
