export { createScriptWorld, type WorldPorts } from './create-world.ts';
export { parseScript } from './parse.ts';
export type { Problem } from './problem.ts';
export {
  diagnose,
  diagnosticOf,
  runScript,
  type ScriptEffect,
  type ScriptOptions,
  type ScriptResult,
} from './run-script.ts';
export type {
  CodeRequest,
  CodeResult,
  JsArgument,
  JsCall,
  JsEngine,
  JsHelper,
  JsResult,
  LoadedText,
  ProcessRequest,
  ProcessResult,
  ScriptWorld,
} from './world.ts';
