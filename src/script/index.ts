export { readPlan } from './plan.ts';
export {
  type AroundScript,
  diagnose,
  diagnosticOf,
  runScript,
  type ScriptEffect,
  type ScriptOptions,
  unboundIn,
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
export type { KnownTools } from './syntax/unbound.ts';
export { createScriptWorld } from './world/create-world.ts';
export type {
  CodeResult,
  LoadedText,
  Looked,
  ProcessResult,
  ScriptWorld,
} from './world.ts';
