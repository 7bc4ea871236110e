export {
  diagnose,
  diagnosticOf,
  runScript,
  type ScriptEffect,
  type ScriptOptions,
  type ScriptResult,
} from './run-script.ts';
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
export type { Problem } from './syntax/problem.ts';
export { createScriptWorld, type WorldPorts } from './world/create-world.ts';
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
