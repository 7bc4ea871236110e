export { diagnose, type ScriptEffect } from './execute-script.ts';
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
export { parseScript } from './syntax/parse.ts';
