export { type AroundScript, diagnose, type ScriptEffect, unboundIn } from './execute-script.ts';
export { createModules, inputNames, inputsOfModule } from './lsp/modules.ts';
export { createFraming, frame } from './lsp/protocol.ts';
export { createServer, type ServerPorts } from './lsp/server.ts';
export { runScriptIn, type ScriptRun, type ScriptRunResult } from './runtime/run-script.ts';
export {
  explainScript,
  type WatchedEnd,
  type WatchedScript,
  watchScript,
} from './runtime/script-report.ts';
export { findScriptProject } from './runtime/script-setup.ts';
export type { Expression } from './syntax/ast.ts';
export {
  type Bound,
  bodyKindOf,
  keysOf,
  literalAt,
  namesIn,
  namesReadBy,
  staticText,
  typeOf,
} from './syntax/outline.ts';
export { type Parsed, parseScript } from './syntax/parse.ts';
export type { KnownTools } from './syntax/unbound.ts';
