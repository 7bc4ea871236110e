export type { Expression } from './ast.ts';
export { createScriptWorld, type WorldPorts } from './create-world.ts';
export {
  type Bound,
  bodyKindOf,
  keysOf,
  literalAt,
  namesIn,
  namesReadBy,
  staticText,
  typeOf,
} from './outline.ts';
export { type Parsed, parseScript } from './parse.ts';
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
