export {
  explainScript,
  type WatchedEnd,
  type WatchedScript,
  watchScript,
} from '../runtime/reports/script-run.ts';
export { runScriptIn, type ScriptRun, type ScriptRunResult } from '../runtime/run-script.ts';
export { findScriptProject } from '../runtime/scripts.ts';
export {
  type AroundScript,
  diagnose,
  type ScriptEffect,
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
