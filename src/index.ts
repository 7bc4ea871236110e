/** kernmantle as a library. Everything a program needs; the rest is internal. */
export type { Fault, Json, JsonObject, Outcome } from './base/index.ts';
export type { ProgramTool } from './kernel/index.ts';
export { defineTool } from './kernel/index.ts';
export {
  type CallOptions,
  createRuntime,
  type Runtime,
  type RuntimeOptions,
  type Verb,
} from './runtime.ts';
